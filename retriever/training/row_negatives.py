"""Hard negatives for training rows: wrong answers, and documents of a user's own index."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from retriever.core.protocols import Encoder, VectorIndex
from retriever.core.types import Embeddings
from retriever.evaluation.asked import encode_each
from retriever.training.negatives import MiningOptions, MiningQueries, mine, vector_index
from retriever.training.pairs import AnswerSet, HardNegatives, answer_set
from retriever.training.rows import TrainingRow, normalise_answer

_K = TypeVar("_K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Mined:
    """The hard negatives found for each row, and how many candidates the margin skipped in all."""

    rows: list[HardNegatives]
    skipped: int


@dataclass(frozen=True, slots=True)
class IndexedDocuments:
    """A view of a user's own index.

    Attributes:
        index: its vectors, made by the encoder that mines.
        instruction: what they were made under; empty for the default.
        texts: gives the texts of some ids.
        known: gives the ids of those of some texts that the index has.
    """

    index: VectorIndex
    instruction: str
    texts: Callable[[Sequence[int]], Mapping[int, str]]
    known: Callable[[Sequence[str]], Mapping[str, int]]


def embed_queries(rows: Sequence[TrainingRow], encoder: Encoder) -> Embeddings:
    """Return (rows, dim) vectors of the rows' texts under their questions; see `encode_each`."""
    return encode_each(encoder, [row.text for row in rows], [row.instruction for row in rows])


def mine_answers(rows: Sequence[TrainingRow], encoder: Encoder, options: MiningOptions) -> Mined:
    """Return wrong answers that the encoder puts near a row's text under its question.

    Candidates are the other answers to the same question; where there are none, as when a question is asked once, the
    answers to all questions. Right for a row are the answers, positives included, of every row with the same text and
    question. Rows with positives have all rows' positives for candidates. Answers are read under the default
    instruction.
    """
    pool = _Strings(one for row in rows for one in row.right)
    vectors = encoder.encode(pool.texts)
    index, queries = vector_index(vectors), embed_queries(rows, encoder)
    owned = [pool.ids(row.right) for row in rows]
    right: dict[tuple[str, str], set[int]] = defaultdict(set)
    asked: dict[str, set[int]] = defaultdict(set)
    keys = [(row.group, row.text_key) for row in rows]
    for (group, text), ids in zip(keys, owned, strict=True):
        right[group, text].update(ids)
        asked[group].update(ids)
    for row, key in zip(rows, keys, strict=True):
        right[key].update(pool.ids((row.text,)))  # a text is no answer to itself
    similar = (queries * vectors[[ids[0] for ids in owned]]).sum(axis=1)  # (rows,)
    found, skipped = [HardNegatives()] * len(rows), 0
    for scope, places in _places(key[0] if asked[key[0]] - right[key] else None for key in keys).items():
        allowed = None if scope is None else np.array(sorted(asked[scope]), dtype=np.int64)
        wanted = MiningQueries(queries[places], similar[places], [right[keys[one]] for one in places], allowed)
        mined = mine(wanted, index, options)
        skipped += sum(mined.skipped)
        for place, ids in zip(places, mined.ids, strict=True):
            found[place] = HardNegatives(answers=tuple(pool.texts[one] for one in ids))
    return Mined(found, skipped)


def mine_documents(
    rows: Sequence[TrainingRow], encoder: Encoder, documents: IndexedDocuments, options: MiningOptions
) -> Mined:
    """Return documents of a user's own index that its encoder puts near a row's text.

    The base view serves rows with positives: documents less similar than the margin lets pass, that are neither the
    text nor a positive of a row with that text and question. A view under an instruction serves the rows of text,
    question and answer that ask it in the same words. What a document would answer is not known, so there the margin
    alone, below the mean cosine to the other texts with the same answer, keeps right ones out, beside the texts that
    the rows know to have that answer. A row that the view does not serve gets nothing.
    """
    asked = documents.instruction.strip()
    base = [place for place, row in enumerate(rows) if row.positives and not asked]
    places = base or [one for one, row in enumerate(rows) if not row.positives and row.instruction.strip() == asked]
    served = [rows[one] for one in places]
    found = [HardNegatives()] * len(rows)
    if not served:
        return Mined(found, 0)
    vectors = embed_queries(served, encoder)
    if base:
        positives = encoder.encode([row.positives[0] for row in served])
        similar = np.asarray((vectors * positives).sum(axis=1), dtype=np.float32)
        right = _known_positives(served, documents)
    else:
        similar = same_answer_similarity(served, vectors)
        right = _known_texts(served, documents)
    able = np.flatnonzero(~np.isnan(similar)).tolist()
    wanted = MiningQueries(vectors[able], similar[able], [right[one] for one in able])
    mined = mine(wanted, documents.index, options)
    texts = documents.texts(sorted({one for ids in mined.ids for one in ids}))
    for one, ids in zip(able, mined.ids, strict=True):
        near = tuple(texts[other] for other in ids)
        found[places[one]] = HardNegatives(answers=near) if base else HardNegatives(texts=near)
    return Mined(found, sum(mined.skipped))


def same_answer_similarity(rows: Sequence[TrainingRow], vectors: Embeddings) -> NDArray[np.float32]:
    """Return every row's mean cosine to the other texts with its question and answer, (rows,); NaN without any."""
    similar = np.full(len(rows), np.nan, dtype=np.float32)
    for places in _places(map(answer_set, rows)).values():
        firsts = {rows[one].text_key: one for one in reversed(places)}
        if len(firsts) < 2:
            continue
        total = vectors[list(firsts.values())].sum(axis=0, dtype=np.float64)  # (dim,)
        own = vectors[[firsts[rows[one].text_key] for one in places]]  # (places, dim)
        similar[places] = (vectors[places] * (total - own)).sum(axis=1) / (len(firsts) - 1)
    return similar


class _Strings:
    """Distinct strings, as answers are compared, with the place of each."""

    def __init__(self, strings: Iterable[str]) -> None:
        self._places: dict[str, int] = {}
        self.texts: list[str] = []
        for one in strings:
            if self._places.setdefault(normalise_answer(one), len(self.texts)) == len(self.texts):
                self.texts.append(one)

    def ids(self, strings: Iterable[str]) -> list[int]:
        """Return the places of those strings that are among them."""
        keys = map(normalise_answer, strings)
        return [self._places[key] for key in keys if key in self._places]


def _known_positives(rows: Sequence[TrainingRow], documents: IndexedDocuments) -> list[set[int]]:
    """Return every row's documents that are right: the positives of its text and question, and the text itself."""
    known = documents.known([text for row in rows for text in (row.text, *row.positives)])
    right: dict[tuple[str, str], set[int]] = defaultdict(set)
    for row in rows:
        right[row.group, row.text_key].update(known[one] for one in (row.text, *row.positives) if one in known)
    return [right[row.group, row.text_key] for row in rows]


def _known_texts(rows: Sequence[TrainingRow], documents: IndexedDocuments) -> list[set[int]]:
    """Return every row's documents that are right: the texts with its answer to its question."""
    known = documents.known([row.text for row in rows])
    right: dict[AnswerSet, set[int]] = defaultdict(set)
    for row in rows:
        if row.text in known:
            right[answer_set(row)].add(known[row.text])
    return [right[answer_set(row)] for row in rows]


def _places(keys: Iterable[_K]) -> dict[_K, list[int]]:
    """Return the places of every key, keys in the order they are met."""
    places: dict[_K, list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        places[key].append(place)
    return dict(places)
