"""Choose the number of clusters of a view: as fine as the rows bear, and no finer than a reader takes in.

The measure of how far clusters are apart is the mean silhouette (Rousseeuw, "Silhouettes", 1987).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from retriever.clusters.arithmetic.consensus import Stability, chance, consensus, reduced
from retriever.clusters.arithmetic.kmeans import compared_rows, different
from retriever.core.contexts import single_threaded
from retriever.core.types import Embeddings

FEW, MOST = 5, 12
"""Clusters that are chosen where none hold surely: fewer say little of a corpus, more are not read."""

_TRIED = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 30)
_RUNGS = (FEW, 8, MOST, 20)
_LEAST_ROWS = 5  # of the median cluster


@dataclass(frozen=True, slots=True)
class Tried:
    """A number of clusters.

    Attributes:
        k: the number.
        silhouette: of its partition, the mean, -1 to 1.
        stability: how well that holds; None where the rows are too few to say.
        median: rows of the median cluster.
    """

    k: int
    silhouette: float
    stability: Stability | None
    median: float = _LEAST_ROWS

    @property
    def holds(self) -> bool:
        """Whether the partition holds, as far as is known, and not by chance."""
        return self.stability is None or (self.stability.holds and self.stability.apart)

    @property
    def apart(self) -> bool:
        """Whether the partition is that of groups, as far as is known, though a second run may give another."""
        return self.stability is None or self.stability.apart

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        stability = None if self.stability is None else self.stability.to_json()
        return {"k": self.k, "silhouette": self.silhouette, "stability": stability, "median": self.median}


@dataclass(frozen=True, slots=True)
class Choice:
    """The number of clusters, and every number tried."""

    k: int
    curve: Sequence[Tried]

    @property
    def holds(self) -> bool:
        """Whether some number of clusters holds; also where nothing was there to choose."""
        return not self.curve or any(tried.holds for tried in self.curve)

    @property
    def ladder(self) -> list[int]:
        """The numbers to offer, ascending: the one chosen, two, and of a few others those whose clusters are groups."""
        groups = {tried.k for tried in self.curve if tried.apart and tried.median >= _LEAST_ROWS}
        return sorted({self.k, *groups.intersection(_RUNGS), *(tried.k for tried in self.curve[:1])})

    @property
    def sentence(self) -> str:
        """Why it is this number; empty where nothing was there to choose."""
        chosen = next((tried for tried in self.curve if tried.k == self.k), None)
        if chosen is None:
            return ""
        if chosen.holds:
            return "Of the numbers whose clusters are stable, this separates the texts best."
        if chosen.apart:
            return f"The most groups, up to {MOST}, that half of the texts show again more than by chance."
        return "No number of groups stands out; this is a cut through texts that have no borders."

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {"by": "stability above chance", "curve": [tried.to_json() for tried in self.curve]}


def choose_k(vectors: Embeddings) -> Choice:
    """Return the number of clusters of rows (n, dim) of length 1.

    It is the one with the highest mean silhouette among those that hold, the smaller of equals. Where none holds it is
    the largest from `FEW` to `MOST` whose halves agree more than chance, and else `FEW`, or the most there can be of
    fewer. A number counts where its median cluster has five rows; where the rows are too few for any, or all alike, at
    least three rows a cluster are asked for, or there is one cluster.
    """
    from sklearn.metrics import silhouette_score

    with single_threaded():
        rows = compared_rows(vectors, max(_TRIED))
        most = min(len(rows) // 3, len(different(rows)))
        rows = reduced(rows)
        curve = []
        for k in (k for k in _TRIED if k <= most):
            labels, stability = consensus(rows, k)
            if stability is not None:
                stability = replace(stability, chance=chance(rows, k))
            silhouette = round(float(silhouette_score(rows, labels, metric="cosine")), 6)
            curve.append(Tried(k, silhouette, stability, float(np.median(np.bincount(labels)))))
    return Choice(_chosen(curve), curve)


def _chosen(curve: Sequence[Tried]) -> int:
    """Return the number that is chosen of those tried, ascending; 1 of none."""
    curve = [tried for tried in curve if tried.median >= _LEAST_ROWS] or curve
    holding = [tried for tried in curve if tried.holds]
    if holding:
        return max(holding, key=lambda tried: (tried.silhouette, -tried.k)).k
    between = [tried.k for tried in curve if FEW <= tried.k <= MOST]
    apart = [tried.k for tried in curve if tried.apart and tried.k in between]
    return max(apart) if apart else min(between, default=max((tried.k for tried in curve), default=1))
