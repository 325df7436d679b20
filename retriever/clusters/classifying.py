"""Put documents to categories that somebody named, by what the model answers about each under an instruction.

The name of a category is read under the instruction as if it were a document, so that "refund" lies where documents
about refunds do. What all documents of a view have in common, and what all names have, is taken off before they are
compared; what is left of a document, and of a name, is what tells it from others. Beside that the words the model
answered are compared with the names by the plain reader, which knows that "cash" is near to "money". A document whose
best category is below the floor belongs to none. Weights and floors are measured by benchmarks/classify.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.categories import Category, names_of
from retriever.clusters.clustering import Material
from retriever.clusters.editing import NONE, Places
from retriever.clusters.regrouping import described_anew
from retriever.clusters.saved import text_key
from retriever.core.schema import SCHEMA_VERSION
from retriever.core.similarity import normalise
from retriever.core.types import Embeddings
from retriever.store.clusterings import StoredClustering
from retriever.store.database import Store

KIND = "categories"
"""What a stored clustering of named categories says it is."""

ANSWERED = 0.5
"""Weight of the answered words beside the vectors, whose weight is the rest."""

FLOOR = 0.1
"""Score below which a document belongs to none of the categories."""

GAP = 0.1
"""Score that further categories of a document may be below its best, where several are asked for."""

EXAMPLES = 1.0
"""Weight of the mean of a category's examples beside its name."""

Scores = NDArray[np.float32]
Read = Callable[[Sequence[str]], Embeddings]
"""Embeds texts (n, dim), each of length 1."""


