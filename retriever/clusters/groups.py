"""Reviews in groups, whoever made them: a clustering just made or a saved one, in which a review may be in several."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.clustering import Clustering
from retriever.core.languages import ENGLISH, Language
from retriever.core.types import Document


@dataclass(frozen=True, slots=True)
class Groups:
    """Reviews, the groups they are in, and those that are in none.

    Attributes:
        numbers: of the groups, as the clustering numbers them.
        names: of the groups.
        members: (groups, n) which review is in which group.
        outside: (n,) reviews in no group.
        language: of the reviews.
    """

    documents: Sequence[Document]
    numbers: Sequence[int]
    names: Sequence[str]
    members: NDArray[np.bool_]
    outside: NDArray[np.bool_]
    language: Language = ENGLISH

    def only(self, ids: Collection[str]) -> "Groups":
        """Return the same groups of some of the reviews."""
        return self.kept(np.array([document.id in ids for document in self.documents], dtype=bool))

    def kept(self, rows: NDArray[np.bool_]) -> "Groups":
        """Return the same groups of the reviews of some rows (n,)."""
        documents = [document for document, kept in zip(self.documents, rows, strict=True) if kept]
        return replace(self, documents=documents, members=self.members[:, rows], outside=self.outside[rows])

    def by_document(self) -> "Groups":
        """Return the same groups of whole reviews where these are of their parts: a review is where a part of it is.

        Silent is a review of which every part is.
        """
        rows: dict[str, list[int]] = {}
        for row, document in enumerate(self.documents):
            rows.setdefault(document.parent_id, []).append(row)
        if rows.keys() == {document.id for document in self.documents}:
            return self
        documents = [
            Document(id, " ".join(self.documents[row].text for row in each), self.documents[each[0]].metadata)
            for id, each in rows.items()
        ]
        members = np.stack([self.members[:, each].any(axis=1) for each in rows.values()], axis=1)
        outside = np.array([self.outside[each].all() for each in rows.values()], dtype=bool)
        return replace(self, documents=documents, members=members, outside=outside)

    def ids(self, members: NDArray[np.bool_]) -> list[str]:
        """Return the ids of some reviews (n,)."""
        return [self.documents[row].id for row in np.flatnonzero(members).tolist()]


def groups_of(found: Clustering) -> Groups:
    """Return a clustering's groups, of its rows; those that say nothing are groups as others are.

    Where a sample was read, they are of the texts that were drawn, which stand for all. Where none was drawn they are
    of all that were read, and stand for nothing else.
    """
    material, rows = found.material, [found.places[document.id] for document in found.material.documents]
    members = np.array([[cluster.number in each for each in rows] for cluster in found.clusters], dtype=bool)
    members = members.reshape(len(found.clusters), len(rows))
    groups = Groups(
        material.documents,
        [cluster.number for cluster in found.clusters],
        [cluster.label for cluster in found.clusters],
        members,
        ~np.asarray(members.any(axis=0)),
        material.language,
    )
    sampled = found.sampled
    return groups if sampled is None or sampled.whole or sampled.withheld else groups.only(sampled.evenly)
