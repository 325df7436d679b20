"""A reranker behind an endpoint, in either of two dialects.

Jina, Cohere, vLLM and infinity take ``{"model", "query", "documents"}`` at ``/rerank`` and give
``{"results": [{"index", "relevance_score"}]}``. TEI takes ``{"query", "texts"}`` there and gives
``[{"index", "score"}]``. The first is tried first, and what a server took is remembered for the process.
"""

import json
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import anyio
import httpx
from anyio.from_thread import start_blocking_portal

from retriever.core.errors import EncoderError
from retriever.core.text import shortened
from retriever.encoders.answers.answerer import Spend
from retriever.encoders.answers.exchange import ReplyError, connected, fetch
from retriever.encoders.answers.patience import Meter, call_seconds, pace_at, patiently
from retriever.encoders.answers.places import ENCODERS, find_place
from retriever.encoders.answers.refusals import Wording, explained, late, unreachable
from retriever.encoders.answers.wire import beginning, estimated_tokens

SECONDS = 30.0
"""Seconds that a search waits for scores, at most."""

TEXT_TOKENS = 400
"""Tokens of a text that are sent, about: many rerankers read 512 with the query, and some refuse more."""

_WORDS = Wording("scores", "rerank", "http:URL#MODEL", "Hits keep their order.")
_NOT_UNDERSTOOD = (400, 422)  # statuses of a request in another dialect than the server's
_takes_texts: set[str] = set()  # addresses of servers that speak the second dialect


class EndpointReranker:
    """Asks a reranker at an endpoint.

    Args:
        name: ``http:URL#MODEL``.

    Raises:
        EncoderError: the name is none, or its endpoint may not be used.
    """

    def __init__(self, name: str) -> None:
        self.place = find_place(name, ENCODERS)
        self.fingerprint = f"{self.place.url}#{self.place.model}"
        self._address = f"{self.place.url.removesuffix('/rerank')}/rerank"

    def score(self, query: str, texts: Sequence[str], *, spend: Spend | None = None) -> list[float]:
        """Return a score for each text; arguments and errors as for `Reranker.score`."""
        with start_blocking_portal() as portal, portal.wrap_async_context_manager(connected(self.place)) as client:
            return portal.call(self._score, client, query, texts, Meter(spend))

    async def _score(self, client: httpx.AsyncClient, query: str, texts: Sequence[str], meter: Meter) -> list[float]:
        sent = [beginning(text, TEXT_TOKENS) for text in texts]
        seconds = min(call_seconds(), SECONDS)
        try:
            with anyio.fail_after(seconds):
                made = await self._reply(client, query, sent, meter)
        except ReplyError as failure:
            raise explained(failure, self.place, "", settled=False, words=_WORDS) from None
        except httpx.TransportError as error:
            raise unreachable(error, self.place, _WORDS) from None
        except TimeoutError:
            raise late(self.place, seconds, _WORDS) from None
        scores = _scores(made, len(sent))
        if scores is None:
            said = shortened(json.dumps(made, ensure_ascii=False), 200)
            raise EncoderError(
                f"{self.place.host} did not send one score for each text: {said}", hint="See the server's log."
            )
        return scores

    async def _reply(self, client: httpx.AsyncClient, query: str, texts: Sequence[str], meter: Meter) -> Any:  # noqa: ANN401 - JSON
        """Return what the server replies in its dialect; where it understands neither, what it said to the first."""
        first: dict[str, Any] = {"model": self.place.model, "query": query, "documents": texts}
        other: dict[str, Any] = {"query": query, "texts": texts, "truncate": True}
        if self._address in _takes_texts:
            first, other = other, first
        try:
            return await self._patiently(client, first, meter)
        except ReplyError as failure:
            if failure.status not in _NOT_UNDERSTOOD:
                raise
            try:
                made = await self._patiently(client, other, meter)
            except ReplyError as again:
                raise (failure if again.status in _NOT_UNDERSTOOD else again) from None
        (_takes_texts.add if "texts" in other else _takes_texts.discard)(self._address)
        return made

    async def _patiently(self, client: httpx.AsyncClient, body: dict[str, Any], meter: Meter) -> Any:  # noqa: ANN401 - JSON
        return await patiently(partial(self._send, client, body, meter), self.place, settled=False)

    async def _send(self, client: httpx.AsyncClient, body: dict[str, Any], meter: Meter) -> Any:  # noqa: ANN401 - JSON
        texts = body.get("documents") or body["texts"]
        tokens = sum(estimated_tokens(body["query"]) + estimated_tokens(text) for text in texts)
        await pace_at(self.place).wait(tokens)
        meter.before(tokens)
        try:
            return await fetch(client, self._address, body)
        except (ReplyError, httpx.ConnectError):
            meter.after(-tokens)  # nothing was read
            raise


def _scores(made: Any, count: int) -> list[float] | None:  # noqa: ANN401 - JSON
    """Return the scores of so many texts in their order; None where a reply does not have one for each."""
    given = made.get("results") if isinstance(made, dict) else made
    rows = given if isinstance(given, list) else []
    scores: dict[object, float] = {}
    for row in rows:
        score = row.get("relevance_score", row.get("score")) if isinstance(row, dict) else None
        if isinstance(score, int | float) and not isinstance(score, bool) and math.isfinite(score):
            scores[row.get("index")] = float(score)
    if len(rows) != count or scores.keys() != {*range(count)}:
        return None
    return [scores[place] for place in range(count)]
