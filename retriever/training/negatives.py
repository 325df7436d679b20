"""Hard negatives: texts or answers that an encoder puts near a query though they do not belong there.

A candidate that is nearly as similar to the query as the positive is more often an unmarked right answer than a useful
wrong one. So candidates above ``margin`` times the positive's similarity are skipped, and the most similar of the
others are taken.

Source: Moreira et al., "NV-Retriever: Improving text embedding models with effective hard-negative mining"
(arXiv 2407.15831): positive-aware mining, TopK-PercPos with 95 %.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from retriever.core.protocols import Encoder, VectorIndex
from retriever.core.types import Embeddings, Ids
from retriever.evaluation.metrics import encode_each
from retriever.training.pairs import HardNegatives, answer_set
from retriever.training.rows import TrainingRow, normalise_answer
from retriever.training.settings import AtLeastOne, Settings
from retriever.vectors.backend import ViewVectors
from retriever.vectors.exact import ExactIndex

if TYPE_CHECKING:
    from retriever.store.documents import Documents

MINING_MARGIN = 0.95
Margin: TypeAlias = Annotated[float, Field(gt=0, le=1)]
_EXACT = 4096  # vectors up to which NumPy compares with all
_AT_ONCE = 1 << 22  # (queries x candidates) of one search
_DEPTH = 32  # candidates fetched at first
_DEEPER = 4  # how many times as many candidates are fetched when too few are left


@dataclass(frozen=True, slots=True)
class MiningOptions(Settings):
    """Settings of how negatives are mined.

    Attributes:
        count: most negatives of a row.
        margin: share of the positive's similarity above which a candidate is taken for right, and skipped.
    """

    count: AtLeastOne = 4
    margin: Margin = MINING_MARGIN


@dataclass(frozen=True, slots=True)
class MinedIds:
    """The ids of each query's negatives, most similar first, and how many candidates the margin skipped in all."""

    ids: list[list[int]]
    skipped: int


def threshold(positive: NDArray[np.float32], margin: float) -> NDArray[np.float32]:
    """Return the highest similarity a negative may have, (q,): the positive's less a share of its size.

    For a positive above 0 that is ``margin`` times its similarity. A negative similarity times ``margin`` would lie
    above it, so there as much is taken off.
    """
    return np.asarray(positive - (1 - margin) * np.abs(positive), dtype=np.float32)


