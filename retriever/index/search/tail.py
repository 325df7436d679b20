"""The vectors of a view that are newer than its generation, as segments that are searched exactly and never change.

New vectors become a segment of their own. It is merged with the segment before it while that is less than twice as
large, so the segments are few (the logarithm of the vectors), and a vector is rarely built into an index again.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retriever.core.types import Embeddings, Ids
from retriever.store.vectors import VectorBatch
from retriever.vectors.backend import ListedIndex

Hold = Callable[[Ids, Embeddings], ListedIndex]
"""Makes an exact index in memory; see `VectorBackend.hold`."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Vectors with their exact index.

    Attributes:
        index: finds them.
        vectors: (n, dim) half-precision rows in the order of the index's ids, for when segments are merged.
    """

    index: ListedIndex
    vectors: NDArray[np.float16]

    @property
    def size(self) -> int:
        """Number of vectors."""
        return self.index.size


@dataclass(frozen=True, slots=True)
class Tail:
    """Segments over disjoint ids, the largest first.

    Attributes:
        hold: makes the index of a segment.
        segments: what was stored so far.
    """

    hold: Hold
    segments: tuple[Segment, ...] = ()

    def grown(self, batches: Iterable[VectorBatch]) -> "Tail":
        """Return a tail with further vectors, whose contents it does not hold yet."""
        read = list(batches)
        if not read:
            return self
        new = [batch.indexed for batch in read]
        added = _segment(self.hold, [vectors.ids for vectors in new], [vectors.rows for vectors in new])
        segments = list(self.segments)
        while segments and segments[-1].size < 2 * added.size:
            last = segments.pop()
            added = _segment(self.hold, [last.index.ids, added.index.ids], [last.vectors, added.vectors])
        return Tail(self.hold, (*segments, added))

    @property
    def indexes(self) -> list[ListedIndex]:
        """Indexes to search: one per segment."""
        return [segment.index for segment in self.segments]


def _segment(hold: Hold, ids: list[Ids], vectors: list[Embeddings] | list[NDArray[np.float16]]) -> Segment:
    joined = np.concatenate(ids)
    order = np.argsort(joined)
    rows = np.concatenate(vectors)[order]
    return Segment(hold(joined[order], rows.astype(np.float32)), rows.astype(np.float16))
