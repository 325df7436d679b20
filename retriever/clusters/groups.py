"""Reviews in groups, whoever made them: a clustering just made or a saved one, in which a review may be in several."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.arithmetic.naming import answer_words
from retriever.clusters.clustering import Clustering
from retriever.clusters.saved import SavedClustering
from retriever.core.types import Document

NOTHING = frozenset(
    "nobody none nothing unclear undefined unknown unmentioned unnamed unsaid unspecified unstated".split()
)
"""Words by which a model says that a text does not answer."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Reviews, the groups they are in, and those that answer the question with nothing.

    Attributes:
        numbers: of the groups, as the clustering numbers them.
        names: of the groups.
        members: (groups, n) which review is in which group.
        silent: (n,) reviews in no group, and those to which the model had no word or one of `NOTHING`.
    """

    documents: Sequence[Document]
    numbers: Sequence[int]
    names: Sequence[str]
    members: NDArray[np.bool_]
    silent: NDArray[np.bool_]

    def only(self, ids: Collection[str]) -> "Groups":
        """Return the same groups of some of the reviews."""
        return self.kept(np.array([one.id in ids for one in self.documents], dtype=bool))

    def kept(self, rows: NDArray[np.bool_]) -> "Groups":
        """Return the same groups of the reviews of some rows (n,)."""
        documents = [one for one, kept in zip(self.documents, rows, strict=True) if kept]
        return replace(self, documents=documents, members=self.members[:, rows], silent=self.silent[rows])

    def ids(self, members: NDArray[np.bool_]) -> list[str]:
        """Return the ids of some reviews (n,)."""
        return [self.documents[row].id for row in np.flatnonzero(members).tolist()]


def groups_of(found: Clustering) -> Groups:
    """Return a clustering's groups."""
    names = {one.number: one.label for one in found.clusters}
    material = found.material
    return _groups(
        material.documents, material.answers, found.request.instruction, names, found.partition.labels.tolist()
    )


def saved_groups(found: SavedClustering) -> Groups:
    """Return a saved clustering's groups, over the reviews there are now."""
    shown = found.to_json()
    names = {int(one["cluster"]): str(one["label"]) for one in shown["clusters"]}
    material = found.material
    labels = [found.assignments[one.id] for one in material.documents]
    return _groups(material.documents, material.answers, str(shown["instruction"]), names, labels)


def _groups(
    documents: Sequence[Document],
    answers: Sequence[Sequence[str]],
    instruction: str,
    names: Mapping[int, str],
    labels: Iterable[int],
) -> Groups:
    numbers = sorted(names)
    placed = np.fromiter(labels, dtype=np.int64, count=len(documents))
    members = np.array([placed == number for number in numbers], dtype=bool).reshape(len(numbers), len(documents))
    silent: NDArray[np.bool_] = ~np.asarray(members.any(axis=0))
    if any(answers):  # an encoder without words says nothing of any text
        silent |= np.array([_says_nothing(one, instruction) for one in answers], dtype=bool)
    return Groups(documents, numbers, [names[one] for one in numbers], members, silent)


def _says_nothing(answers: Sequence[str], instruction: str) -> bool:
    return not answer_words(answers, instruction) or answers[0].casefold() in NOTHING