def mine(
    vectors: Embeddings,
    positive: NDArray[np.float32],
    right: Sequence[Collection[int]],
    index: VectorIndex,
    options: MiningOptions,
    *,
    allowed: Ids | None = None,
) -> MinedIds:
    """Return each query's most similar ids that are neither right nor above the threshold; there may be fewer.

    Candidates are fetched from the index, more of them for the queries that have too few left.

    Args:
        vectors: of the queries, (q, dim) rows of length 1.
        positive: (q,) similarity of each query to its positive.
        right: per query, the ids that are right or the query itself; empty for none.
        index: of the candidates.
        options: how many, and up to which similarity.
        allowed: sorted ids that may be negatives of these queries; None allows all.
    """
    ids: list[list[int]] = [[] for _ in right]
    skipped = [0] * len(ids)
    available = index.size if allowed is None else len(allowed)
    limits = threshold(positive, options.margin)
    open_ended = np.arange(len(ids))
    depth = max(_DEPTH, options.count)
    while open_ended.size and available:
        step = max(1, _AT_ONCE // max(depth, _EXACT))
        for start in range(0, len(open_ended), step):
            part = open_ended[start : start + step]
            hits = index.search(vectors[part], min(depth, available), allowed=allowed)
            for query, near, scores in zip(part.tolist(), hits.ids, hits.scores, strict=True):
                own = set(right[query])
                wrong = np.array([candidate >= 0 and candidate not in own for candidate in near.tolist()], dtype=bool)
                below = scores <= limits[query]
                ids[query] = near[wrong & below][: options.count].tolist()
                skipped[query] = int((wrong & ~below).sum())
        if depth >= available:
            break
        open_ended = open_ended[[len(ids[query]) < options.count for query in open_ended.tolist()]]
        depth *= _DEEPER
    return MinedIds(ids, sum(skipped))


def vector_index(vectors: Embeddings) -> VectorIndex:
    """Return an index over (n, dim) rows of length 1, whose ids are their places; on FAISS where they are many."""
    ids = np.arange(len(vectors), dtype=np.int64)
    if len(vectors) <= _EXACT:
        return ExactIndex(ids, vectors)
    from retriever.vectors.faiss.building import build_index

    return build_index(ViewVectors(ids, vectors.shape[1], [vectors])).index


_K = TypeVar("_K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Mined:
    """The hard negatives found for each row, and how many candidates the margin skipped in all."""

    rows: list[HardNegatives]
    skipped: int

    @property
    def served(self) -> int:
        """The number of rows that have some."""
        return sum(map(bool, self.rows))


def embed_queries(rows: Sequence[TrainingRow], encoder: Encoder) -> Embeddings:
    """Return (rows, dim) vectors of the rows' texts under their questions, as queries; see `encode_each`."""
    return encode_each(encoder, [row.text for row in rows], [row.instruction for row in rows], queries=True)


def mine_answers(rows: Sequence[TrainingRow], encoder: Encoder, options: MiningOptions) -> Mined:
    """Return wrong answers that the encoder puts near a row's text under its question.

    Candidates are the other answers to the same question; where there are none, as when a question is asked once, the
    answers to all questions. Right for a row are the answers, positives included, of every row with the same text and
    question. Rows with positives have all rows' positives for candidates. Answers are read under the default
    instruction.
    """
    pool: dict[str, str] = {}
    for answer in (answer for row in rows for answer in row.right):
        pool.setdefault(normalise_answer(answer), answer)
    texts, numbers = list(pool.values()), {key: number for number, key in enumerate(pool)}
    vectors = encoder.encode(texts)
    index, queries = vector_index(vectors), embed_queries(rows, encoder)
    owned = [[numbers[normalise_answer(answer)] for answer in row.right] for row in rows]
    right: dict[tuple[str, str], set[int]] = defaultdict(set)
    by_group: dict[str, set[int]] = defaultdict(set)
    keys = [(row.group, row.text_key) for row in rows]
    for (group, text), ids in zip(keys, owned, strict=True):
        right[group, text].update(ids)
        by_group[group].update(ids)
    for row, key in zip(rows, keys, strict=True):
        itself = normalise_answer(row.text)  # a text is no answer to itself
        right[key].update([numbers[itself]] if itself in numbers else [])
    similar = (queries * vectors[[ids[0] for ids in owned]]).sum(axis=1)  # (rows,)
    negatives: list[HardNegatives] = [()] * len(rows)
    skipped = 0
    for scope, places in _places(key[0] if by_group[key[0]] - right[key] else None for key in keys).items():
        allowed = None if scope is None else np.array(sorted(by_group[scope]), dtype=np.int64)
        known = [right[keys[number]] for number in places]
        mined = mine(queries[places], similar[places], known, index, options, allowed=allowed)
        skipped += mined.skipped
        for place, ids in zip(places, mined.ids, strict=True):
            negatives[place] = tuple(texts[number] for number in ids)
    return Mined(negatives, skipped)


def mine_documents(
    rows: Sequence[TrainingRow],
    encoder: Encoder,
    view: VectorIndex,
    instruction: str,
    documents: "Documents",
    options: MiningOptions,
) -> Mined:
    """Return documents of a user's own index that its encoder puts near a row's text.

    ``view`` are their vectors, made by the encoder under the instruction; an empty one is the default.

    The base view serves rows with positives: documents less similar than the margin lets pass, that are neither the
    text nor a positive of a row with that text and question. A view under an instruction serves the rows of text,
    question and answer that ask it in the same words. What a document would answer is not known, so there the margin
    alone, below the mean cosine to the other texts with the same answer, keeps right ones out, beside the texts that
    the rows know to have that answer. A row that the view does not serve gets nothing.
    """
    instruction = instruction.strip()
    base = [place for place, row in enumerate(rows) if row.positives and not instruction]
    places = base or [
        place for place, row in enumerate(rows) if not row.positives and row.instruction.strip() == instruction
    ]
    served = [rows[place] for place in places]
    negatives: list[HardNegatives] = [()] * len(rows)
    if not served:
        return Mined(negatives, 0)
    vectors = embed_queries(served, encoder)
    if base:
        positives = encoder.encode([row.positives[0] for row in served])
        similar = np.asarray((vectors * positives).sum(axis=1), dtype=np.float32)
        right = _known(served, documents, lambda row: (row.group, row.text_key), lambda row: (row.text, *row.positives))
    else:
        similar = same_answer_similarity(served, vectors)
        right = _known(served, documents, answer_set, lambda row: (row.text,))
    able = np.flatnonzero(~np.isnan(similar)).tolist()
    mined = mine(vectors[able], similar[able], [right[number] for number in able], view, options)
    texts = documents.texts(sorted({other for ids in mined.ids for other in ids}))
    for number, ids in zip(able, mined.ids, strict=True):
        negatives[places[number]] = tuple(texts[other] for other in ids)
    return Mined(negatives, mined.skipped)


def same_answer_similarity(rows: Sequence[TrainingRow], vectors: Embeddings) -> NDArray[np.float32]:
    """Return every row's mean cosine to the other texts with its question and answer, (rows,); NaN without any."""
    similar = np.full(len(rows), np.nan, dtype=np.float32)
    for places in _places(map(answer_set, rows)).values():
        firsts = {rows[place].text_key: place for place in reversed(places)}
        if len(firsts) < 2:
            continue
        total = vectors[list(firsts.values())].sum(axis=0, dtype=np.float64)  # (dim,)
        own = vectors[[firsts[rows[place].text_key] for place in places]]  # (places, dim)
        similar[places] = (vectors[places] * (total - own)).sum(axis=1) / (len(firsts) - 1)
    return similar


def _known(
    rows: Sequence[TrainingRow],
    documents: "Documents",
    key: Callable[[TrainingRow], Hashable],
    texts: Callable[[TrainingRow], Sequence[str]],
) -> list[set[int]]:
    """Return every row's documents that are right: those among the texts of all rows with its key."""
    known = documents.known([text for row in rows for text in texts(row)])
    right: dict[Hashable, set[int]] = defaultdict(set)
    for row in rows:
        right[key(row)].update(known[text] for text in texts(row) if text in known)
    return [right[key(row)] for row in rows]


def _places(keys: Iterable[_K]) -> dict[_K, list[int]]:
    """Return the places of every key, keys in the order they are met."""
    places: dict[_K, list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        places[key].append(place)
    return dict(places)
