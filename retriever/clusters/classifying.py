"""Put documents to categories that somebody named, by what the model answers about each under an instruction.

The name of a category is read under the instruction as if it were a document, said three times since a word alone is
shorter than what the model reads, so that "refund" lies where documents about refunds do. With m the mean of the view's
vectors d, and c the name's vector less the mean of the names' and at length 1, a document goes to the category of the
highest (d - 0.75 m) . c: what all documents have in common says nothing, and what all names have says nothing. The
plain reader's similarity of text and name has a small say besides. Where a document is not as near to its category's
name as documents are to their mean (cosine below 0.92 |m|), it belongs to none of them.

Of a question that was taught, text and name are what its head makes of both readers' vectors (`taught_names`), and the
rules are the same; but where all categories are answers that it was taught, no document belongs to none of them.

These rules and numbers lead, by names alone, on rows of which the figures in docs/evaluation.md are not; the words that
the model answers, and the plain reader alone or with more of a say, were worse (benchmarks/classify.py).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.categories import Category
from retriever.clusters.editing import NONE, Places
from retriever.clusters.material import Material
from retriever.clusters.regrouping import described_anew
from retriever.clusters.saved import text_key
from retriever.core.results import Lessons
from retriever.core.schema import SCHEMA_VERSION
from retriever.core.similarity import normalise
from retriever.core.types import Embeddings
from retriever.core.verdicts import Verdict
from retriever.index.teaching.head import Head
from retriever.store.clusterings import StoredClustering
from retriever.store.database import Store

KIND = "categories"
"""What a stored clustering of named categories says it is."""

TAKEN_OFF = 0.75
"""Share of the documents' mean that is taken off each of them."""

PLAIN = 0.15
"""Weight of the plain reader's cosine of text and name, the rest being that of the view."""

FLOOR = 0.92
"""Cosine with its category, over the length of the documents' mean, below which a document belongs to none."""

NO_FLOOR = -1e9
"""The floor where no document belongs to none."""

GAP = 0.1
"""What the scores of further categories of a document may be below its best, where several are asked for."""

