"""How calls to an endpoint take their time: at a pace, each with an end, and sent again after failures that pass."""

import os
import time
from collections.abc import Awaitable, Callable
from threading import Lock
from typing import TypeVar

import anyio
import httpx

from retriever.core.errors import EncoderError
from retriever.encoders.answers.answerer import Spend, Waiting
from retriever.encoders.answers.exchange import ReplyError
from retriever.encoders.answers.places import Place
from retriever.encoders.answers.refusals import CALL_SECONDS, QUOTA, TOKENS_A_MINUTE, says

SECONDS = 120.0
"""Seconds that a call may take, where the environment sets no others."""

BACKOFF = 0.25, 3.0
"""Seconds before a call is sent again: at first, then twice as many each time, up to these."""

PATIENCE = {429: 15.0, **dict.fromkeys((502, 503, 504, 520, 521, 522, 523, 524, 529), 60.0)}
"""Seconds in all that a call waits for an endpoint that has too much to do, or is only starting."""

LONGEST_WAIT = 60.0
"""Longest ``Retry-After`` that is waited for; of one that is starting five times as long."""

RETRIES = 5
FIRST_RETRIES = 2
"""Retries after other failures, and until an endpoint has answered: one that is not there is told soon."""

TRANSIENT = (408, 409, 425, 500)
"""Statuses after which the same call may well be answered."""

T = TypeVar("T")
Hopeless = Callable[[ReplyError], object]
"""Says of a failure whether the same call would fail again."""


class Meter:
    """The allowance of a request, and its end.

    Args:
        spend: told of tokens; None for nobody.
        until: a `time.monotonic` up to which may be waited for; None for the usual waits.
    """

    def __init__(self, spend: Spend | None, until: float | None = None) -> None:
        self._spend = spend
        self.until = until

    def before(self, tokens: int) -> None:
        """Count a request, or raise in its place."""
        if self._spend is not None:
            self._spend.before(tokens)

    def after(self, tokens: int) -> None:
        """Count a reply."""
        if self._spend is not None:
            self._spend.after(tokens)


class Pace:
    """Spreads the calls of a process to an origin so that a minute has at most so many tokens, by their estimate."""

    def __init__(self) -> None:
        self._free = 0.0
        self._lock = Lock()

    async def wait(self, tokens: int) -> None:
        """Wait until a call of so many tokens may begin."""
        most = _number(TOKENS_A_MINUTE, "a number of tokens, such as 30000", 0)
        with self._lock:
            now = time.monotonic()
            begin = max(now, self._free) if most else now
            self._free = begin + (tokens * 60.0 / most if most else 0.0)
        await anyio.sleep(begin - now)


_paces: dict[str, Pace] = {}
_lock = Lock()


def pace_at(place: Place) -> Pace:
    """Return the one pace of this process for the origin of a place, whatever is asked there."""
    with _lock:
        return _paces.setdefault(f"{place.url.partition(':')[0]}://{place.host}", Pace())


def call_seconds() -> float:
    """Return how many seconds a call may take; raise `EncoderError` where the variable for it holds no number."""
    return _number(CALL_SECONDS, "a number of seconds, such as 300", SECONDS)


def _number(variable: str, wanted: str, usual: float) -> float:
    """Return the number that a variable sets.

    Raises:
        EncoderError: it sets none.
    """
    said = os.environ.get(variable, "").strip()
    if said and (not said.isdecimal() or int(said) < 1):
        raise EncoderError(f"{variable} is {said!r}.", hint=f"Set it to {wanted}.")
    return float(said or usual)


async def patiently(
    send: Callable[[], Awaitable[T]],
    place: Place,
    *,
    settled: bool,
    until: float | None = None,
    hopeless: Hopeless = lambda failure: False,
) -> T:
    """Send a request, and again after failures that pass.

    Args:
        send: sends it once.
        place: of the endpoint.
        settled: whether the endpoint has answered before.
        until: a `time.monotonic` up to which may be waited for; None for the usual waits.
        hopeless: whether the same request would fail again.

    Raises:
        ReplyError, httpx.TransportError, TimeoutError: of the last try.
    """
    waited, tries = 0.0, 0
    most = RETRIES if settled else FIRST_RETRIES
    while True:
        try:
            return await send()
        except (ReplyError, httpx.TransportError) as error:
            seconds = min(BACKOFF[0] * 2**tries, BACKOFF[1])
            if isinstance(error, ReplyError) and error.retry_after is not None:
                seconds = max(seconds, error.retry_after)
            if isinstance(error, ReplyError) and error.status in PATIENCE:
                again = _worth_waiting(error, waited, seconds, until)
            elif isinstance(error, ReplyError) and (error.status not in TRANSIENT or hopeless(error)):
                again = False
            else:
                again = "CERTIFICATE" not in str(error) and tries < most
            if not again:
                raise
            if tries == 0 or seconds > BACKOFF[1]:
                why = f"status {error.status}, {error.said}" if isinstance(error, ReplyError) else str(error)
                Waiting.on_wait(f"{place.host} ({place.model}) is asked again in {seconds:.0f} s: {why}")
        await anyio.sleep(seconds)
        waited, tries = waited + seconds, tries + 1


def _worth_waiting(failure: ReplyError, waited: float, seconds: float, until: float | None) -> bool:
    """Return whether an endpoint that has too much to do, or is only starting, is waited for."""
    if says(failure, QUOTA):
        return False
    if failure.retry_after is None:
        return waited < PATIENCE[failure.status]
    longest = LONGEST_WAIT if failure.status == 429 else 5 * LONGEST_WAIT
    in_time = until is not None and time.monotonic() + seconds < until
    return (seconds <= longest and waited <= longest) or in_time
