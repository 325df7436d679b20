"""Reviews in groups, whoever made them: a clustering just made or a saved one, in which a review may be in several."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.arithmetic.naming import answer_words
from retriever.clusters.clustering import Clustering
from retriever.clusters.material import Material
from retriever.clusters.saved import SavedClustering
from retriever.core.types import Document, parent_id

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

    def by_document(self) -> "Groups":
        """Return the same groups of whole reviews where these are of their units: a review is where a part of it is.

        Silent is a review of which every unit is.
        """
        rows: dict[str, list[int]] = {}
        for row, one in enumerate(self.documents):
            rows.setdefault(parent_id(one), []).append(row)
        if rows.keys() == {one.id for one in self.documents}:
            return self
        documents = [
            Document(id, " ".join(self.documents[row].text for row in each), self.documents[each[0]].metadata)
            for id, each in rows.items()
        ]
        members = np.stack([self.members[:, each].any(axis=1) for each in rows.values()], axis=1)
        silent = np.array([self.silent[each].all() for each in rows.values()], dtype=bool)
        return replace(self, documents=documents, members=members, silent=silent)

    def ids(self, members: NDArray[np.bool_]) -> list[str]:
        """Return the ids of some reviews (n,)."""
        return [self.documents[row].id for row in np.flatnonzero(members).tolist()]


def groups_of(found: Clustering) -> Groups:
    """Return a clustering's groups, of its rows: reviews, or their units."""
    names = {one.number: one.label for one in found.clusters}
    placed = [(number,) for number in found.partition.labels.tolist()]
    return _groups(found.material, found.request.instruction, names, placed)


def saved_groups(found: SavedClustering) -> Groups:
    """Return a saved clustering's groups, over the reviews there are now, without those somebody hid."""
    shown = found.to_json()
    seen = [one for one in shown["clusters"] if one["cluster"] not in found.state.hidden]
    names = {int(one["cluster"]): str(one["label"]) for one in seen}
    placed = [found.state.places[one.id] for one in found.material.documents]
    return _groups(found.material, str(shown["instruction"]), names, placed).by_document()


def _groups(
    material: Material, instruction: str, names: Mapping[int, str], placed: Sequence[Collection[int]]
) -> Groups:
    numbers = sorted(names)
    members = np.array([[number in each for each in placed] for number in numbers], dtype=bool)
    members = members.reshape(len(numbers), len(placed))
    silent: NDArray[np.bool_] = ~np.asarray(members.any(axis=0))
    if any(material.answers):  # an encoder without words says nothing of any text
        asked = "" if material.taught else instruction  # words of the question that were taught are answers
        silent |= np.array([_says_nothing(one, asked) for one in material.answers], dtype=bool)
    return Groups(material.documents, numbers, [names[one] for one in numbers], members, silent)


def _says_nothing(answers: Sequence[str], instruction: str) -> bool:
    return not answer_words(answers, instruction) or answers[0].casefold() in NOTHING