@dataclass(frozen=True, slots=True)
class ClassifyRequest:
    """Settings of a classification.

    Attributes:
        instruction: what the categories are answers to; not empty.
        categories: two or more.
        several: whether a document may belong to several.
        where: a filter over metadata: only documents that it accepts.
    """

    instruction: str
    categories: Sequence[Category]
    several: bool = False
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Classification:
    """Documents in categories.

    Attributes:
        view: id of the view.
        material: the documents.
        names: (k, dim) directions of the categories, what names have in common taken off.
        scores: (n, k) how well every document fits every category.
        places: the categories of every document by id, the best first; `NONE` where it belongs to none.
    """

    request: ClassifyRequest
    view: int
    material: Material
    names: Embeddings
    scores: Scores
    places: Places

    @property
    def assignments(self) -> dict[str, int]:
        """The category of every document by id, the best of several; -1 where it belongs to none."""
        return {id: clusters[0] for id, clusters in self.places.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object: that of a clustering, with categories in the place of clusters."""
        request, assignments = self.request, self.assignments
        numbers = range(len(request.categories))
        found = described_anew(self.material, self.places, numbers, request.instruction)
        sizes = [sum(number in clusters for clusters in self.places.values()) for number in numbers]
        several = {id: list(one) for id, one in self.places.items() if len(one) > 1}
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": KIND,
            "instruction": request.instruction,
            "where": request.where,
            "view": self.view,
            "documents": len(assignments),
            "k": len(request.categories),
            "seed": 0,
            "chosen": None,
            "several": request.several,
            "clusters": [
                {**found[number], "label": one.name, "description": one.description, "size": sizes[number]}
                for number, one in enumerate(request.categories)
            ],
            "levels": [],
            "months": {},
            "assignments": assignments,
            **({"places": several} if request.several else {}),
            "margins": {
                one.id: round(float(margin), 4)
                for one, margin in zip(self.material.documents, margins(self.scores), strict=True)
            },
        }


def classify(material: Material, view: int, request: ClassifyRequest, names: Embeddings, read: Read) -> Classification:
    """Put documents to categories.

    Args:
        material: the documents, with their vectors under the instruction and the words answered.
        view: id of the view.
        request: what is asked.
        names: (k, dim) the categories' texts, read under the instruction as documents are.
        read: the plain reader.
    """
    mean = material.vectors.mean(axis=0)
    directions = _directions(names, request.categories, material, mean)
    scores = scored(material, directions, mean, names_of(request.categories), read)
    placed = chosen(scores, several=request.several)
    places = {one.id: clusters for one, clusters in zip(material.documents, placed, strict=True)}
    return Classification(request, view, material, directions, scores, places)


def scored(
    material: Material, directions: Embeddings, mean: NDArray[np.float32], names: Sequence[str], read: Read
) -> Scores:
    """Return how well documents fit categories (n, k).

    Args:
        material: the documents.
        directions: (k, dim) of the categories.
        mean: (dim,) of the view.
        names: of the categories.
        read: the plain reader.
    """
    fits = normalise(material.vectors - mean) @ directions.T  # (n, k)
    answers = [" ".join(words) for words in material.answers]
    if not any(answers):
        return np.asarray(fits, dtype=np.float32)
    said = answered(answers, names, read)
    return np.asarray((1 - ANSWERED) * fits + ANSWERED * said, dtype=np.float32)


def answered(answers: Sequence[str], names: Sequence[str], read: Read) -> Scores:
    """Return how near the answered words of documents are to names (n, k), by the plain reader; 0 without words."""
    different = {one: row for row, one in enumerate(dict.fromkeys(answers))}
    vectors = read([one or "nothing" for one in different])
    vectors[[row for one, row in different.items() if not one]] = 0
    near = vectors @ read(list(names)).T
    return near[[different[one] for one in answers]]


def chosen(scores: Scores, *, several: bool, floor: float = FLOOR, gap: float = GAP) -> list[tuple[int, ...]]:
    """Return the categories of every row of (n, k) scores, the best first; `NONE` where all are below the floor."""
    found = []
    for row in scores:
        order = np.argsort(-row, kind="stable")
        least = max(floor, row[order[0]] - gap) if several else row[order[0]]
        good = [int(one) for one in (order if several else order[:1]) if row[one] >= max(least, floor)]
        found.append(tuple(good) or (NONE,))
    return found


def margins(scores: Scores) -> NDArray[np.float32]:
    """Return by how much every document's best score (n, k) is above its second."""
    two = np.partition(scores, -2, axis=1)[:, -2:]
    return np.asarray(two[:, 1] - two[:, 0], dtype=np.float32)


def save(store: Store, name: str, found: Classification, fingerprint: str) -> None:
    """Save a classification as a clustering under a new name; the caller holds the writer's lock.

    Raises:
        UsageError: the name is empty or taken.
    """
    texts = {document.id: text_key(document) for document in found.material.documents}
    document = {**found.to_json(), "texts": texts, "names": names_of(found.request.categories)}
    store.clusterings.save(name, fingerprint, document, found.names)


def place(read: Read) -> Callable[[StoredClustering, Material, Sequence[int]], list[tuple[int, ...]]]:
    """Return how documents that come later are put to saved categories, given the plain reader."""

    def placed(stored: StoredClustering, material: Material, rows: Sequence[int]) -> list[tuple[int, ...]]:
        if not rows:
            return []
        mean = material.vectors.mean(axis=0)
        part = Material(
            [material.documents[row] for row in rows], material.vectors[rows], [material.answers[row] for row in rows]
        )
        scores = scored(part, stored.centroids, mean, stored.document["names"], read)
        return chosen(scores, several=stored.document["several"])

    return placed


def _directions(
    names: Embeddings, categories: Sequence[Category], material: Material, mean: NDArray[np.float32]
) -> Embeddings:
    """Return the directions of categories (k, dim): of their names, and of the mean of their examples."""
    found = normalise(names - names.mean(axis=0))
    rows = {one.id: row for row, one in enumerate(material.documents)}
    for number, one in enumerate(categories):
        known = [rows[id] for id in one.examples if id in rows]
        if known:
            shown = normalise(material.vectors[known] - mean).mean(axis=0, keepdims=True)
            found[number] = normalise(found[number : number + 1] + EXAMPLES * normalise(shown))[0]
    return found
