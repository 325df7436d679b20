"""Answering queries: dense, lexical or both, on a complete view, the base view, or lazily under a new instruction.

Each way ends in rankings of contents (`retriever.services.rankings`), which become documents at the very end.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TypeVar

from retriever.core.errors import IndexDamagedError, RetrieverError, UsageError
from retriever.core.protocols import Encoder
from retriever.core.text import require_text
from retriever.core.types import Embeddings, Encoded, Ids
from retriever.services.encoding import count_tokens, encode_views, token_limit, view_key, with_steps
from retriever.services.query_steps import FIRST_HITS, EmbeddedQueries, Steps, embed_queries, own_steps
from retriever.services.rankings import Answer, Answers, Ranking, as_results, cosines, fuse, nearest, products
from retriever.services.results import Mode, Path, SearchResult
from retriever.services.typical import first_to_read
from retriever.services.view_search import ViewSearcher
from retriever.store.database import Store
from retriever.store.filters import Filter
from retriever.store.views import View

CANDIDATES = 100  # depth of the rankings that are fused
TOKEN_BUDGET = 6_500  # tokens read anew for one search under a new instruction
TYPICAL_PART = 4  # one in so many of these is for texts that show what is typical
PROMPT_TOKENS = 25  # what template and instruction add to a text, about


T = TypeVar("T")
EncoderSource = Callable[[], Encoder]
ViewSource = Callable[[View], ViewSearcher]
VectorSink = Callable[[View, Sequence[int], Encoded], None]


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What to search for.

    Attributes:
        queries: one or more texts.
        instruction: what to look for; empty for the default.
        k: hits per query.
        where: a parsed filter.
        mode: dense, lexical, hybrid, or auto.
        steps: K for the queries, where the encoder has it; ``auto`` as many as each needs (`embed_queries`).
        like: the id of a document the hits should resemble; it is left out of them.
    """

    queries: Sequence[str]
    instruction: str = ""
    k: int = 10
    where: Filter | None = None
    mode: Mode = "auto"
    steps: Steps = None
    like: str | None = None

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UsageError(f"k is {self.k}.", hint="Ask for at least 1 hit.")
        object.__setattr__(self, "instruction", self.instruction.strip())
        if not self.queries or any(not query.strip() for query in self.queries):
            raise UsageError("A query is empty.", hint="Say what to look for.")
        require_text(*self.queries, self.instruction)
        if self.mode not in ("auto", "dense", "lexical", "hybrid"):
            raise UsageError(f"Unknown mode {self.mode!r}.", hint="Known: auto, dense, lexical, hybrid.")

    @property
    def depth(self) -> int:
        """How deep the rankings have to go."""
        return max(CANDIDATES, self.k + 1) if self.mode == "hybrid" else self.k + (self.like is not None)


@dataclass(frozen=True, slots=True)
class _Question:
    """What a lazy search goes on with: the base view, and the queries (n, dim) under its instruction and the given.

    All of it is one encoder's, whatever the index's is by then.
    """

    request: SearchRequest
    encoder: Encoder
    base: View
    plain: EmbeddedQueries
    asked: EmbeddedQueries


@dataclass(frozen=True, slots=True)
class _AtOnce:
    """An answer from what is stored, and the question to go on with where the instruction is new."""

    results: list[SearchResult]
    lazy: _Question | None = None


@dataclass(frozen=True, slots=True)
class _Candidates:
    """What one query found before anything is read: by vectors, by words, and all in the order worth reading."""

    dense: Ranking
    lexical: Ranking
    order: list[int]


