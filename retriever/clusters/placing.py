"""Where a document goes, once there are clusters: to the nearest centroid, or to the category that it fits best.

The name of a category is read under the instruction as if it were a document, so that "refund" lies where documents
about refunds do. With m the mean of the view's vectors d, and c the name's vector less the mean of the names' and at
length 1, a document goes to the category of the highest (d - 0.75 m) . c: what all documents have in common says
nothing, and what all names have says nothing. The base encoder's similarity of text and name counts a little besides.
Where a document is not as near to its category's name as documents are to their mean (cosine below 0.92 |m|), it
belongs to none of them. docs/evaluation.md has what that comes to, measured on other rows than these numbers were
chosen on.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.arithmetic.kmeans import Partition, nearest
from retriever.clusters.material import Material
from retriever.clusters.phrases import key_of
from retriever.clusters.references import NONE
from retriever.core.similarity import normalise
from retriever.core.types import Embeddings
from retriever.core.unanswered import empty_answer, folded

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
"""How far the scores of further categories of a document may be below its best, where several are asked for."""

NEAR, CLEAR = 0.3, 0.05
"""Least cosine with the nearest answer of a group, and the least that it is ahead of any other group's."""

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

    vectors: Embeddings
    floors: NDArray[np.float32]

    def place(self, rows: Sequence[int], material: Material, _: Embeddings | None) -> list[tuple[int, ...]]:
        """Return the nearest cluster of some rows, `NONE` where it is further than its members are."""
        found = nearest(material.vectors[rows], self.vectors)
        fits = found.cosines >= self.floors[found.labels] - np.float32(_TOLERANCE)
        return [(number,) for number in np.where(fits, found.labels, NONE).tolist()]


@dataclass(frozen=True, eq=False)
class CategoryNames:
    """Sorts documents into categories that somebody named.

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

    vectors: Embeddings
    mean: NDArray[np.float32]
    several: bool = False
    floor: float = FLOOR
    base: Embeddings | None = None
    base_fingerprint: str = ""
    not_learned: Sequence[int] = ()
    outside: NDArray[np.float32] | None = None

    def place(self, rows: Sequence[int], material: Material, base: Embeddings | None) -> list[tuple[int, ...]]:
        """Return the categories of some rows, the best first; `NONE` where the best is below the floor.

        ``base`` (r, e) is what the base encoder makes of these; None where that is not known.
        """
        return self.chosen(self.fit(material.vectors[rows], base))

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
class Answered:
    """The groups that answers in words are in: those that a language model, a person or a lesson put there.

    Attributes:
        groups: the group of each answer, by `folded` or by `key_of`.
        vectors: (k, dim) the mean direction of each group's rows; of one without rows its name, taken as an answer.
        other: the group of answers that belong to no other; `NONE` without it.
    """

    groups: Mapping[str, int]
    vectors: Embeddings
    other: int = NONE

    def place(self, rows: Sequence[int], material: Material, _: Embeddings | None) -> list[tuple[int, ...]]:
        """Return the group of some rows by their answer, which is the first of their words.

        An answer that is new goes where the nearest known answer is, if it is near and no other group's is as near;
        else to the answers that belong nowhere.
        """
        answers = [words[0] for words in material.answers]
        known = [group_of(answer, self.groups) for answer in answers]
        named = [row for row, group in enumerate(known) if group not in (None, self.other)]
        near = Nearest.of(
            [row for row in named if not empty_answer(answers[row])], material.vectors, [group or 0 for group in known]
        ).beside(self.vectors, {self.other, *(group for key, group in self.groups.items() if empty_answer(key))})
        return [(self._placed(answers[row], known[row], material.vectors[row], near),) for row in rows]

    def _placed(self, answer: str, known: int | None, vector: NDArray[np.float32], near: "Nearest") -> int:
        if known is not None:
            return known
        if empty_answer(answer):
            return NONE
        return next((group for group, clear in [near.place(vector)] if clear), self.other)


def group_of(answer: str, groups: Mapping[str, int]) -> int | None:
    """Return the group of an answer, by `folded` or by `key_of`; None for one that was put to none."""
    return groups.get(folded(answer), groups.get(key_of(answer)))


@dataclass(frozen=True, eq=False)
class Nearest:
    """The nearest answers by group, for placing others.

    Attributes:
        vectors: (m, dim) of the answers, which have length 1.
        groups: (m,) theirs.
    """

    vectors: Embeddings
    groups: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[int], vectors: Embeddings, groups: Sequence[int]) -> "Nearest":
        """Return those of some rows (m,) of vectors (n, dim) in groups (n,)."""
        return cls(vectors[rows], np.array([groups[row] for row in rows], dtype=np.int64))

    def beside(self, names: Embeddings, apart: Collection[int]) -> "Nearest":
        """Return these with the names (k, dim) of the groups that none of them is in, but for those apart."""
        lacking = np.setdiff1d(np.arange(len(names)), [*self.groups, *apart])
        if not len(lacking):
            return self
        return Nearest(np.vstack([self.vectors, names[lacking]]), np.concatenate([self.groups, lacking]))

    def place(self, vector: NDArray[np.float32]) -> tuple[int, bool]:
        """Return the group of the nearest answer to a vector (dim,), and whether it is near and no other is as near.

        `NEAR` and `CLEAR` say how near. Where there is one group alone, nothing says so.
        """
        if not len(self.groups):
            return NONE, False
        cosines = self.vectors @ vector
        group = int(self.groups[int(cosines.argmax())])
        best, others = float(cosines.max()), cosines[self.groups != group]
        return group, len(others) > 0 and best >= NEAR and best - float(others.max()) >= CLEAR


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


Placing: TypeAlias = Centroids | CategoryNames | Answered
"""Put documents to clusters that are there already."""


def centroids_of(found: Partition) -> Centroids:
    """Return the centroids of clusters, each with the least cosine at which a document that comes later fits."""
    floors = [_floor(found.cosines[found.labels == number]) for number in range(found.k)]
    return Centroids(found.centroids, np.array(floors, dtype=np.float32))


def placing_json(placing: Placing) -> dict[str, Any]:
    """Return the JSON object that `placing_of` reads, without the vectors that `stored_vectors` returns."""
    if isinstance(placing, Centroids):
        return {"floors": placing.floors.tolist()}
    if isinstance(placing, Answered):
        return {"answers": dict(placing.groups), "other": placing.other}
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
    if "answers" in document:
        return Answered(document["answers"], vectors, document["other"])
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
