"""Texts in small groups that a teacher finds alike, so that a batch of few texts holds similarities worth learning.

Two texts drawn from a corpus have next to nothing in common, and among a few dozen there is hardly a pair that a search
would have to tell apart.
"""

import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

GROUP = 4
"""Texts of a group: one and some of those nearest to it."""
NEAREST = 12
"""The nearest texts that the others of a group are drawn from."""
_ROWS = 1024


class RelatedTexts:
    """A pool of n different texts with a teacher's vectors (n, e) of length 1, drawn in groups."""

    def __init__(self, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        self.texts = texts
        self.vectors = vectors
        self._nearest = nearest(vectors, min(NEAREST, len(texts) - 1))

    def draw(self, count: int, draw: random.Random) -> list[int]:
        """Return the numbers of ``count`` different texts, group after group; of all, where there are no more."""
        found: dict[int, None] = {}
        for first in draw.sample(range(len(self.texts)), len(self.texts)):
            if len(found) >= count:
                break
            near = [int(one) for one in self._nearest[first]]
            found |= dict.fromkeys([first, *draw.sample(near, min(GROUP - 1, len(near)))])
        return list(found)[:count]


def nearest(vectors: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Return the numbers of the ``count`` rows nearest to each of (n, e) but for itself, (n, count).

    The nearest come first; of equally near ones that with the lower number.
    """
    found = np.empty((len(vectors), count), dtype=np.int64)
    for start in range(0, len(vectors) if count else 0, _ROWS):
        distances = -(vectors[start : start + _ROWS] @ vectors.T)  # (b, n)
        distances[np.arange(len(distances)), start + np.arange(len(distances))] = np.inf
        found[start : start + _ROWS] = _lowest(distances, count)
    return found


def _lowest(values: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Return the columns of the lowest values of every row of (b, n), as a stable sort has them: (b, count)."""
    farthest = np.partition(values, count - 1, axis=1)[:, count - 1, None]  # (b, 1)
    nearer, equal = values < farthest, values == farthest
    room = count - nearer.sum(axis=1, keepdims=True)  # for those as far as the farthest
    taken = nearer | (equal & (np.cumsum(equal, axis=1, dtype=np.int32) <= room))
    columns = np.nonzero(taken)[1].reshape(len(values), count)  # rising in every row
    order = np.argsort(np.take_along_axis(values, columns, axis=1), axis=1, kind="stable")
    return np.take_along_axis(columns, order, axis=1)
