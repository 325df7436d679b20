"""Changes of a saved clustering: groups renamed, merged and split, documents moved.

A change lies on top of those before it. Nothing that was saved is touched: the clustering as it is shown is worked out
anew from what was saved and the changes that hold. So a change can be taken back, and documents that come later go
through the same changes as those that were there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np

from retriever.clusters.arithmetic.kmeans import nearest
from retriever.clusters.material import Material
from retriever.clusters.placing import Places
from retriever.clusters.references import NONE, ordinal
from retriever.core.errors import UsageError
from retriever.core.types import Embeddings
from retriever.store.clusterings import StoredEdit


@dataclass(slots=True)
class Edited:
    """A clustering under way through its changes.

    Attributes:
        labels: names by number, of the clusters that are there.
        places: the clusters of every document.
        touched: numbers of those whose documents are not those that were saved.
        count: numbers given so far, those of clusters that are gone too: the next cluster's number.
        renamed: numbers of those that somebody named.
        merged: by number, the clusters that one is merged of.
    """

    labels: dict[int, str]
    places: dict[str, tuple[int, ...]]
    touched: set[int] = field(default_factory=set)
    count: int = 0
    renamed: set[int] = field(default_factory=set)
    merged: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.count = max(self.count, len(self.labels))

    def require_name(self, label: str, number: int) -> str:
        """Return a new name for a cluster, without blanks around it.

        Raises:
            UsageError: it is empty, or another cluster's.
        """
        label = " ".join(label.split())
        if not label:
            raise UsageError(f"Cluster {ordinal(number)} gets no name.", hint='Say it as --rename 3="Late delivery".')
        if any(cluster != number and other.casefold() == label.casefold() for cluster, other in self.labels.items()):
            raise UsageError(f"There is a cluster {label!r} already.", hint="Choose another name, or merge the two.")
        return label


@dataclass(frozen=True, slots=True)
class Rename:
    """A cluster gets another name."""

    kind: ClassVar[str] = "rename"
    cluster: int
    label: str

    def apply(self, state: Edited, _: Material) -> None:
        """Give the name."""
        state.labels[self.cluster] = self.label
        state.renamed.add(self.cluster)

    def __str__(self) -> str:
        return f"cluster {ordinal(self.cluster)} is called {self.label!r}"


@dataclass(frozen=True, slots=True)
class Merge:
    """The first of some clusters takes in the others, under a name for all of them.

    Attributes:
        label: of all; that of the first where somebody gave it.
    """

    kind: ClassVar[str] = "merge"
    clusters: Sequence[int]
    label: str

    def apply(self, state: Edited, _: Material) -> None:
        """Put the documents of the others to the first."""
        into, *others = self.clusters
        gone = set(others)
        for id, clusters in state.places.items():
            if gone.intersection(clusters):
                state.places[id] = tuple(dict.fromkeys(into if cluster in gone else cluster for cluster in clusters))
        for cluster in others:
            del state.labels[cluster]
        state.labels[into] = self.label
        state.merged[into] = [part for cluster in self.clusters for part in state.merged.pop(cluster, [cluster])]
        state.touched |= {into}

    def __str__(self) -> str:
        into, *others = map(ordinal, self.clusters)
        return f"cluster {into} takes in {', '.join(map(str, others))}"


@dataclass(frozen=True, slots=True)
class Split:
    """A cluster goes into parts.

    Attributes:
        into: numbers of the parts, the first that of the cluster itself.
        labels: their names.
        centroids: (parts, dim) to the nearest of which documents go that come later.
        assignments: the parts of the documents that were there, by id.
    """

    kind: ClassVar[str] = "split"
    cluster: int
    into: Sequence[int]
    labels: Sequence[str]
    centroids: Sequence[Sequence[float]]
    assignments: Mapping[str, int]

    def apply(self, state: Edited, material: Material) -> None:
        """Put documents to the parts: as when it was split, or to the nearest part for later ones.

        Later ones go to none where the material has no vectors.
        """
        inside = [row for row, document in enumerate(material.documents) if self.cluster in state.places[document.id]]
        places = self._nearest(material.vectors[inside])
        for row, place in zip(inside, places, strict=True):
            id = material.documents[row].id
            part = self.assignments.get(id, place)
            state.places[id] = tuple(part if number == self.cluster else number for number in state.places[id])
        state.labels |= zip(self.into, self.labels, strict=True)
        state.touched |= set(self.into)
        state.renamed.discard(self.cluster)
        state.merged.pop(self.cluster, None)
        state.count = max(state.count, *(part + 1 for part in self.into))

    def _nearest(self, vectors: Embeddings) -> list[int]:
        if not vectors.shape[1]:
            return [NONE] * len(vectors)
        centroids = np.asarray(self.centroids, dtype=np.float32)  # (parts, dim)
        return [self.into[place] for place in nearest(vectors, centroids).labels.tolist()]

    def __str__(self) -> str:
        return f"cluster {ordinal(self.cluster)} is split into {', '.join(str(ordinal(part)) for part in self.into)}"


@dataclass(frozen=True, slots=True)
class Move:
    """A document goes to other clusters, unless it is gone or says something else by now.

    Attributes:
        id: the document's.
        text: what tells its text from others.
        clusters: `NONE` alone for none of them.
        answer: the name of the first, where categories are answers to a question: what a person says of the text.
        before: what a person had answered of it before; empty for nothing.
    """

    kind: ClassVar[str] = "move"
    id: str
    text: str
    clusters: Sequence[int]
    answer: str = ""
    before: str = ""

    def apply(self, state: Edited, material: Material) -> None:
        """Move the document."""
        if material.text_keys.get(self.id) != self.text:
            return
        before, after = state.places[self.id], tuple(self.clusters)
        state.places[self.id] = after
        state.touched |= set(before) ^ set(after)

    def __str__(self) -> str:
        to = ", ".join("none" if number == NONE else f"cluster {ordinal(number)}" for number in self.clusters)
        return f"{self.id} goes to {to}"


Change: TypeAlias = Rename | Merge | Split | Move

_KINDS: Mapping[str, type[Change]] = {change.kind: change for change in (Rename, Merge, Split, Move)}


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of a saved clustering.

    Attributes:
        number: grows with every edit of the index.
        change: what was done.
        author: who did it.
        made: when, ISO 8601 in UTC.
        undone: when it was taken back; None while it holds.
    """

    number: int
    change: Change
    author: str
    made: str
    undone: str | None

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        made, undone = self.made, self.undone
        return {"edit": self.number, "does": str(self.change), "author": self.author, "made": made, "undone": undone}


def change_json(change: Change) -> dict[str, Any]:
    """Return the JSON object that a change is stored as."""
    return {"kind": change.kind, **asdict(change)}


def edit_of(stored: StoredEdit) -> Edit:
    """Return an edit as it was stored."""
    said = dict(stored.change)
    change = _KINDS[said.pop("kind")](**said)
    return Edit(stored.number, change, stored.author, stored.made, stored.undone)


def edited(labels: Sequence[str], places: Places, edits: Iterable[Edit], material: Material) -> Edited:
    """Return a clustering after its changes.

    Args:
        labels: the names of the clusters as saved, by number.
        places: the clusters of every document that there is now.
        edits: in the order they were made; those taken back are passed over.
        material: the same documents.
    """
    state = Edited(dict(enumerate(labels)), dict(places))
    for edit in edits:
        if edit.undone is None:
            edit.change.apply(state, material)
    return state
