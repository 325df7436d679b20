"""Answers of a model behind a chat endpoint."""

from collections.abc import Sequence
from functools import cached_property

from anyio.from_thread import start_blocking_portal

from retriever.core.errors import EncoderError, UsageError
from retriever.core.fingerprint import json_hash
from retriever.core.protocols import refuse_one_string
from retriever.core.text import is_blank
from retriever.encoders.answers.answerer import Answered, AnswererSpec, OnAnswers, explained
from retriever.encoders.answers.calls import Calls
from retriever.encoders.answers.endpoint import SECONDS, Abilities, C, Call, Endpoint
from retriever.encoders.answers.places import find_place
from retriever.encoders.answers.wire import PROMPT, estimated_tokens

PROBE_QUESTION = "Which product is it about?"
PROBES = (
    "The kettle boils fast and switches itself off.",
    "My new umbrella turned inside out on the first windy day.",
    "I have slept badly ever since this mattress came.",
    "Four stars for the toaster, minus one for the crumbs.",
    "This bicycle needs a better saddle.",
    "The camera takes sharp pictures even at night.",
    "Our dishwasher leaves every glass cloudy.",
    "The headphones hurt my ears after an hour.",
)
"""Texts whose answers tell one remote model from another under the same name."""


class ChatAnswerer:
    """Asks a chat model; an object remembers how its endpoint wants to be asked.

    Args:
        name: ``chat:MODEL`` or ``chat:URL#MODEL``.
        abilities: the endpoint's, as `abilities` of an earlier object gave them.
        fingerprint: as `fingerprint` of an earlier object gave it, so that the probes are not asked again. A server
            need not answer twice in the same words: a new fingerprint can differ though nothing was changed.
        seconds: time-out of a call.

    Raises:
        EncoderError: the name is none, or its endpoint may not be used.
    """

    def __init__(
        self, name: str, *, abilities: Abilities | None = None, fingerprint: str = "", seconds: float = SECONDS
    ) -> None:
        place = find_place(name)
        self.spec = AnswererSpec(name, place.host, place.loopback)
        self._endpoint = Endpoint(place, abilities=abilities, seconds=seconds)
        self._known = fingerprint

    @property
    def abilities(self) -> Abilities:
        """Ways of asking that the endpoint was found to understand until now."""
        return self._endpoint.abilities

    @cached_property
    def fingerprint(self) -> str:
        """Hex SHA-256 over model, prompt and the answers to the probes, which are asked now unless it is known.

        Raises:
            EncoderError: the endpoint cannot be asked, or has no answer to a probe.
        """
        if self._known:
            return self._known
        place, answered = self._endpoint.place, self.answer(PROBES, [PROBE_QUESTION])
        answers = [(answer or "").casefold() for answer in answered.answers[0]]
        if not all(answers):
            raise EncoderError(
                f"{place.model} at {place.host} has no answer to {answers.count('')} of {len(PROBES)} probes. "
                f"{explained(answered.failures)}",
                hint="Try another model.",
            )
        return json_hash({"model": place.model, "prompt": PROMPT, "probes": answers})

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Estimate the tokens of each text."""
        return [estimated_tokens(text) for text in texts]

    def answer(self, texts: Sequence[str], questions: Sequence[str], *, keep: OnAnswers | None = None) -> Answered:
        """Answer every question for every text; arguments and errors as for `Answerer.answer`.

        A call whose reply is no good is asked again text by text, once. An error ends the work after the calls in
        flight; an interrupt cancels these.
        """
        refuse_one_string(texts, questions)
        if any(is_blank(question) for question in questions):
            raise UsageError("A question is blank.")
        calls = Calls(texts, questions, self._endpoint, keep)
        if calls.pending:
            with (
                start_blocking_portal() as portal,
                portal.wrap_async_context_manager(self._endpoint.connected()) as client,
            ):
                calls.run(portal, client)
        return calls.result()

    def send(self, call: Call[C]) -> C:
        """Send a call and return its checked reply.

        Raises:
            EncoderError: the endpoint cannot be asked.
        """
        with (
            start_blocking_portal() as portal,
            portal.wrap_async_context_manager(self._endpoint.connected()) as client,
        ):
            return portal.call(self._endpoint.ask, client, call)