EXAMPLES = 1.0
"""Weight of the mean of a category's examples, less that of all documents, beside its name."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How well documents fit categories.

    Attributes:
        scores: (n, k) what they are compared by.
        reach: (n, k) cosines over the length of the documents' mean, which the floor is held to.
    """

    scores: NDArray[np.float32]
    reach: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Plain:
    """What the plain reader says: (n, d) of the documents' texts, and (k, d) of the names of categories."""

    texts: Embeddings
    names: Embeddings


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
        names: (k, dim) vectors of the categories, those of the plain reader behind them where there is one.
        fit: of every document and category.
        floor: of that fit, below which a document belongs to none.
        places: the categories of every document by id, the best first; `NONE` where it belongs to none.
        lessons: what examples taught of the question, by which the categories go; None where they taught nothing.
        verdict: whether the model follows the question; None where it was taught, or too few texts are there to say.
    """

    request: ClassifyRequest
    view: int
    material: Material
    names: Embeddings
    fit: Fit
    floor: float
    places: Places
    lessons: Lessons | None = None
    verdict: Verdict | None = None

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
            "documents": len(set(self.material.parents)),
            "units": self.material.units,
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
            "taught": None if self.lessons is None else asdict(self.lessons),
            "verdict": None if self.verdict is None else self.verdict.to_json(),
            "floor": self.floor,
            "assignments": assignments,
            **({"places": several} if request.several else {}),
            "margins": {
                one.id: round(float(margin), 4)
                for one, margin in zip(self.material.documents, margins(self.fit.scores), strict=True)
            },
        }


def classify(
    material: Material,
    view: int,
    request: ClassifyRequest,
    names: Embeddings,
    plain: Plain | None = None,
    *,
    floor: float = FLOOR,
) -> Classification:
    """Put documents to categories.

    Args:
        material: the documents, with their vectors under the instruction.
        view: id of the view.
        request: what is asked.
        names: (k, dim) what `read_of` says of the categories, read under the instruction as documents are.
        plain: the same documents and the names as the plain reader has them; None without one.
        floor: the fit below which a document belongs to none.
    """
    vectors = _with_examples(names, request.categories, material)
    fit = fitted(material.vectors, vectors, material.vectors.mean(axis=0), plain)
    if plain is not None:
        vectors = np.hstack([vectors, plain.names])
    placed = chosen(fit, several=request.several, floor=floor)
    places = {one.id: clusters for one, clusters in zip(material.documents, placed, strict=True)}
    return Classification(request, view, material, vectors, fit, floor, places)


def read_of(category: Category) -> str:
    """Return the text that is read of a category."""
    said = ", ".join([category.name] * 3)
    return f"{said}: {category.description}" if category.description else said


def all_taught(head: Head, categories: Sequence[Category]) -> bool:
    """Whether all categories are answers that a head was taught, by their names."""
    return {one.name.casefold() for one in categories} <= {one.casefold() for one in head.answers}


def taught_names(head: Head, categories: Sequence[Category], names: Embeddings, plain: Embeddings) -> Embeddings:
    """Return the vectors of categories (k, dim) as a head makes them of those of both readers.

    Where all of them are taught answers, each is that answer alone: what its name looks like has been learned from.
    """
    mapped = head.map(names, plain)
    if not all_taught(head, categories):
        return mapped
    numbers = {one.casefold(): number for number, one in enumerate(head.answers)}
    for row, one in enumerate(categories):
        mapped[row, : len(head.answers)] = 0
        mapped[row, numbers[one.name.casefold()]] = np.sqrt(head.share)
    return normalise(mapped)


def fitted(vectors: Embeddings, names: Embeddings, mean: NDArray[np.float32], plain: Plain | None = None) -> Fit:
    """Return how well documents (n, dim) fit categories (k, dim), given the mean (dim,) of all documents."""
    directions = normalise(names - names.mean(axis=0))
    scores = vectors @ directions.T - TAKEN_OFF * (mean @ directions.T)
    if plain is not None:
        scores = (1 - PLAIN) * scores + PLAIN * (plain.texts @ plain.names.T)
    length = float(np.linalg.norm(mean)) or 1.0
    return Fit(np.asarray(scores, dtype=np.float32), np.asarray(vectors @ names.T / length, dtype=np.float32))


def chosen(fit: Fit, *, several: bool, floor: float = FLOOR) -> list[tuple[int, ...]]:
    """Return the categories of every document, the best first; `NONE` where the best is below the floor."""
    found: list[tuple[int, ...]] = []
    for scores, reach in zip(fit.scores, fit.reach, strict=True):
        order = np.argsort(-scores, kind="stable")
        least = scores[order[0]] - GAP if several else np.inf
        further = [int(one) for one in order[1:] if scores[one] >= least and reach[one] >= floor]
        found.append((int(order[0]), *further) if reach[order[0]] >= floor else (NONE,))
    return found


def margins(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return by how much every document's best score (n, k) is above its second."""
    two = np.partition(scores, -2, axis=1)[:, -2:]
    return np.asarray(two[:, 1] - two[:, 0], dtype=np.float32)


def save(store: Store, name: str, found: Classification, fingerprint: str) -> None:
    """Save a classification as a clustering under a new name; the caller holds the writer's lock.

    Raises:
        UsageError: the name is empty or taken.
    """
    texts = {document.id: text_key(document) for document in found.material.documents}
    store.clusterings.save(name, fingerprint, {**found.to_json(), "texts": texts}, found.names)


def place(
    stored: StoredClustering, material: Material, rows: Sequence[int], plain: Embeddings | None
) -> list[tuple[int, ...]]:
    """Put documents that came later, some rows of the material, to saved categories.

    ``plain`` (r, d) is what the plain reader says of them; None without one.
    """
    dim = material.vectors.shape[1]
    names, behind = stored.centroids[:, :dim], stored.centroids[:, dim:]
    said = None if plain is None or not behind.size else Plain(plain, behind)
    fit = fitted(material.vectors[list(rows)], names, material.vectors.mean(axis=0), said)
    return chosen(fit, several=stored.document["several"], floor=stored.document.get("floor", FLOOR))


def _with_examples(names: Embeddings, categories: Sequence[Category], material: Material) -> Embeddings:
    """Return the vectors of categories (k, dim): those of their names, moved by their examples."""
    rows = {one.id: row for row, one in enumerate(material.documents)}
    mean, moved = material.vectors.mean(axis=0), names.copy()
    for number, one in enumerate(categories):
        known = [rows[id] for id in one.examples if id in rows]
        if known:
            moved[number] += EXAMPLES * (material.vectors[known].mean(axis=0) - mean)
    return normalise(moved)
