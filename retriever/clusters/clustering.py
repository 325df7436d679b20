"""The documents of an index in clusters that answer an instruction, with names, evidence and numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.arithmetic.choice import Choice, choose_k, grouped
from retriever.clusters.arithmetic.kmeans import Partition, check_count, spherical_kmeans
from retriever.clusters.arithmetic.naming import (
    Measures,
    answer_words,
    central,
    keywords,
    labels_of,
    measures,
    text_words,
    typical_sentence,
)
from retriever.clusters.caution import caution
from retriever.clusters.fields import Spread, field_values, growth, spread
from retriever.clusters.material import Material, read_material
from retriever.core.errors import UsageError
from retriever.core.results import Lessons
from retriever.core.schema import SCHEMA_VERSION
from retriever.core.types import Document
from retriever.core.verdicts import Verdict
from retriever.core.whole_words import WholeWords
from retriever.index.selection import nothing_matches, selected_documents
from retriever.store.database import Store
from retriever.store.filters import optional_filter
from retriever.store.views import View

LARGEST_SEED = 2**31 - 1
"""FAISS takes seeds of 32 bits."""
_CENTRAL = 20


@dataclass(frozen=True, slots=True)
class ClusterRequest:
    """Settings of a clustering.

    Attributes:
        instruction: what the clusters are to answer; empty for the base view.
        k: how many; None to choose by silhouette.
        where: a filter over metadata: only documents that it accepts; a blank one is none.
        min_size: clusters with fewer documents are given up and theirs go to the next nearest.
        by: metadata fields whose values are counted in every cluster.
        over: a metadata field with dates, by whose months documents are counted.
        levels: most levels of clusters of clusters, the clusters themselves counted.
        ids: the documents to cluster; None for all.
    """

    instruction: str = ""
    k: int | None = None
    where: str | None = None
    min_size: int = 1
    by: Sequence[str] = ()
    over: str | None = None
    seed: int = 0
    levels: int = 1
    ids: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if self.k is not None and self.k < 1:
            raise UsageError(f"{self.k} clusters are asked for.", hint="Give a number from 1, or auto.")
        if self.min_size < 1:
            raise UsageError(f"The smallest cluster cannot have {self.min_size} documents.", hint="Give at least 1.")
        if self.seed < 0:
            raise UsageError(f"The seed is {self.seed}; it cannot be negative.")
        if self.seed > LARGEST_SEED:
            raise UsageError(f"The seed is {self.seed}.", hint=f"The largest is {LARGEST_SEED}.")
        if self.levels < 1:
            raise UsageError(f"There cannot be {self.levels} levels.", hint="Give at least 1: the clusters themselves.")
        if self.where is not None and not self.where.strip():
            object.__setattr__(self, "where", None)


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster.

    Attributes:
        number: from 0, the largest first.
        label: its name, unlike those of the others.
        keywords: the words among the model's answers that set it apart, best first; empty where it answers none.
        text_keywords: the same of the texts themselves.
        measures: size, cohesion and margin.
        examples: its most central documents.
        sentence: one that says most of what its documents say; empty where none is of fitting length.
        spreads: by field, how its values spread over its documents.
        documents: how many have a part in it; its size where they are embedded whole.
    """

    number: int
    label: str
    keywords: Sequence[str]
    text_keywords: Sequence[str]
    measures: Measures
    examples: Sequence[Document]
    sentence: str
    spreads: Mapping[str, Spread] = field(default_factory=dict)
    documents: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {
            "cluster": self.number,
            "label": self.label,
            "size": self.measures.size,
            "documents": self.documents,
            "keywords": list(self.keywords),
            "text_keywords": list(self.text_keywords),
            "examples": [document.id for document in self.examples],
            "sentence": self.sentence,
            "cohesion": round(self.measures.cohesion, 4),
            "margin": round(self.measures.margin, 4),
            "by": {name: {"counts": dict(one.counts), "entropy": one.entropy} for name, one in self.spreads.items()},
        }


@dataclass(frozen=True, slots=True)
class ClusterGroup:
    """Clusters that lie together.

    Attributes:
        label: its name, unlike those of the others of its level.
        keywords: the words that set it apart from them, best first.
    """

    label: str
    keywords: Sequence[str]
    clusters: Sequence[int]


@dataclass(frozen=True, slots=True)
class Clustering:
    """All documents in clusters.

    Attributes:
        view: id of the view.
        clusters: the largest first.
        choice: how k was chosen; None where it was given.
        months: by month, documents of every cluster; empty without a date field.
        partition: the clusters as numbers.
        levels: groups of clusters, the finest level first; empty where one level was asked for or found.
        lessons: what examples taught of the instruction, by which the clusters go; None where they taught nothing.
        verdict: whether the model follows the instruction; None without one, or where too few texts are there to say.
    """

    request: ClusterRequest
    view: int
    clusters: Sequence[Cluster]
    choice: Choice | None
    months: Mapping[str, Sequence[int]]
    material: Material
    partition: Partition
    levels: Sequence[Sequence[ClusterGroup]] = ()
    lessons: Lessons | None = None
    verdict: Verdict | None = None

    @property
    def assignments(self) -> dict[str, int]:
        """The cluster of every document, or unit, by id."""
        ids = (document.id for document in self.material.documents)
        return dict(zip(ids, self.partition.labels.tolist(), strict=True))

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        curve = [{"k": k, "silhouette": value} for k, value in (self.choice.curve if self.choice else ())]
        chosen = {"by": "mean silhouette", "curve": curve} if self.choice else None
        return {
            "schema_version": SCHEMA_VERSION,
            "instruction": self.request.instruction,
            "where": self.request.where,
            "view": self.view,
            "documents": len(set(self.material.parents)),
            "units": self.material.units,
            "k": len(self.clusters),
            "seed": self.request.seed,
            "chosen": chosen,
            "clusters": [cluster.to_json() for cluster in self.clusters],
            "levels": [[asdict(group) for group in level] for level in self.levels],
            "months": {month: list(counts) for month, counts in self.months.items()},
            "assignments": self.assignments,
            "taught": None if self.lessons is None else asdict(self.lessons),
            "verdict": None if self.verdict is None else self.verdict.to_json(),
            "caution": caution(self),
        }


