"""What people change in a saved clustering: names, clusters merged, split and hidden, reviews moved.

A change is plain JSON on top of those before it. Nothing that was saved is touched: the clustering as it is shown is
worked out anew from what was saved and the changes that hold, and so a change can be taken back, and documents that
come later go through the same changes as those that were there.

    {"kind": "rename", "cluster": 3, "label": "Late delivery"}
    {"kind": "merge", "clusters": [3, 5]}                         the first takes in the others
    {"kind": "split", "cluster": 3, "into": [3, 9], "labels": ["a", "b"], "centroids": [...],
     "assignments": {"r1": 9, ...}}
    {"kind": "hide", "cluster": 3}, {"kind": "show", "cluster": 3}
    {"kind": "move", "id": "r1", "text": "5f...", "clusters": [3]}   -1 is none of them
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from retriever.clusters.arithmetic.kmeans import assign_to
from retriever.core.errors import UsageError
from retriever.core.types import Embeddings

NONE = -1
"""The cluster of a document that fits none."""

Change = Mapping[str, Any]
Places = dict[str, tuple[int, ...]]
"""The clusters of every document by id, the nearest first."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The documents that there are now, for changes that look at them.

    Attributes:
        texts: by id, in the order of the rows, what tells a text from others.
        vectors: (n, dim) theirs in the view.
    """

    texts: Mapping[str, str]
    vectors: Embeddings


@dataclass(slots=True)
class Edited:
    """A clustering under way through its changes.

    Attributes:
        labels: names by number, of the clusters that are there.
        places: the clusters of every document.
        hidden: numbers of clusters that are not to be shown.
        touched: numbers of those whose documents are not those that were saved.
        count: numbers given so far, those of clusters that are gone too: the next cluster's number.
    """

    labels: dict[int, str]
    places: Places
    hidden: set[int] = field(default_factory=set)
    touched: set[int] = field(default_factory=set)
    count: int = 0

    def __post_init__(self) -> None:
        self.count = max(self.count, len(self.labels))

    def number(self, named: str) -> int:
        """Return the number of the cluster that a person named by its number or its name, whatever the case.

        Raises:
            UsageError: there is none; those there are stand in the message.
        """
        wanted = named.strip()
        if wanted.isdecimal() and int(wanted) in self.labels:
            return int(wanted)
        for number, label in self.labels.items():
            if label.casefold() == wanted.casefold():
                return number
        known = ", ".join(f"{number} ({label})" for number, label in self.labels.items())
        raise UsageError(f"There is no cluster {wanted!r}.", hint=f"There are: {known}.")

    def members(self, number: int) -> list[str]:
        """Return the ids of a cluster's documents, in their order."""
        return [id for id, clusters in self.places.items() if number in clusters]

    def apply(self, change: Change, placed: Placed) -> None:
        """Make one change."""
        _KINDS[change["kind"]](self, change, placed)

    def require_name(self, label: str, number: int) -> str:
        """Return a new name for a cluster, without blanks around it.

        Raises:
            UsageError: it is empty, or another cluster's.
        """
        label = " ".join(label.split())
        if not label:
            raise UsageError(f"Cluster {number} gets no name.", hint='Say it as --rename 3="Late delivery".')
        if any(one != number and other.casefold() == label.casefold() for one, other in self.labels.items()):
            raise UsageError(f"There is a cluster {label!r} already.", hint="Choose another name, or merge the two.")
        return label


def _rename(state: Edited, change: Change, _: Placed) -> None:
    state.labels[change["cluster"]] = change["label"]


def _merge(state: Edited, change: Change, _: Placed) -> None:
    into, *others = change["clusters"]
    gone = set(others)
    for id, clusters in state.places.items():
        if gone.intersection(clusters):
            state.places[id] = tuple(dict.fromkeys(into if one in gone else one for one in clusters))
    for one in others:
        del state.labels[one]
    state.hidden -= gone
    state.touched |= {into}


def _split(state: Edited, change: Change, placed: Placed) -> None:
    """Put the documents of a cluster to its parts: as when it was split, or the nearest part for later ones."""
    number, parts, known = change["cluster"], change["into"], change["assignments"]
    centroids = np.asarray(change["centroids"], dtype=np.float32)  # (parts, dim)
    rows = {id: row for row, id in enumerate(placed.texts) if number in state.places[id]}
    labels, _ = assign_to(placed.vectors[list(rows.values())], centroids)
    for id, nearest in zip(rows, labels.tolist(), strict=True):
        part = known.get(id, parts[nearest])
        state.places[id] = tuple(part if one == number else one for one in state.places[id])
    for part, label in zip(parts, change["labels"], strict=True):
        state.labels[part] = label
    state.touched |= set(parts)
    state.count = max(state.count, *(part + 1 for part in parts))


def _hide(state: Edited, change: Change, _: Placed) -> None:
    state.hidden.add(change["cluster"])


def _show(state: Edited, change: Change, _: Placed) -> None:
    state.hidden.discard(change["cluster"])


def _move(state: Edited, change: Change, placed: Placed) -> None:
    """Put a document elsewhere, unless it is gone or says something else by now."""
    id = change["id"]
    if placed.texts.get(id) != change["text"]:
        return
    before, after = state.places[id], tuple(change["clusters"])
    state.places[id] = after
    state.touched |= set(before) ^ set(after)


_KINDS: Mapping[str, Callable[[Edited, Change, Placed], None]] = {
    "rename": _rename,
    "merge": _merge,
    "split": _split,
    "hide": _hide,
    "show": _show,
    "move": _move,
}


def edited(labels: Sequence[str], places: Places, changes: Iterable[Change], placed: Placed) -> Edited:
    """Return a clustering after its changes.

    Args:
        labels: the names of the clusters as saved, by number.
        places: the clusters of every document that there is now.
        changes: in the order they were made.
        placed: the same documents.
    """
    state = Edited(dict(enumerate(labels)), dict(places))
    for change in changes:
        state.apply(change, placed)
    return state


def describe(change: Change) -> str:
    """Say in a line what a change does."""
    kind = change["kind"]
    if kind == "rename":
        return f"cluster {change['cluster']} is called {change['label']!r}"
    if kind == "merge":
        into, *others = change["clusters"]
        return f"cluster {into} takes in {', '.join(map(str, others))}"
    if kind == "split":
        return f"cluster {change['cluster']} is split into {', '.join(map(str, change['into']))}"
    if kind == "move":
        to = ", ".join("none" if one == NONE else f"cluster {one}" for one in change["clusters"])
        return f"{change['id']} goes to {to}"
    return f"cluster {change['cluster']} is {'hidden' if kind == 'hide' else 'shown'}"
