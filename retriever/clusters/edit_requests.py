"""Changes that somebody asks for, by numbers or names of clusters, become changes that can be stored."""

import getpass
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np

from retriever.clusters.arithmetic.kmeans import spherical_kmeans
from retriever.clusters.arithmetic.naming import SEPARATOR
from retriever.clusters.describing import described, described_anew
from retriever.clusters.edits import Change, Edited, Merge, Move, Rename, Split
from retriever.clusters.references import NONE, find, ordinal, references
from retriever.clusters.saved import SavedClustering
from retriever.core.errors import InputError, UsageError
from retriever.core.text import require_text
from retriever.index.teaching.labels import NONE_OF_THESE

NO_CLUSTER = ("none", "-1")
"""Names that move a document to no cluster."""


@dataclass(frozen=True, slots=True)
class ClusterEdits:
    """Changes of a saved clustering, made in the order they stand here.

    A cluster goes by its number, counted from 1, by its name, or by a beginning that no other name has.

    Attributes:
        merge: groups of clusters; the first of each takes in the others.
        split: into how many parts each cluster goes.
        move: the cluster of documents by id, ``none`` for no cluster; several with commas where documents have several
            (`references.references`).
        rename: new names.
    """

    merge: Sequence[Sequence[str]] = ()
    split: Mapping[str, int] = field(default_factory=dict)
    move: Mapping[str, str] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any((self.merge, self.split, self.move, self.rename))


def usual_author() -> str:
    """Return the name of who is logged in; ``unknown`` where nobody is."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def changes(found: SavedClustering, asked: ClusterEdits) -> list[Change]:
    """Return the changes that a request comes to, each resting on those before it.

    Raises:
        UsageError: a cluster is not there, a name is taken, or a cluster cannot be split so.
        InputError: a document is not there.
    """
    state, made = deepcopy(found.state), []
    for change in _asked(found, state, asked):
        change.apply(state, found.material)
        made.append(change)
    return made


def _asked(clustering: SavedClustering, state: Edited, edits: ClusterEdits) -> Iterator[Change]:
    """Yield the changes; each has been made when the next is worked out."""
    for group in edits.merge:
        yield _merge(clustering, state, group)
    for named, parts in edits.split.items():
        yield _split(clustering, state, find(named, state.labels), parts)
    for id, named in edits.move.items():
        yield _move(clustering, state, id, named)
    for named, label in edits.rename.items():
        require_text(label)
        number = find(named, state.labels)
        yield Rename(number, state.require_name(label, number))


def _merge(clustering: SavedClustering, state: Edited, group: Iterable[str]) -> Merge:
    """Return a merge under a name that is made of the members, unless somebody named the first."""
    numbers = list(dict.fromkeys(find(named, state.labels) for named in group))
    if len(numbers) < 2:
        raise UsageError("One cluster alone cannot be merged.", hint="Name two or more, as --merge 3,5.")
    into, *others = numbers
    label = state.labels[into]
    if into not in state.renamed:
        labels = {number: name for number, name in state.labels.items() if number not in others}
        label = _unlike(_label_of_all(clustering, state, numbers), into, labels)
    return Merge(numbers, label)


def _label_of_all(clustering: SavedClustering, state: Edited, numbers: Sequence[int]) -> str:
    """Return a name for some clusters together: the names of answers, or words that set all the members apart."""
    if clustering.named:
        return SEPARATOR.join(state.labels[number] for number in numbers)
    into = dict.fromkeys(numbers, numbers[0])
    places = {id: tuple(into.get(number, number) for number in each) for id, each in state.places.items()}
    described = described_anew(clustering.material, places, numbers[:1], clustering.request.instruction)
    return described[numbers[0]].label or state.labels[numbers[0]]


def _unlike(label: str, number: int, labels: Mapping[int, str]) -> str:
    """Return a name for a cluster, with its number behind it where another has that name."""
    taken = {name.casefold() for other, name in labels.items() if other != number}
    return f"{label} ({ordinal(number)})" if label.casefold() in taken else label


def _split(clustering: SavedClustering, state: Edited, number: int, parts: int) -> Split:
    rows = [row for row, document in enumerate(clustering.material.documents) if number in state.places[document.id]]
    if not 2 <= parts <= len(rows):
        raise UsageError(
            f"Cluster {ordinal(number)} has {len(rows)} documents and cannot be split into {parts}.",
            hint="Give 2 or more.",
        )
    part = clustering.material.part(rows)
    partition = spherical_kmeans(part.vectors, parts)
    if partition.k < parts:
        raise UsageError(
            f"The documents of cluster {ordinal(number)} are too alike to be split into {parts}.",
            hint=f"They differ enough for {partition.k}.",
        )
    into = [number, *range(state.count, state.count + parts - 1)]
    named = {other: label for other, label in state.labels.items() if other != number}
    for cluster in described(part, partition, clustering.request.instruction):
        named[into[cluster.number]] = _unlike(cluster.label, into[cluster.number], named)
    assigned = zip(part.documents, partition.labels.tolist(), strict=True)
    return Split(
        number,
        into,
        [named[part] for part in into],
        centroids=np.round(partition.centroids.astype(np.float64), 6).tolist(),
        assignments={document.id: into[label] for document, label in assigned},
    )


def _move(clustering: SavedClustering, state: Edited, id: str, named: str) -> Move:
    text = clustering.material.text_keys.get(id)
    if text is None:
        raise InputError(f"There is no document {id!r} in {clustering.name!r}.", hint="Ids are those of the corpus.")
    if named.strip().casefold() in NO_CLUSTER:
        clusters = [NONE]
    else:
        clusters = [find(each, state.labels) for each in (references(named) if clustering.several else [named])]
    answer = "" if not clustering.named else NONE_OF_THESE if clusters == [NONE] else state.labels[clusters[0]]
    return Move(id, text, list(dict.fromkeys(clusters)), answer)
