"""BM25 with the counts of a larger corpus than the word index holds, for an index that is one part of it.

FTS5's bm25() weighs a word by how many texts of its own table hold it. A part of a corpus would weigh otherwise than
the whole, and its scores would not compare with those of other parts. So the parts count first (`WordCounts`), the
counts are added up, and each part scores with the sums. Scores are the same to the last bit as those of one index over
everything: the numbers and their order are those of fts5_aux.c (k1 = 1.2, b = 0.75).

FTS5 does the work: asked for one phrase alone, bm25() is the phrase's own weight times something that how often the
text holds it follows from.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retriever.core.types import Ids
from retriever.store.connection import Connections
from retriever.store.filter_tree import Compiled
from retriever.store.lexical import phrases

_K1 = 1.2
_B = 0.75
_LEAST = 1e-6  # of a phrase that more than half of the texts hold
_COUNT = "SELECT COUNT(*) FROM contents_words WHERE contents_words MATCH ?"
_SCORED = (
    "SELECT contents_words.rowid, -bm25(contents_words), sz FROM contents_words "
    "JOIN contents_words_docsize AS size ON size.id = contents_words.rowid WHERE contents_words MATCH ?"
)
_TOTALS = "SELECT block FROM contents_words_data WHERE id = 1"  # the averages record of the file format


@dataclass(frozen=True, slots=True)
class WordCounts:
    """What BM25 knows of a corpus.

    Attributes:
        texts: how many there are.
        tokens: in all of them together.
        hits: texts that hold each phrase of a query, in the order of `lexical.phrases`.
    """

    texts: int
    tokens: int
    hits: tuple[int, ...] = ()

    def __add__(self, other: "WordCounts") -> "WordCounts":
        """Return the counts of two parts together, for the same query."""
        hits = tuple(one + more for one, more in zip(self.hits, other.hits, strict=True))
        return WordCounts(self.texts + other.texts, self.tokens + other.tokens, hits)


@dataclass(frozen=True, slots=True)
class RankedText:
    """A text found by its words, with the id of its first document that matches: by that, equal scores are ordered."""

    content_id: int
    score: float
    first: str


class Words:
    """The word index of one part of a corpus."""

    def __init__(self, connections: Connections) -> None:
        self._db = connections

    def counts(self, query: str) -> WordCounts:
        """Count this part's texts and tokens, and the texts that hold each phrase of a query."""
        hits = tuple(self._db.number(_COUNT, (phrase,)) for phrase in phrases(query))
        totals = self._totals()
        return WordCounts(totals[0], totals[1], hits)

    def ranked(
        self, query: str, k: int, counts: WordCounts, allowed: Ids, condition: Compiled | None = None
    ) -> list[RankedText]:
        """Return the k texts that share words with the query, best first, ties by the id of their first document.

        Args:
            query: the words to look for.
            k: texts wanted.
            counts: of the whole corpus, for this query.
            allowed: contents that may be found, ascending.
            condition: what the first document of a text has to meet; None for nothing.
        """
        ids, scores = self._scores(query, counts)
        keep = np.isin(ids, allowed)
        ids, scores = ids[keep], scores[keep]
        if not len(ids) or k < 1:
            return []
        if len(ids) > k:
            least = np.partition(scores, len(scores) - k)[len(scores) - k]
            ids, scores = ids[scores >= least], scores[scores >= least]
        firsts = self._first_documents(ids, condition or Compiled("1", ()))
        found = [RankedText(one, score, firsts[one]) for one, score in zip(ids.tolist(), scores.tolist(), strict=True)]
        return sorted(found, key=lambda one: (-one.score, one.first))[:k]

    def _scores(self, query: str, counts: WordCounts) -> tuple[Ids, NDArray[np.float64]]:
        """Return all texts that hold a phrase (n,), ascending, and their scores."""
        texts, tokens = self._totals()[:2]
        if not texts:
            return np.empty(0, np.int64), np.empty(0)
        found = []
        for phrase, hits in zip(phrases(query), counts.hits, strict=True):
            rows = self._db.rows(_SCORED, (phrase,))
            if not rows:
                continue
            ids = np.fromiter((row[0] for row in rows), np.int64, len(rows))
            own = np.fromiter((row[1] for row in rows), np.float64, len(rows))
            lengths = np.fromiter((_varints(row[2])[0] for row in rows), np.float64, len(rows))
            # own = weight * often * 2.2 / (often + held): solved for how often the text holds the phrase.
            share = own / _weight(texts, len(rows))
            often = np.rint(share * _held_back(lengths, tokens / texts) / (_K1 + 1.0 - share))
            held = _held_back(lengths, counts.tokens / counts.texts)
            found.append((ids, _weight(counts.texts, hits) * ((often * (_K1 + 1.0)) / (often + held))))
        every = np.unique(np.concatenate([np.empty(0, np.int64), *(ids for ids, _ in found)]))
        scores = np.zeros(len(every))
        for ids, part in found:  # phrase by phrase, as bm25() adds them
            scores[np.searchsorted(every, ids)] += part
        return every, scores

    def _first_documents(self, ids: Ids, condition: Compiled) -> dict[int, str]:
        rows = self._db.rows(
            "SELECT content_id, MIN(documents.id) FROM json_each(?) AS wanted "
            f"CROSS JOIN documents ON documents.content_id = wanted.value WHERE {condition.sql} GROUP BY content_id",
            (json.dumps(ids.tolist()), *condition.parameters),
        )
        return dict(rows)

    def _totals(self) -> Sequence[int]:
        """Return how many texts the word index has, and how many tokens."""
        row = self._db.row(_TOTALS)
        return [*_varints(b"" if row is None else row[0]), 0, 0]


def _held_back(lengths: NDArray[np.float64], average: float) -> NDArray[np.float64]:
    """Return what keeps a word that is repeated from counting in full, the more the longer the text is."""
    return np.asarray(_K1 * (1 - _B + _B * lengths / average))


def _weight(texts: int, hits: int) -> float:
    """Return what a phrase weighs that so many of the texts hold."""
    weight = math.log((texts - hits + 0.5) / (hits + 0.5))
    return weight if weight > 0 else _LEAST


def _varints(data: bytes) -> list[int]:
    """Decode SQLite's variable-length integers, each below 2 ** 56: seven bits a byte, the last below 128."""
    found, number = [], 0
    for byte in data:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            found.append(number)
            number = 0
    return found
