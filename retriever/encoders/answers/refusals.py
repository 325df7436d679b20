"""What the errors of an endpoint mean: another way to ask, or an error of ours with the next step."""

import os
import re

import openai

from retriever.core.errors import EncoderError
from retriever.core.text import shortened
from retriever.encoders.answers.places import API_KEY, BASE_URL, Place

_CONTEXT = re.compile(r"context[ _](?:length|window|size)|n_ctx|maximum context|too many tokens", re.IGNORECASE)


def message_of(error: openai.APIError) -> str:
    """Return an error's own words, shortened to one line; the key is never among them."""
    key = os.environ.get(API_KEY, "")
    body = error.body
    said = str(body["message"]) if isinstance(body, dict) and body.get("message") else error.message
    return shortened(said.replace(key, "***") if key else said, 300)


def is_about_context(error: openai.APIError) -> bool:
    """Return whether an endpoint says that a call is longer than its model reads."""
    return error.code == "context_length_exceeded" or _CONTEXT.search(error.message) is not None


def names(error: openai.APIError, parameter: str) -> bool:
    """Return whether an error is about a parameter of the request."""
    return error.param == parameter or parameter in error.message


def explained(error: openai.APIError, place: Place) -> EncoderError:
    """Return the error that a user gets, with host, model and the next step."""
    if isinstance(error, openai.APITimeoutError):
        return EncoderError(
            f"{place.host} took too long to answer.", hint=f"Try again, or a smaller model than {place.model}."
        )
    if isinstance(error, openai.APIConnectionError):
        return EncoderError(
            f"{place.host}, which should have {place.model}, cannot be reached.",
            hint=f"Start its server, or check the address: {BASE_URL}, or chat:URL#MODEL.",
        )
    if not isinstance(error, openai.APIStatusError):
        return no_completion(place)
    return _by_status(error, place)


def no_completion(place: Place) -> EncoderError:
    """Return the error of a reply that is none of a chat endpoint."""
    return EncoderError(
        f"{place.host} sent no chat completion for {place.model}.",
        hint="The address must be that of an OpenAI-compatible endpoint; it usually ends in /v1.",
    )


def _by_status(error: openai.APIStatusError, place: Place) -> EncoderError:
    status = error.status_code
    where = f"{place.host} ({place.model})"
    if status in (401, 403):
        if place.keyed:
            hint = f"Check the key in {API_KEY}, and whether it may use {place.model}."
        else:
            hint = f"The key in {API_KEY} is sent to {BASE_URL} alone; set that to {place.url} if the key is for it."
        return EncoderError(f"{where} refused access with status {status}.", hint=hint)
    if 300 <= status < 400:
        return EncoderError(
            f"{where} wants calls to go to another address, and texts are not sent on.",
            hint="Name the address that it leads to, if that is one to trust.",
        )
    if status == 404:
        return EncoderError(
            f"{place.host} has no model {place.model}, or no chat endpoint at {place.url}: {message_of(error)}",
            hint="Check the model's name on the server; the address usually ends in /v1.",
        )
    if is_about_context(error):
        return EncoderError(
            f"A call is too long for {where}: {message_of(error)}",
            hint="Give the model a context of 4,096 tokens or more on its server.",
        )
    if status == 429:
        return EncoderError(
            f"{where} gives no more answers for now: {message_of(error)}",
            hint="Go on later; answers until now are kept.",
        )
    return EncoderError(
        f"{where} failed with status {status}: {message_of(error)}",
        hint="See the server's log; answers until now are kept.",
    )
