"""A chat endpoint: a call is sent in the way that this endpoint was found to understand, and again where it pays."""

import difflib
import time
from dataclasses import asdict, replace
from functools import partial
from threading import Lock
from typing import Any

import anyio
import httpx

from retriever.core.errors import EncoderError
from retriever.encoders.answers.answerer import C, Unread
from retriever.encoders.answers.call import Call
from retriever.encoders.answers.exchange import ReplyError, fetch, reply_of, usage_of
from retriever.encoders.answers.patience import TRANSIENT, Meter, Pace, call_seconds, pace_at, patiently
from retriever.encoders.answers.places import Place
from retriever.encoders.answers.refusals import (
    CONTEXT,
    FILTER,
    FORM,
    KEYWORD,
    MAX_TOKENS,
    SYSTEM_ROLE,
    TEMPERATURE,
    CallRefusedError,
    explained,
    late,
    says,
    unreachable,
)
from retriever.encoders.answers.remembered import Abilities, recall, remember
from retriever.encoders.answers.wire import Format, Reply, estimated_tokens

THINKING_TOKENS = 4096
"""Tokens that a model may write besides its answers once it was seen to think."""

_ABOUT_CALL = (400, 413, 422, 451, 500, 501)


class Endpoint:
    """An endpoint and what is known of it; `endpoint_at` gives each thread of a process the same object.

    Args:
        place: where it is, and which model is asked.
        pace: of its origin.
    """

    def __init__(self, place: Place, pace: Pace) -> None:
        self.place = place
        self.abilities = recall(f"{place.url}#{place.model}")
        self.refusal = ""
        self.seconds = 0.0
        self._mixed = 0
        self._cut = False
        self._ladder_failed: str | None = None
        self._begun_at = self.abilities.form
        self._pace = pace
        self._lock = Lock()

    @property
    def limit(self) -> float:
        """Seconds that a call may take."""
        return call_seconds() * (2.0 if self.abilities.slow else 1.0)

    def learn(self, **changes: Any) -> None:  # noqa: ANN401 - fields of Abilities
        """Change what is known of the endpoint; what is settled is remembered for other commands."""
        with self._lock:
            before, self.abilities = self.abilities, replace(self.abilities, **changes)
            if self.abilities.settled and self.abilities != before:
                remember(f"{self.place.url}#{self.place.model}", self.abilities)

    def mixed_up(self) -> None:
        """Note a reply that left out texts or mixed their ids: from the second on, calls get smaller."""
        with self._lock:
            self._mixed += 1
        if self._mixed > 1:
            self.learn(texts_per_call=min(self.abilities.texts_per_call, 3 if self._mixed == 2 else 1))

    def forget(self) -> None:
        """Forget what was found out, of which nothing worked."""
        self._cut, self._ladder_failed = False, None
        self.learn(**asdict(Abilities()))

    async def ask(self, client: httpx.AsyncClient, call: Call[C], meter: Meter) -> C:
        """Send a call once, or several times until the endpoint understands, and return its checked reply.

        Raises:
            CallRefusedError: the endpoint refuses this call, and may take another.
            EncoderError: the endpoint cannot be asked.
        """
        while True:
            way = self.abilities
            try:
                reply = await patiently(
                    partial(self._complete, client, call, way, meter),
                    self.place,
                    settled=way.settled,
                    until=meter.until,
                    hopeless=partial(self._named, way),
                )
            except ReplyError as failure:
                if self._adapt(way, failure):
                    continue
                raise await self._error(client, failure) from None
            except httpx.TransportError as error:
                raise unreachable(error, self.place) from None
            except TimeoutError:
                refused = CallRefusedError(Unread.LATE, late(self.place, self.limit), patient=way.slow)
                self.learn(slow=True)
                raise refused from None
            checked = call.check(reply, way.form)
            if checked.whole in (None, Unread.MIXED):
                self._ladder_failed = None
                self.learn(settled=True)
                return checked
            self.refusal = reply.refusal or self.refusal
            if not self._try_otherwise(way, reply, checked.whole or Unread.BROKEN):
                return checked

    async def _complete(self, client: httpx.AsyncClient, call: Call[C], way: Abilities, meter: Meter) -> Reply:
        """Send one request and return the reply."""
        sent = call.messages(way.form)
        if not way.system:
            system, user = sent
            sent = [{"role": "user", "content": f"{system['content']}\n\n{user['content']}"}]
        limit = call.reply_tokens + (THINKING_TOKENS if way.thinks else 0)
        body: dict[str, Any] = {"model": self.place.model, "messages": sent, way.token_limit: limit}
        if way.temperature:
            body["temperature"] = 0
        if form := call.response_format(way.form):
            body["response_format"] = form
        tokens = sum(estimated_tokens(message["content"]) for message in sent)
        await self._pace.wait(tokens + limit)
        meter.before(tokens)
        begun, most = time.monotonic(), self.limit
        try:
            with anyio.fail_after(most):
                made = await fetch(client, f"{self.place.url}/chat/completions", body)
        except httpx.ConnectError:
            meter.after(-tokens)  # nothing was sent
            raise
        reply, usage = reply_of(made), usage_of(made)
        written = usage.get("completion_tokens", estimated_tokens(f"{reply.content or ''}{reply.reasoning}"))
        meter.after(_whole(written) + (_whole(usage["prompt_tokens"]) - tokens if "prompt_tokens" in usage else 0))
        self.seconds = time.monotonic() - begun
        if way.slow and self.seconds < most / 24:  # six texts would have come in time: it was one hiccup
            self.learn(slow=False)
        return reply

    def _named(self, way: Abilities, failure: ReplyError) -> dict[str, Any]:
        """Return the ability that a failure denies by its name; empty where it names none."""
        if way.settled or failure.status not in _ABOUT_CALL:
            return {}
        if way.token_limit == "max_tokens" and says(failure, MAX_TOKENS):
            return {"token_limit": "max_completion_tokens"}
        if way.temperature and says(failure, TEMPERATURE):
            return {"temperature": False}
        return {"system": False} if way.system and says(failure, SYSTEM_ROLE) else {}

    def _adapt(self, way: Abilities, failure: ReplyError) -> bool:
        """Return whether there is another way of asking after a failure, which is taken from now on."""
        if failure.status not in _ABOUT_CALL or way.settled or says(failure, CONTEXT):
            return False
        if _way(self.abilities) != _way(way):
            return True  # another call has found another way meanwhile
        if named := self._named(way, failure):
            self.learn(**named)
            return True
        if says(failure, FILTER) or failure.said == self._ladder_failed:
            return False
        if way.form is Format.LIMITED and says(failure, FORM) and not says(failure, KEYWORD):
            self.learn(form=Format.OBJECT)
            return True
        return self._step_down(way, failure.said)

    def _step_down(self, way: Abilities, said: str) -> bool:
        """Take the next rung of the ladder; return False at its end, where the next call begins at its top."""
        if self._begun_at is not Format.LIMITED:  # what was remembered is wrong
            self._begun_at = Format.LIMITED
            self.forget()
            return True
        if way.form.below is not None:
            self.learn(form=way.form.below)
            return True
        self._ladder_failed = said
        self.learn(form=Format.LIMITED)
        return False

    def _try_otherwise(self, way: Abilities, reply: Reply, reason: Unread) -> bool:
        """Return whether there is another way of asking after a reply of which nothing is of use."""
        if not way.thinks and reason in _OUT_OF_ROOM and (reply.thinks or reason is Unread.THINKING):
            self.learn(thinks=True)
            return True
        if way.settled or reason is Unread.REFUSED:
            return False
        if reason is Unread.CUT and not self._cut:
            self._cut = True  # of one call; a server that writes on and on under a schema cuts the next as well
            return False
        return self._ladder_failed is None and self._step_down(way, "")

    async def _error(self, client: httpx.AsyncClient, failure: ReplyError) -> EncoderError:
        """Return the error for a failure: about one call, or about the endpoint."""
        settled = self.abilities.settled
        models = await self._models(client) if failure.status in (400, 404) and not settled else ""
        error = explained(failure, self.place, models, settled=settled)
        odd = failure.status in (200, *TRANSIENT) and (settled or failure.status != 200)
        if odd or says(failure, CONTEXT) or failure.status in _ABOUT_CALL:
            return CallRefusedError(Unread.ODD if odd else Unread.BLOCKED, error)
        if failure.status == 403 and (settled or says(failure, FILTER)):
            return CallRefusedError(Unread.BLOCKED, error)
        return error

    async def _models(self, client: httpx.AsyncClient) -> str:
        """Return a sentence that names models of the endpoint; an empty one where it names none, or has this one."""
        try:
            with anyio.fail_after(5):
                listed = await fetch(client, f"{self.place.url}/models")
            known = [str(model["id"]) for model in listed["data"]]
        except (ReplyError, httpx.HTTPError, TimeoutError, KeyError, TypeError):
            return ""
        if not known or self.place.model in known:
            return ""
        return f"It has {', '.join(difflib.get_close_matches(self.place.model, known, 5, 0.3) or known[:5])}."


_OUT_OF_ROOM = (Unread.CUT, Unread.THINKING, Unread.REASONING, Unread.EMPTY)


def _way(abilities: Abilities) -> tuple[object, ...]:
    return abilities.form, abilities.token_limit, abilities.temperature, abilities.system


def _whole(said: Any) -> int:  # noqa: ANN401 - JSON
    return said if isinstance(said, int) else 0


_endpoints: dict[tuple[str, str], Endpoint] = {}
_lock = Lock()


def endpoint_at(place: Place) -> Endpoint:
    """Return the one endpoint of this process for a place: what is learned of it and its pace are shared."""
    with _lock:
        known = _endpoints.get((place.url, place.model))
        if known is None:
            known = _endpoints[place.url, place.model] = Endpoint(place, pace_at(place))
        known.place = place  # the key in the environment can be meant for it now, or no longer
        return known
