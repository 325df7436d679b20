"""Where a document goes, once there are clusters: to the nearest centroid, or to the category that it fits best.

The name of a category is read under the instruction as if it were a document, so that "refund" lies where documents
about refunds do. With m the mean of the view's vectors d, and c the name's vector less the mean of the names' and at
length 1, a document goes to the category of the highest (d - 0.75 m) . c: what all documents have in common says
nothing, and what all names have says nothing. The base encoder's similarity of text and name counts a little besides.
Where a document is not as near to its category's name as documents are to their mean (cosine below 0.92 |m|), it
belongs to none of them. docs/evaluation.md has what that comes to, measured on other rows than these numbers were
chosen on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.arithmetic.kmeans import Partition, nearest
from retriever.clusters.categories import option_numbers
from retriever.clusters.material import Material
from retriever.clusters.references import NONE
from retriever.core.similarity import normalise
from retriever.core.types import Embeddings

Places: TypeAlias = Mapping[str, tuple[int, ...]]
"""The clusters of every document by id, the nearest first."""

TAKEN_OFF = 0.75
"""Share of the documents' mean that is taken off each of them."""

BASE = 0.15
"""Weight of the base encoder's cosine of text and name, the rest being that of the view."""

FLOOR = 0.92
"""Cosine with its category, over the length of the documents' mean, below which a document belongs to none."""

NO_FLOOR = -1e9
"""The floor where no document belongs to none."""

GAP = 0.1
"""What the scores of further categories of a document may be below its best, where several are asked for."""

_OUTSIDE = 1.0  # percent of a cluster's members that are as far from its centroid as what fits no more
_FEW_MEMBERS = 100  # members that a percentile says little of: the floor is then at most `_DEVIATIONS` below their mean
_DEVIATIONS = 3.0
_TOLERANCE = 1e-4  # of cosines, which half precision and another order of summation move


@dataclass(frozen=True, eq=False)
class Centroids:
    """The centres of clusters that were computed.

    Attributes:
        vectors: (k, dim) of length 1.
        floors: (k,) least cosine with each at which a document fits.
    """

    question: ClassVar[str] = ""
    vectors: Embeddings
    floors: NDArray[np.float32]

    def place(self, part: Material, _: Embeddings | None) -> list[tuple[int, ...]]:
        """Return the nearest cluster of every row, `NONE` where it is further than its members are."""
        found = nearest(part.vectors, self.vectors)
        fits = found.cosines >= self.floors[found.labels] - np.float32(_TOLERANCE)
        return [(number,) for number in np.where(fits, found.labels, NONE).tolist()]


@dataclass(frozen=True, eq=False)
class CategoryNames:
    """What sorts documents into categories that somebody named.

    Attributes:
        vectors: (k, dim) of the names in the view.
        mean: (dim,) of the documents' vectors when the categories were made.
        several: whether a document may belong to several.
        floor: the fit below which a document belongs to none.
        base: (k, e) of the names by the base encoder; None where the view's encoder is the only one.
        base_fingerprint: that encoder's; empty without one.
        not_learned: numbers of categories behind the k, to which no document goes: they have no example, under a
            question that examples taught.
        outside: (dim,) of what belongs to none, as examples taught it; None where they did not.
    """

    question: ClassVar[str] = ""
    vectors: Embeddings
    mean: NDArray[np.float32]
    several: bool = False
    floor: float = FLOOR
    base: Embeddings | None = None
    base_fingerprint: str = ""
    not_learned: Sequence[int] = ()
    outside: NDArray[np.float32] | None = None

    def place(self, part: Material, base: Embeddings | None) -> list[tuple[int, ...]]:
        """Return the categories of every row, the best first; `NONE` where the best is below the floor.

        ``base`` (r, e) is what the base encoder makes of the same texts; None where that is not known.
        """
        return self.chosen(self.fit(part.vectors, base))

    def fit(self, vectors: Embeddings, base: Embeddings | None) -> "Fit":
        """Return how well rows (r, dim) fit the categories; ``base`` as for `place`."""
        names = self.vectors if self.outside is None else np.vstack([self.vectors, self.outside])
        directions = normalise(names - names.mean(axis=0))
        scores = vectors @ directions.T - TAKEN_OFF * (self.mean @ directions.T)
        if base is not None and self.base is not None:
            cosines = base @ self.base.T
            if self.outside is not None:  # whose name says nothing
                cosines = np.column_stack([cosines, cosines.mean(axis=1)])
            scores = (1 - BASE) * scores + BASE * cosines
        length = float(np.linalg.norm(self.mean)) or 1.0
        reach = np.asarray(vectors @ names.T / length, dtype=np.float32)
        return Fit(np.asarray(scores, dtype=np.float32), reach)

    def chosen(self, fit: "Fit") -> list[tuple[int, ...]]:
        """Return the categories of every row, the best first; `NONE` where the best is outside or below the floor."""
        outside = len(self.vectors)
        places: list[tuple[int, ...]] = []
        for scores, reach in zip(fit.scores, fit.reach, strict=True):
            order = np.argsort(-scores, kind="stable")
            least = scores[order[0]] - GAP if self.several else np.inf
            fits = (scores >= least) & (reach >= self.floor) & (np.arange(len(scores)) != outside)
            further = [int(number) for number in order[1:] if fits[number]]
            best = int(order[0])
            places.append((best, *further) if reach[best] >= self.floor and best != outside else (NONE,))
        return places


