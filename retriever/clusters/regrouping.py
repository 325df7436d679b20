"""Describe clusters that nobody computed: those a person put together or drew, and categories somebody named."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.arithmetic.kmeans import Partition
from retriever.clusters.clustering import Clustering, described
from retriever.clusters.editing import Places
from retriever.clusters.material import Material
from retriever.core.errors import UsageError
from retriever.core.similarity import normalise


def described_anew(
    material: Material, places: Places, numbers: Sequence[int], instruction: str
) -> Mapping[int, dict[str, Any]]:
    """Return clusters as JSON by number, described like those that a clustering finds; names are left to the caller.

    The centroid of a cluster is the mean of its documents' vectors.

    Args:
        material: the documents.
        places: the clusters of every document, all of which count.
        numbers: those to describe.
        instruction: the clustering's.
    """
    pairs = [(row, number) for row, one in enumerate(material.documents) for number in places[one.id] if number >= 0]
    rows = [row for row, _ in pairs]
    there, labels = np.unique(np.array([number for _, number in pairs], dtype=np.int64), return_inverse=True)
    part = material.part(rows)
    found = {number: {**_EMPTY, "cluster": number} for number in numbers}
    if len(rows):
        clusters = described(part, grouped_rows(part.vectors, labels, len(there)), instruction)
        for number, one in zip(there.tolist(), clusters, strict=True):
            if number in found:
                found[number] = {**one.to_json(), "cluster": number}
    return found


def set_apart(found: Clustering, material: Material, rows: Sequence[int], label: str = "") -> Clustering:
    """Return a clustering with some of its rows as a cluster of their own; those that lose all rows are gone.

    The others keep their names. Clusters are numbered anew, the largest first; how many there are was chosen by nobody.

    Args:
        found: the clustering.
        material: its rows, with their vectors.
        rows: those that become a cluster; one at least.
        label: its name; empty for the words that set it apart.

    Raises:
        UsageError: another cluster has that name.
    """
    labels = found.partition.labels.copy()
    labels[list(rows)] = len(found.clusters)
    there, sizes = np.unique(labels, return_counts=True)
    order = there[np.lexsort((there, -sizes))]
    given = np.argsort(order, kind="stable")[np.searchsorted(np.sort(order), labels)]
    partition = grouped_rows(material.vectors, given, len(order))
    kept, label = {one.number: one.label for one in found.clusters}, " ".join(label.split())
    names = {other.casefold() for number, other in kept.items() if number in there}
    if label.casefold() in names:
        raise UsageError(f"There is a cluster {label!r} already.", hint="Choose another name.")
    clusters = []
    for number, one in zip(order.tolist(), described(material, partition, found.request.instruction), strict=True):
        own = label or (one.label if one.label.casefold() not in names else f"{one.label} ({one.number})")
        clusters.append(replace(one, label=kept.get(number, own)))
    return replace(found, clusters=clusters, choice=None, months={}, levels=(), material=material, partition=partition)


def grouped_rows(vectors: NDArray[np.float32], labels: NDArray[np.int64], k: int) -> Partition:
    """Return rows (n, dim) in given groups (n,), each of which has a row, as a partition in the order of the groups."""
    sums = np.zeros((k, vectors.shape[1]), dtype=np.float64)
    np.add.at(sums, labels, vectors)
    centroids = normalise(sums)
    against = vectors @ centroids.T  # (n, k)
    own = against[np.arange(len(vectors)), labels]
    against[np.arange(len(vectors)), labels] = -np.inf
    margins = own - against.max(axis=1) if k > 1 else own
    return Partition(centroids, labels.astype(np.int64), own, margins)


_EMPTY: Mapping[str, Any] = {
    "label": "",
    "size": 0,
    "keywords": [],
    "text_keywords": [],
    "examples": [],
    "sentence": "",
    "cohesion": 0.0,
    "margin": 0.0,
    "by": {},
}
