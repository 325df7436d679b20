"""Give evidence that a cluster is what its name says: its most central documents and a typical sentence."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from retriever.clusters.arithmetic.kmeans import Partition
from retriever.clusters.arithmetic.naming import text_words

_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|\n+")
_LOOKED_AT = 20  # documents nearest to a centroid that a typical sentence may come from
_SHORTEST, _LONGEST = 3, 30  # words


@dataclass(frozen=True, slots=True)
class Measures:
    """The size of a cluster, and how closely its documents lie together.

    Attributes:
        size: documents.
        cohesion: mean cosine with the centroid.
        margin: by how much it is higher than that with the next centroid, on average; 0 is no border at all.
    """

    size: int
    cohesion: float
    margin: float


def measures(found: Partition) -> list[Measures]:
    """Compute the size, cohesion and margin of every cluster."""
    result = []
    for number in range(found.k):
        members = found.labels == number
        cohesion, margin = (float(one[members].mean(dtype=np.float64)) for one in (found.cosines, found.margins))
        result.append(Measures(int(members.sum()), cohesion, margin))
    return result


def central(found: Partition, texts: Sequence[str], number: int, *, count: int) -> list[int]:
    """Return the rows of a cluster nearest to its centroid, each another text; fewer where it has no more."""
    rows = np.flatnonzero(found.labels == number)
    first: dict[str, int] = {}
    for row in rows[np.argsort(-found.cosines[rows], kind="stable")].tolist():
        first.setdefault(texts[row], row)
        if len(first) == count:
            break
    return list(first.values())


def typical_sentence(texts: Sequence[str], keywords: Sequence[str]) -> str:
    """Return the sentence of some texts, the most central first, that says most of a cluster's words in few.

    A keyword counts for 1 / rank, the best being the first.
    """
    weights = {word: 1 / rank for rank, word in enumerate(keywords, start=1)}
    best, score = "", -1.0
    for text in texts[:_LOOKED_AT]:
        for sentence in _SENTENCE_END.split(text):
            length = len(sentence.split())
            if not _SHORTEST <= length <= _LONGEST:
                continue
            found = sum(weights.get(word, 0.0) for word in text_words(sentence)) / length**0.5
            if found > score:
                best, score = sentence.strip(), found
    return best