class Searcher:
    """Searches one index.

    Args:
        store: its database.
        encoder: gives the encoder, loaded when first needed.
        views: gives the searcher of a view.
        keep: stores vectors that a lazy search computed.
    """

    def __init__(self, store: Store, encoder: EncoderSource, views: ViewSource, keep: VectorSink) -> None:
        self._store = store
        self._encoder = encoder
        self._views = views
        self._keep = keep

    def search(self, request: SearchRequest) -> Iterator[list[SearchResult]]:
        """Yield one result per query; under a new instruction first the base view's, then the final ones.

        Each answer comes from one state of the database, whatever is written meanwhile. Where the index changes its
        encoder between the two, the final one is searched for from the start.
        """
        started = time.perf_counter()
        found = self._steadily(lambda: self._at_once(self._capped(request), started))
        yield found.results
        while found.lazy is not None:
            question = replace(found.lazy, request=replace(found.lazy.request, k=request.k))
            results = self._finished(question, started)
            if results is not None:
                yield results
                return
            found = self._steadily(lambda: self._at_once(self._capped(request), started))
            if found.lazy is None:
                yield found.results

    def _capped(self, request: SearchRequest) -> SearchRequest:
        """Return the request for no more hits than there are documents in the state that is read."""
        return replace(request, k=max(1, self._store.documents.count_to(request.k)))

    def _steadily(self, answer: Callable[[], T]) -> T:
        """Return an answer drawn from one state of the database.

        A file that this state names can be gone because a writer put another in its place; then the next state is
        asked. In a state that stays, it is damage.
        """
        while True:
            version = self._store.data_version()
            try:
                with self._store.snapshot():
                    return answer()
            except IndexDamagedError:
                if self._store.data_version() == version:
                    raise

    def _at_once(self, request: SearchRequest, started: float) -> "_AtOnce":
        """Answer from what is stored, and say whether a lazy search can do better.

        Mode ``auto`` is what benchmarks/search_modes.py measured to serve best: words alone lead while they find
        enough and there is no instruction, which words cannot follow.
        """
        self._store.inspection.require_documents_listed()
        by_words = request.mode == "auto" and request.like is None and not request.instruction
        if request.mode == "lexical" or by_words:
            rankings = [self._lexical(request, query, request.depth) for query in request.queries]
            if not by_words or all(len(one.ids) >= request.k for one in rankings):
                answers = Answers(
                    None, "base", [Answer(one, {}, [], one.ids) for one in rankings], [None] * len(rankings)
                )
                return _AtOnce(as_results(self._store, replace(request, mode="lexical"), answers, started))
        if request.mode == "auto":
            request = replace(request, mode="hybrid" if request.like is None else "dense")
        allowed = self._allowed(request)
        encoder = self._encoder()
        base_key, key = view_key(encoder, ""), view_key(encoder, request.instruction)
        view = self._store.views.find(key)
        if view is not None and (key == base_key or self._views(view).complete):
            return _AtOnce(self._complete(request, view, allowed, started))
        base = self._store.views.find(base_key)
        if base is None:
            nothing = [
                SearchResult(query, request.instruction, None, "base", request.mode, [], 0.0)
                for query in request.queries
            ]
            return _AtOnce(nothing)
        plain, asked = self._both(request, base, allowed)
        answers = self._dense(request, base, plain, allowed, "base")
        return _AtOnce(
            as_results(self._store, request, answers, started), _Question(request, encoder, base, plain, asked)
        )

    def _allowed(self, request: SearchRequest) -> Ids | None:
        return None if request.where is None else self._store.documents.matching(request.where)

    def _both(self, request: SearchRequest, base: View, allowed: Ids | None) -> tuple[EmbeddedQueries, EmbeddedQueries]:
        """Embed the queries for a search of the base view, under its instruction and the given one."""
        instructions = [base.key.instruction, request.instruction]
        if request.steps == "auto":
            plain, asked = (self._embedded(request, base, one, allowed) for one in instructions)
            return plain, asked
        encoder = with_steps(self._encoder(), request.steps)
        plain, asked = (
            EmbeddedQueries(vectors, own_steps(encoder, len(vectors)))
            for vectors in encoder.encode_many(request.queries, instructions)
        )
        return plain, asked

    def _embedded(self, request: SearchRequest, view: View, instruction: str, allowed: Ids | None) -> EmbeddedQueries:
        """Embed the queries under an instruction for a search of a view."""
        return embed_queries(
            self._encoder(),
            request.queries,
            instruction,
            request.steps,
            lambda vectors: [one.ids for one in self._nearest(view, vectors, FIRST_HITS, allowed)],
            lambda vector, ids: cosines(self._store, view, vector - self._views(view).shift, ids),
        )

    def _complete(self, request: SearchRequest, view: View, allowed: Ids | None, started: float) -> list[SearchResult]:
        queries = self._embedded(request, view, view.key.instruction, allowed)
        path: Path = "complete" if view.key.instruction else "base"
        return as_results(self._store, request, self._dense(request, view, queries, allowed, path), started)

    def _dense(
        self, request: SearchRequest, view: View, queries: EmbeddedQueries, allowed: Ids | None, path: Path
    ) -> Answers:
        """Search a view and, in hybrid mode, fuse with the lexical ranking."""
        depth = request.depth
        dense = self._nearest(view, queries.vectors, depth, allowed)
        if request.mode == "dense" and not self._views(view).shift.any():
            answers = [Answer(one, dict(zip(one.ids, one.scores, strict=True)), one.ids, []) for one in dense]
            return Answers(view, path, answers, queries.steps)
        answers = []
        for query, vector, one in zip(request.queries, queries.vectors, dense, strict=True):
            if request.mode == "dense":
                answers.append(Answer(one, cosines(self._store, view, vector, one.ids), one.ids, []))
                continue
            lexical = self._lexical(request, query, depth)
            fused = fuse(one, lexical)
            answers.append(Answer(fused, cosines(self._store, view, vector, fused.ids[:depth]), one.ids, lexical.ids))
        return Answers(view, path, answers, queries.steps)

    def _nearest(self, view: View, vectors: Embeddings, depth: int, allowed: Ids | None) -> list[Ranking]:
        """Return the best contents of every query (n, dim) by what sets them apart in the view."""
        searcher = self._views(view)
        return nearest(searcher, vectors - searcher.shift, depth, allowed)

    def _lexical(self, request: SearchRequest, query: str, depth: int) -> Ranking:
        hits = self._store.documents.lexical(query, depth, request.where)
        return Ranking([hit.content_id for hit in hits], [hit.score for hit in hits])

    def _finished(self, question: "_Question", started: float) -> list[SearchResult] | None:
        """Return the lazy answer, or None where the question's base view is the index's no longer."""
        try:
            return self._lazy(question, started) if self._serves(question) else None
        except RetrieverError:
            if self._serves(question):
                raise
            return None

    def _serves(self, question: "_Question") -> bool:
        base = self._store.views.find(view_key(self._encoder(), ""))
        return base is not None and base.view_id == question.base.view_id

    def _lazy(self, question: "_Question", started: float) -> list[SearchResult]:
        """Read the foremost candidates anew under the instruction and answer as its complete view would.

        Candidates that the token budget leaves out stand behind those that were read, in the base view's order.
        """
        with self._store.transaction():
            view = self._store.views.ensure(view_key(question.encoder, question.request.instruction), lazy=True)
        candidates = self._steadily(lambda: self._candidates(question))
        self._fill(view, [one.order for one in candidates], question.encoder)
        return self._steadily(lambda: self._reordered(question, view, started))

    def _reordered(self, question: "_Question", view: View, started: float) -> list[SearchResult]:
        answers = []
        shift = self._views(view).shift
        for vector, found in zip(question.asked.vectors, self._candidates(question), strict=True):
            scores, known = products(self._store, view, [vector - shift, vector], found.order)
            instructed = sorted(scores, key=lambda content_id: (-scores[content_id], content_id))
            unread = [content_id for content_id in found.dense.ids if content_id not in scores]
            dense = instructed + unread
            answers.append(Answer(fuse(Ranking(dense, []), found.lexical), known, dense, found.lexical.ids))
        return as_results(
            self._store, self._capped(question.request), Answers(view, "lazy", answers, question.asked.steps), started
        )

    def _candidates(self, question: "_Question") -> list["_Candidates"]:
        """Return, per query, what the base view finds for it under either instruction, and what its words find."""
        request = self._capped(question.request)
        allowed = self._allowed(request)
        depth = max(CANDIDATES, request.depth)
        by_plain = self._nearest(question.base, question.plain.vectors, depth, allowed)
        by_asked = self._nearest(question.base, question.asked.vectors, depth, allowed)
        found = []
        for query, plain, asked in zip(request.queries, by_plain, by_asked, strict=True):
            lexical = Ranking([], []) if request.mode == "dense" else self._lexical(request, query, depth)
            found.append(_Candidates(fuse(plain, asked), lexical, fuse(plain, asked, lexical).ids))
        return found

    def _fill(self, view: View, candidates: Sequence[Sequence[int]], encoder: Encoder) -> None:
        """Embed what the view lacks, as much as the token budget holds, and keep it.

        First come texts that show what is typical, in a part of the budget, then the foremost candidates.
        """
        typical = first_to_read(self._store.documents.live_contents())
        # Round-robin over the queries, so that each gets its best candidates read.
        width = max(map(len, candidates), default=0)
        order = dict.fromkeys(ids[i] for i in range(width) for ids in candidates if i < len(ids))
        texts = self._store.documents.texts(self._store.vectors.missing(view.view_id, [*typical, *order]))
        costs = _costs(encoder, texts)
        wanted = _within([*_within(typical, costs, TOKEN_BUDGET // TYPICAL_PART), *order], costs, TOKEN_BUDGET)
        if not wanted:
            return
        encoded = encode_views(encoder, [texts[one] for one in wanted], [view.key.instruction])[0]
        self._keep(view, wanted, encoded)


def _costs(encoder: Encoder, texts: Mapping[int, str]) -> dict[int, int]:
    """Return how many tokens each text takes to be read, with its prompt."""
    limit = token_limit(encoder) or TOKEN_BUDGET
    tokens = count_tokens(encoder, list(texts.values()))
    return {one: min(min(count, limit) + PROMPT_TOKENS, TOKEN_BUDGET) for one, count in zip(texts, tokens, strict=True)}


def _within(ids: Iterable[int], costs: Mapping[int, int], budget: int) -> list[int]:
    """Return those of the ids that have a cost, each once, as far as a budget reaches."""
    known = [one for one in dict.fromkeys(ids) if one in costs]
    totals = accumulate(costs[one] for one in known)
    return [one for one, total in zip(known, totals, strict=True) if total <= budget]
