"""Hold the findings that a search goes on with where its instruction's view lacks texts, and choose which it reads.

Candidates come from the base view, by the query under either instruction, and from the words. The foremost are read
under the instruction, as far as a token budget reaches.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, islice, zip_longest

import numpy as np

from retriever.core.protocols import Encoder
from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.types import Embeddings, Ids
from retriever.index.search import centering, feedback
from retriever.index.search.beside import Beside, plain_queries
from retriever.index.search.rankings import Ranking, fuse, nearest
from retriever.index.search.view_searcher import LoadedView
from retriever.index.sources.catalog import Sources
from retriever.index.sources.filling import encode_queries, of_one_encoder
from retriever.index.sources.source import Source
from retriever.store.database import Store
from retriever.store.vectors import VectorRevision
from retriever.store.views import View

HALF = 0.5
"""Share of the texts; a view that holds more is searched before what it lacks is read."""

LEARNED_FROM = 400
"""Most texts that a search learns from, the last that were read."""

_AT_ONCE = 64  # texts whose tokens are counted together


State = tuple[int, VectorRevision]
"""The state that findings rest on, of the documents and of the base view: in an equal one they would be the same."""


@dataclass(frozen=True, slots=True)
class Found:
    """The findings for the queries of a request; the rankings are in their order.

    Attributes:
        allowed: the contents that the filter allows, ascending; None without a filter.
        words: by the queries' words; empty rankings where they have no say.
        plain: in the base view, by the queries as its encoder takes them; none where it was not searched.
        asked: in the base view, by the queries under the given one; empty rankings where another encoder made that.
        state: in which all this was found; None where the base view was not searched.
        learned: by what was learned from the texts read so far; none before a first round.
        beside: what the base encoder says beside the instruction encoder; None where it has no say.
    """

    allowed: Ids | None
    words: list[Ranking]
    plain: Sequence[Ranking] = ()
    asked: Sequence[Ranking] = ()
    state: State | None = None
    learned: Sequence[Ranking] = ()
    beside: Beside | None = None

    def by_vectors(self) -> list[Ranking]:
        """Return the candidates of every query by vectors alone; what was learned comes first."""
        if self.learned:
            return [
                Ranking(list(dict.fromkeys([*learned.ids, *plain.ids])), [])
                for learned, plain in zip(self.learned, self.plain, strict=True)
            ]
        return [fuse(plain, under) for plain, under in zip(self.plain, self.asked, strict=True)]

    def candidates(self, *, fused: bool = False) -> list[int]:
        """List the texts worth reading, best first; the queries take turns, so that each gets its best read.

        Learned rankings go before the others, or are among them (``fused``).
        """
        if self.learned and fused:
            rankings = list(map(fuse, self.plain, self.words, self.learned))
        else:
            rankings = self.by_vectors() if self.learned else list(map(fuse, self.plain, self.asked, self.words))
        in_turn = chain.from_iterable(zip_longest(*(ranking.ids for ranking in rankings)))
        return list(dict.fromkeys(content_id for content_id in in_turn if content_id is not None))


@dataclass(frozen=True, slots=True)
class Queries:
    """The queries of a request as vectors of some encoders, whatever the index's are by then.

    Attributes:
        sources: of the index, when the queries came.
        source: what serves the instruction.
        base: the view that candidates come from.
        plain: as the base view's source has them (n, dim).
        asked: as the encoder reads them under the given one (n, dim); None where another encoder fills the base view.
        shown: gives them as the instruction's source has them (n, dim); encoded at the first call, so that a first
            answer from the base view waits for no language model.
    """

    sources: Sources
    source: Source
    base: View
    plain: Embeddings
    asked: Embeddings | None
    shown: Callable[[], Embeddings]

    @property
    def filled(self) -> list[Source]:
        """The sources whose views a search fills for the instruction, needed ones first."""
        base = self.sources.base
        return [source for source in self.sources.with_dependents([self.source]) if source != base]

    @property
    def read(self) -> bool:
        """Whether texts can be read for the instruction."""
        return self.source.in_words or any(source.reads for source in self.filled)


def as_vectors(
    texts: Sequence[str], request: SearchRequest, sources: Sources, source: Source, base: View, *, weighed: bool
) -> Queries:
    """Return the queries of a request as vectors; where another encoder fills the base view, its own alone for now.

    ``weighed`` is whether the base encoder's cosine counts under the instruction, which ``source`` serves.
    """
    beside = source.root != sources.base and of_one_encoder(sources.base, source.root)
    encode = partial(encode_queries, documents=request.like is not None)
    if beside and not weighed:
        plain, under, vectors = encode([sources.base, source.root, source], texts, request.steps)
        return Queries(sources, source, base, plain, under, lambda: vectors)
    shown = cache(lambda: encode([source], texts, request.steps)[0])
    (plain,) = encode([sources.base], plain_queries(texts, request) if weighed else texts)
    return Queries(sources, source, base, plain, shown() if beside else None, shown)


def state_of(store: Store, base: View) -> State:
    """Return the state that findings in a base view rest on."""
    return store.documents_revision(), store.vectors.revision(base.view_id)


def mostly_filled(view: LoadedView, allowed: Ids | None) -> bool:
    """Return whether a view holds most of the texts that a search may find."""
    return view.coverage(allowed) > HALF


def texts_to_read(
    store: Store,
    encoder: Encoder,
    view: LoadedView,
    found: Found,
    options: SearchOptions,
    part: float,
    since: int = 0,
) -> dict[int, str]:
    """Return the texts by content id that a search reads for its view, in the order of their worth.

    First come texts that show what is typical, in a share of the token budget, then the candidates. A view that holds
    most texts shows what is typical already; there the candidates are followed by whatever else it lacks, so that a few
    searches complete it. Now a part of the token budget may be read. Where the same search has settled, only texts that
    came ``since`` then are looked at, by content id.
    """
    chosen, spent = dict[int, str](), 0
    order = view.lacking(np.array(found.candidates(), dtype=np.int64)).tolist()
    if since:
        order = [content_id for content_id in order if content_id > since]
    elif mostly_filled(view, found.allowed):
        order += view.lacking(found.allowed)[: options.token_budget].tolist()  # a text has a token at least
    else:
        typical = view.lacking(view.contents.sample[: centering.FIRST]).tolist()
        share = int(options.token_budget * options.typical_share)
        chosen, spent = _affordable(store, encoder, typical, options, share)
    rest = [content_id for content_id in dict.fromkeys(order) if content_id not in chosen]
    return chosen | _affordable(store, encoder, rest, options, round(options.token_budget * part) - spent)[0]


def texts_to_ask(view: LoadedView, found: Found, tried: Collection[int], since: int = 0) -> Ids:
    """Return the content ids, best first, that a language model may be asked about next.

    Those that it was asked about already in this search, and those that came before the same search settled, are none.
    """
    order = view.lacking(np.array(found.candidates(fused=True), dtype=np.int64)).tolist()
    return np.array([content for content in order if content > since and content not in tried], dtype=np.int64)


def learned_rankings(
    store: Store, teachers: Sequence[LoadedView], view: LoadedView, asked: Embeddings, depth: int, allowed: Ids | None
) -> list[Ranking]:
    """Return rankings by what the texts that an instruction's view holds teach about queries (q, dim) under it.

    The teachers, the base view and whatever other views have all texts, are searched to ``depth`` among the contents
    that are allowed.
    """
    newest = store.vectors.newest(view.view.view_id, LEARNED_FROM)
    ids = newest[np.logical_and.reduce([teacher.holds(newest) for teacher in teachers])]
    read = store.vectors.get(view.view.view_id, ids).embeddings
    known = [store.vectors.get(teacher.view.view_id, ids).embeddings for teacher in teachers]
    towards = feedback.directions(known, read @ (asked - view.shift).T)
    if not any(toward.any() for toward in towards):
        return []
    by_teacher = [nearest(*pair, depth, allowed, windows=False) for pair in zip(teachers, towards, strict=True)]
    if len(teachers) == 1:
        return by_teacher[0]
    rankings = []
    for number in range(len(asked)):
        pool = np.unique(
            np.array([content_id for each in by_teacher for content_id in each[number].ids], dtype=np.int64)
        )
        pool = pool[np.logical_and.reduce([teacher.holds(pool) for teacher in teachers])]
        every = [store.vectors.get(teacher.view.view_id, pool) for teacher in teachers]
        scores = sum(each.embeddings @ toward[number] for each, toward in zip(every, towards, strict=True))
        order = np.argsort(-scores, kind="stable")
        rankings.append(Ranking(pool[order].tolist(), scores[order].tolist()))
    return rankings


def _affordable(
    store: Store, encoder: Encoder, ids: Sequence[int], options: SearchOptions, budget: int
) -> tuple[dict[int, str], int]:
    """Return the first texts, by content id, as far as a budget of tokens reaches, and the tokens that they take.

    A text takes its prompt's tokens too, at most the whole token budget. Few are counted at once, since few are
    affordable.
    """
    chosen, spent, rest = dict[int, str](), 0, iter(ids)
    limit = encoder.spec.max_text_tokens or options.token_budget
    while batch := list(islice(rest, _AT_ONCE)):
        texts = store.documents.texts(batch)
        for (content_id, text), tokens in zip(texts.items(), encoder.count_tokens(list(texts.values())), strict=True):
            price = min(min(tokens, limit) + options.prompt_tokens, options.token_budget)
            if spent + price > budget:
                return chosen, spent
            chosen[content_id] = text
            spent += price
    return chosen, spent
