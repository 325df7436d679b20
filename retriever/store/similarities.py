"""How alike the vectors of a view are at random: what makes a cosine high or low in this view."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retriever.core.similarity import LEVELS
from retriever.store.connection import Connections

_STORED = np.dtype("<f4")


@dataclass(frozen=True, slots=True)
class Similarities:
    """The cosines of random pairs of a view.

    Attributes:
        vectors: how many the view had when they were drawn.
        quantiles: see `core.similarity.pair_quantiles`.
    """

    vectors: int
    quantiles: NDArray[np.float32]


class SimilarityTable:
    """The distributions of the index's views."""

    def __init__(self, connections: Connections) -> None:
        self._db = connections

    def get(self, view_id: int) -> Similarities | None:
        """Return a view's distribution, or None where there is none of today's levels."""
        row = self._db.row("SELECT vectors, quantiles FROM similarities WHERE view_id = ?", (view_id,))
        if row is None or len(row[1]) != len(LEVELS) * _STORED.itemsize:
            return None
        return Similarities(row[0], np.frombuffer(row[1], dtype=_STORED).astype(np.float32))

    def put(self, view_id: int, found: Similarities) -> None:
        """Store a view's distribution in place of the one before."""
        with self._db.writing(data=False):
            self._db.write(
                "INSERT INTO similarities VALUES (?, ?, ?) ON CONFLICT (view_id) DO UPDATE SET "
                "vectors = excluded.vectors, quantiles = excluded.quantiles",
                (view_id, found.vectors, found.quantiles.astype(_STORED).tobytes()),
            )
