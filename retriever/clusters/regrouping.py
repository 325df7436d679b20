"""Describe clusters that nobody computed: those a person put together, and categories somebody named."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.arithmetic.kmeans import Partition
from retriever.clusters.clustering import Material, described
from retriever.clusters.editing import Places
from retriever.core.similarity import normalise


def described_anew(
    material: Material, places: Places, numbers: Sequence[int], instruction: str
) -> Mapping[int, dict[str, Any]]:
    """Return clusters as JSON by number, described like those that a clustering finds; names are left to the caller.

    The centroid of a cluster is the mean of its documents' vectors.

    Args:
        material: the documents.
        places: the clusters of every document, the first of which counts here.
        numbers: those to describe.
        instruction: the clustering's.
    """
    given = np.array([places[one.id][0] for one in material.documents], dtype=np.int64)
    rows = np.flatnonzero(given >= 0).tolist()
    there, labels = np.unique(given[rows], return_inverse=True)
    part = Material(
        [material.documents[row] for row in rows], material.vectors[rows], [material.answers[row] for row in rows]
    )
    found = {number: {**_EMPTY, "cluster": number} for number in numbers}
    if len(rows):
        clusters = described(part, grouped_rows(part.vectors, labels, len(there)), instruction)
        for number, one in zip(there.tolist(), clusters, strict=True):
            if number in found:
                found[number] = {**one.to_json(), "cluster": number}
    return found


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