def check(store: Store, request: ClusterRequest) -> None:
    """Refuse what cannot be clustered, from the documents alone: before anything is embedded for it.

    Raises:
        InputError: no document matches the filter, or none of the ids is there.
        UsageError: more clusters are wanted than there are documents, or a field is not there or holds no dates.
        FilterError: the filter cannot be parsed or names an unknown field.
    """
    documents = selected_documents(store, optional_filter(request.where), request.ids)
    if not documents:
        raise nothing_matches(store)
    if request.k is not None:
        check_count(request.k, len(documents))
    fields = store.documents.fields()
    for name in request.by:
        field_values(documents, name, fields)
    if request.over:
        growth(field_values(documents, request.over, fields), [0] * len(documents), 1)


def cluster(store: Store, view: View, request: ClusterRequest) -> Clustering:
    """Cluster the documents of a complete view.

    Raises:
        InputError, UsageError, FilterError: as `check` does.
    """
    condition = optional_filter(request.where)
    with store.snapshot():
        material = read_material(store, view, condition, request.ids)
        fields = store.documents.fields()
    if not material.documents:
        raise nothing_matches(store)
    choice = choose_k(material.vectors, seed=request.seed) if request.k is None else None
    k = request.k if choice is None else choice.k
    partition = spherical_kmeans(material.vectors, k or 1, seed=request.seed, min_size=request.min_size)
    counted = material.once(partition.labels.tolist())
    labels, documents = partition.labels[counted].tolist(), [material.documents[row] for row in counted]
    spreads = {name: spread(field_values(documents, name, fields), labels, partition.k) for name in request.by}
    months = {}
    if request.over:
        months = growth(field_values(documents, request.over, fields), labels, partition.k)
    clusters = described(material, partition, request.instruction, spreads)
    levels = [
        _groups(material, partition, groups, request.instruction)
        for groups in grouped(partition.centroids, request.levels, seed=request.seed)
    ]
    return Clustering(request, view.view_id, clusters, choice, months, material, partition, levels)


def still_holds(store: Store, found: Clustering) -> bool:
    """Return whether the documents a clustering is of are still all there are to cluster, none of them changed."""
    asked = found.request
    return selected_documents(store, optional_filter(asked.where), asked.ids) == list(found.material.documents)


def described(
    material: Material, partition: Partition, instruction: str, spreads: Mapping[str, Sequence[Spread]] | None = None
) -> list[Cluster]:
    """Return clusters with names, words and evidence, given which row is in which; none of them is empty.

    Args:
        material: the rows.
        partition: them in clusters.
        instruction: what they answer.
        spreads: by field, the spread of its values in every cluster.
    """
    texts = [document.text for document in material.documents]
    labels, k = partition.labels, partition.k
    answered, written = _words(material, labels, k, instruction)
    names = labels_of([ours or theirs for ours, theirs in zip(answered, written, strict=True)])
    documents = np.bincount(labels[material.once(labels.tolist())], minlength=k).tolist()
    found = []
    for number, lies in enumerate(measures(partition)):
        nearest = central(partition, texts, number, count=_CENTRAL)
        found.append(
            Cluster(
                number=number,
                label=names[number],
                keywords=answered[number],
                text_keywords=written[number],
                measures=lies,
                examples=[material.documents[row] for row in nearest[:3]],
                sentence=typical_sentence([texts[row] for row in nearest], written[number]),
                spreads={name: one[number] for name, one in (spreads or {}).items()},
                documents=documents[number],
            )
        )
    return found


def _groups(
    material: Material, partition: Partition, groups: NDArray[np.int64], instruction: str
) -> list[ClusterGroup]:
    """Return the groups of one level, given the group of every cluster (k,)."""
    count = int(groups.max()) + 1
    answered, written = _words(material, groups[partition.labels], count, instruction)
    named = [ours or theirs for ours, theirs in zip(answered, written, strict=True)]
    members = [np.flatnonzero(groups == number).tolist() for number in range(count)]
    return [ClusterGroup(*one) for one in zip(labels_of(named), named, members, strict=True)]


def _words(
    material: Material, labels: NDArray[np.int64], k: int, instruction: str
) -> tuple[list[list[str]], list[list[str]]]:
    """Return by cluster the words that set it apart: those that the model answered, and those of the texts."""
    written = [text_words(one.text) for one in material.documents]
    whole = WholeWords(written)
    first = 1 if material.taught else 0  # what was taught is a name as it is, of words of the question too
    answered = [[*one[:first], *whole.of(answer_words(one[first:], instruction))] for one in material.answers]
    return keywords(answered, labels, k), keywords(written, labels, k)
