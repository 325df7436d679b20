"""Failures of an endpoint: what they are about, and the error of ours that says the next step."""

import re
import ssl
from dataclasses import dataclass

import httpx

from retriever.core.errors import EncoderError
from retriever.encoders.answers.answerer import Unread
from retriever.encoders.answers.exchange import ReplyError
from retriever.encoders.answers.places import API_KEY, BASE_URL, Place

CALL_SECONDS = "RETRIEVER_CALL_SECONDS"
"""The variable that sets how many seconds a call may take."""

TOKENS_A_MINUTE = "RETRIEVER_TOKENS_A_MINUTE"
"""The variable that limits the tokens of a minute, sent and allowed in replies; without it there is no limit."""

KEPT = "Answers until now are kept."
CONTEXT = re.compile(r"context[ _](?:length|window|size)|n_ctx|maximum context|too many tokens", re.IGNORECASE)
FILTER = re.compile(
    r"content[ _-]?(?:filter|management|policy)|moderat|flagged|safety|responsible ai|inappropriate", re.IGNORECASE
)
SYSTEM_ROLE = re.compile(
    r"system[ _](?:role|message|prompt|instruction)|role\W{0,3}system|developer instruction|roles must alternate"
    r"|only user and assistant|unknown variant.{0,3}system",
    re.IGNORECASE,
)
KEYWORD = re.compile(r"max_?length|(?:min|max)_?items|enum|invalid schema|not permitted|keyword", re.IGNORECASE)
FORM = re.compile(r"response_format|json_schema", re.IGNORECASE)
MAX_TOKENS = re.compile("max_tokens")
TEMPERATURE = re.compile("temperature")
QUOTA = re.compile(r"quota|billing|credit", re.IGNORECASE)


class CallRefusedError(EncoderError):
    """An endpoint refuses a call, or fails at it, and may take another.

    Attributes:
        reason: why its texts have no answers.
        patient: whether the call had the longer limit of a slow endpoint.
    """

    def __init__(self, reason: Unread, error: EncoderError, *, patient: bool = False) -> None:
        super().__init__(error.message, hint=error.hint)
        self.reason = reason
        self.patient = patient


def says(failure: ReplyError, pattern: re.Pattern[str]) -> bool:
    """Return whether the words of a failure, its code or its parameter have a pattern."""
    return pattern.search(f"{failure.code} {failure.said}") is not None


@dataclass(frozen=True, slots=True)
class Wording:
    """Words of errors that depend on what is asked of an endpoint.

    Attributes:
        made: what it should send.
        kind: of endpoint.
        name: how it is named.
        kept: what becomes of the work so far.
    """

    made: str = "chat completion"
    kind: str = "chat"
    name: str = "chat:URL#MODEL"
    kept: str = KEPT


OF_CHAT = Wording()


def late(place: Place, seconds: float, words: Wording = OF_CHAT) -> EncoderError:
    """Return the error of an endpoint that does not answer in time."""
    return EncoderError(
        f"{place.host} took longer than {seconds:.0f} s to answer with {place.model}.",
        hint=f"Allow a call more with {CALL_SECONDS}, or name a faster model. {words.kept}",
    )


def unreachable(error: httpx.TransportError, place: Place, words: Wording = OF_CHAT) -> EncoderError:
    """Return the error of an endpoint to which there is no connection."""
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return EncoderError(
            f"The certificate of {place.host} is not trusted: {error}.",
            hint="Set SSL_CERT_FILE to a file that holds the certificate of who signed it.",
        )
    if isinstance(error.__cause__, ssl.SSLError) or "SSL" in str(error):
        return EncoderError(f"{place.host} speaks no https: {error}.", hint="Check the port, or say http://.")
    said = f" ({error})" if str(error) else ""
    return EncoderError(
        f"{place.host}, which should have {place.model}, cannot be reached{said}.",
        hint=f"Start its server, or check the address: {BASE_URL}, or {words.name}. {words.kept}",
    )


def explained(
    failure: ReplyError, place: Place, models: str, *, settled: bool, words: Wording = OF_CHAT
) -> EncoderError:
    """Return the error that a user gets, with host, model and the next step.

    Args:
        failure: of the endpoint.
        place: where it is.
        models: a sentence that names the endpoint's models, or an empty one.
        settled: whether it answered before.
        words: for what was asked.
    """
    status, where = failure.status, f"{place.host} ({place.model})"
    said = f": {failure.said}" if failure.said else ""
    said += ". That is a web page, as a proxy before the server sends it" if failure.page else ""
    if status == 200:
        hint = "The address must be that of an OpenAI-compatible endpoint; it usually ends in /v1."
        hint = f"See the log of the server, or of a proxy before it. {words.kept}" if settled else hint
        return EncoderError(f"{place.host} sent no {words.made} for {place.model}{said}.", hint=hint)
    if 300 <= status < 400:
        return EncoderError(
            f"{where} wants calls to go to another address, and texts are not sent on.",
            hint="Name the address that it leads to, if that is one to trust.",
        )
    if says(failure, CONTEXT) or status == 413:
        return EncoderError(
            f"A call is too long for {where}{said}.",
            hint="Give the model a context of 4,096 tokens or more on its server.",
        )
    if status in (401, 403) and not place.keyed:
        hint = f"The key in {API_KEY} is sent to {BASE_URL} alone; set that to {place.url} if the key is for it."
    else:
        hint = _HINTS.get(status, "See the server's log. {kept}").format(model=place.model, kept=words.kept)
    failed = _FAILED.get(status, "failed with status {status}").format(status=status, url=place.url, kind=words.kind)
    if status == 429 and failure.retry_after:
        failed = f"gives no more answers for {failure.retry_after:.0f} s"
    return EncoderError(f"{where} {failed}{said}.", hint=f"{models} {hint}".strip())


_FAILED = {
    401: "refused access with status 401",
    402: "wants to be paid (status 402)",
    403: "refused access with status 403",
    404: "has no such model, or there is no {kind} endpoint at {url}",
    429: "gives no more answers for now",
}
_HINTS = {
    400: f"Check the model's name, and the key in {API_KEY}.",
    401: f"Check the key in {API_KEY}, and whether it may use {{model}}.",
    402: "Look at the credits of your account. {kept}",
    403: f"Check the key in {API_KEY}, and whether it may use {{model}} from here.",
    404: "Check the model's name on the server; the address usually ends in /v1.",
    429: f"Look at your account's limits, or keep below them with {TOKENS_A_MINUTE}. {{kept}}",
}