@dataclass(frozen=True, eq=False)
class Options:
    """The options of a closed question, by which a language model sorted documents, or the answers that were taught.

    Attributes:
        question: with the options in its text, where a language model was asked.
        names: of the options, as they stand there.
        vectors: (k, dim) of the names as answers.
    """

    question: str
    names: Sequence[str]
    vectors: Embeddings

    def place(self, part: Material, _: Embeddings | None) -> list[tuple[int, ...]]:
        """Return the option of every row by its answer, which is the first of its words."""
        return [(number,) for number in option_numbers([words[0] for words in part.answers], self.names)]


@dataclass(frozen=True, eq=False)
class Fit:
    """How well documents fit categories.

    Attributes:
        scores: (n, k) what they are compared by; (n, k + 1) where it was learned what belongs to none.
        reach: likewise, cosines over the length of the documents' mean, which the floor is held to.
    """

    scores: NDArray[np.float32]
    reach: NDArray[np.float32]

    @property
    def margins(self) -> NDArray[np.float32]:
        """By how much every document's best score is above its second, (n,)."""
        two = np.partition(self.scores, -2, axis=1)[:, -2:]
        return np.asarray(two[:, 1] - two[:, 0], dtype=np.float32)


Placing: TypeAlias = Centroids | CategoryNames | Options
"""What puts documents to clusters that are there already."""


def centroids_of(found: Partition) -> Centroids:
    """Return the centroids of clusters, each with the least cosine at which a document that comes later fits."""
    floors = [_floor(found.cosines[found.labels == number]) for number in range(found.k)]
    return Centroids(found.centroids, np.array(floors, dtype=np.float32))


def placing_json(placing: Placing) -> dict[str, Any]:
    """Return the JSON object that `placing_of` reads, without the vectors that `stored_vectors` returns."""
    if isinstance(placing, Centroids):
        return {"floors": placing.floors.tolist()}
    if isinstance(placing, Options):
        return {"question": placing.question, "options": list(placing.names)}
    return {
        "mean": placing.mean.tolist(),
        "several": placing.several,
        "floor": placing.floor,
        "base": placing.base_fingerprint,
        "not_learned": list(placing.not_learned),
        "outside": None if placing.outside is None else placing.outside.tolist(),
    }


def stored_vectors(placing: Placing) -> Embeddings:
    """Return all vectors of clusters as one matrix: centroids, or names in the view and behind them by the base.

    A category that was not learned has a row of zeros.
    """
    if not isinstance(placing, CategoryNames):
        return placing.vectors
    known = placing.vectors if placing.base is None else np.hstack([placing.vectors, placing.base])
    return np.pad(known, ((0, len(placing.not_learned)), (0, 0)))


def placing_of(document: Mapping[str, Any], vectors: Embeddings) -> Placing:
    """Return what `placing_json` and `stored_vectors` were made of."""
    if "floors" in document:
        return Centroids(vectors, np.asarray(document["floors"], dtype=np.float32))
    if "options" in document:
        return Options(document["question"], document["options"], vectors)
    mean = np.asarray(document["mean"], dtype=np.float32)
    not_learned = document.get("not_learned", ())  # older ones have none
    vectors = vectors[: len(vectors) - len(not_learned)]
    names, base = vectors[:, : len(mean)], vectors[:, len(mean) :]
    apart = document.get("outside")
    return CategoryNames(
        names,
        mean,
        document["several"],
        document["floor"],
        base if base.size else None,
        document["base"],
        not_learned,
        None if apart is None else np.asarray(apart, dtype=np.float32),
    )


def _floor(cosines: NDArray[np.float32]) -> float:
    """Return the least cosine with a centroid at which a new document fits, given those of its members (n,)."""
    floor = float(np.percentile(cosines, _OUTSIDE))
    if len(cosines) >= _FEW_MEMBERS:
        return floor
    exact = cosines.astype(np.float64)
    return min(floor, float(exact.mean() - _DEVIATIONS * exact.std()))
