"""Choose the number of clusters of a view: of those that hold, the one most set apart.

The measure of how far clusters are apart is the mean silhouette (Rousseeuw, "Silhouettes", 1987).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from retriever.clusters.arithmetic.consensus import Stability, consensus, reduced
from retriever.clusters.arithmetic.kmeans import compared_rows, different
from retriever.core.contexts import single_threaded
from retriever.core.types import Embeddings

_TRIED = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 30)


@dataclass(frozen=True, slots=True)
class Tried:
    """A number of clusters, the partition's mean silhouette, -1 to 1, and how well it holds, where that is known."""

    k: int
    silhouette: float
    stability: Stability | None

    @property
    def holds(self) -> bool:
        """Whether the partition holds, as far as is known."""
        return self.stability is None or self.stability.holds

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        stability = None if self.stability is None else self.stability.to_json()
        return {"k": self.k, "silhouette": self.silhouette, "stability": stability}


@dataclass(frozen=True, slots=True)
class Choice:
    """The number of clusters, and every number tried."""

    k: int
    curve: Sequence[Tried]

    @property
    def holds(self) -> bool:
        """Whether some number of clusters holds; also where nothing was there to choose."""
        return not self.curve or any(tried.holds for tried in self.curve)

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {"by": "mean silhouette", "curve": [tried.to_json() for tried in self.curve]}


def choose_k(vectors: Embeddings) -> Choice:
    """Return the number of clusters with the highest mean silhouette among those that hold, the smaller of equals.

    Where none holds it is the one that holds best. At least three rows a cluster are asked for, so that a cluster is
    more than a pair; where the rows (n, dim) of length 1 are too few or all alike there is one cluster.
    """
    from sklearn.metrics import silhouette_score

    with single_threaded():
        rows = compared_rows(vectors, max(_TRIED))
        most = min(len(rows) // 3, len(different(rows)))
        rows = reduced(rows)
        curve = []
        for k in (k for k in _TRIED if k <= most):
            labels, stability = consensus(rows, k)
            curve.append(Tried(k, round(float(silhouette_score(rows, labels, metric="cosine")), 6), stability))
    holding = [tried for tried in curve if tried.holds]
    if holding:
        return Choice(max(holding, key=lambda tried: (tried.silhouette, -tried.k)).k, curve)
    steadiest = max(curve, key=_steadiness, default=None)
    return Choice(1 if steadiest is None else steadiest.k, curve)


def _steadiness(tried: Tried) -> float:
    return 0.0 if tried.stability is None else tried.stability.repeated + tried.stability.halves
