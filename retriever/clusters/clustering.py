"""Clusterings as values: documents in clusters or in named categories, made just now or saved, and their JSON."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.arithmetic.choice import Choice
from retriever.clusters.arithmetic.consensus import REPEATED, Stability
from retriever.clusters.arithmetic.naming import HALF
from retriever.clusters.budget import BUDGET, Read
from retriever.clusters.categories import Category, checked
from retriever.clusters.fields import Spread
from retriever.clusters.material import Material
from retriever.clusters.phrases import Phrase
from retriever.clusters.placing import CategoryNames, Centroids, Places, Placing
from retriever.clusters.reading import Sampled
from retriever.clusters.references import ordinal
from retriever.clusters.resemblance import Resemblance
from retriever.core.errors import UsageError
from retriever.core.lessons import Lessons
from retriever.core.results import SCHEMA_VERSION, KnownAnswers
from retriever.core.types import Document
from retriever.core.unanswered import empty_answer
from retriever.core.verdicts import Verdict
from retriever.store.filters import Filter

Made = Literal["vectors", "names", "lessons", "answers", "similar answers", "language model"]
"""How groups came about: by vectors, by names that somebody gave, by what examples taught, a group of each answer,
groups of similar answers, or categories that a language model wrote of the answers."""


@dataclass(frozen=True, slots=True)
class ClusterRequest:
    """Settings of a clustering.

    Attributes:
        instruction: what the clusters are to answer; None, which a blank one becomes, for the base view.
        k: how many; None for a cluster of each answer that the question was taught or, where it was taught none, to
            choose by silhouette among the numbers whose clusters hold.
        where: only documents that this filter accepts; None for all.
        by: metadata fields whose values are counted in every cluster.
        ids: the documents to cluster; None for all.
        read: texts that are read where a language model serves the instruction.
        into: the categories that documents are put to, two or more; none for groups that are computed or written.
        several: whether a document may belong to several of the categories.

    Raises:
        UsageError: categories have no question, or cannot be told apart, or a number of groups beside them.
    """

    instruction: str | None = None
    k: int | None = None
    where: Filter | None = None
    by: Sequence[str] = ()
    ids: frozenset[str] | None = None
    read: Read = BUDGET
    into: Sequence[Category] = ()
    several: bool = False

    def __post_init__(self) -> None:
        if self.k is not None and self.k < 1:
            raise UsageError(f"{self.k} clusters are asked for.", hint="Give a number from 1, or auto.")
        object.__setattr__(self, "instruction", (self.instruction or "").strip() or None)
        if self.several and not self.into:
            raise UsageError("Several categories are allowed, and none is named.", hint="Name them: into, or --into.")
        if self.into:
            object.__setattr__(self, "into", checked(self.into))
            if self.instruction is None:
                raise UsageError("Categories are answers to a question.", hint='Say it: --instruction "What is wrong?"')
            if self.k is not None:
                raise UsageError("A number of groups and categories exclude each other.", hint="Leave out -k.")


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster or category.

    Attributes:
        number: from 0, as `Clustering.labels` has it; of those that were computed the largest is first. Wherever it is
            shown, and in JSON, it counts from 1 (`references.ordinal`).
        label: its name, unlike those of the others.
        size: rows of the material in it: documents, or sentences where these are embedded.
        documents: how many documents have a part in it.
        keywords: the words among the model's answers that set it apart, best first; empty where it answers none. Where
            answers are whole phrases, the commonest of them.
        text_keywords: the same of the texts themselves.
        examples: ids of its most central rows.
        sentence: one that says most of what its documents say; empty where none is of fitting length.
        cohesion: mean cosine with the centroid.
        margin: by how much it is higher than that with the next centroid, on average; 0 is no border at all.
        spreads: by field, how its values spread over its documents.
        description: its definition, as somebody or a language model wrote it; empty without.
        phrases: the commonest answers with their rows, where answers are whole phrases; else empty.
        holds: the share of its rows that its name is true of, as far as is known.
        alert: a sentence on what speaks against it; empty for nothing.
    """

    number: int
    label: str = ""
    size: int = 0
    documents: int = 0
    keywords: Sequence[str] = ()
    text_keywords: Sequence[str] = ()
    examples: Sequence[str] = ()
    sentence: str = ""
    cohesion: float = 0.0
    margin: float = 0.0
    spreads: Mapping[str, Spread] = field(default_factory=dict)
    description: str = ""
    phrases: Sequence[Phrase] = ()
    holds: float = 1.0
    alert: str = ""

    @property
    def mixed(self) -> bool:
        """Whether its name holds of fewer than half of its rows; then it has no share."""
        return self.holds < HALF

    @property
    def empty(self) -> bool:
        """Whether it is of the texts that do not answer, or say that there is nothing."""
        return empty_answer(self.label) is not None

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {**self.stored(), "cluster": ordinal(self.number)}

    def stored(self) -> dict[str, Any]:
        """Return the JSON object that the database has, in which clusters count from 0."""
        return {
            "cluster": self.number,
            "label": self.label,
            "size": self.size,
            "documents": self.documents,
            "keywords": list(self.keywords),
            "phrases": [phrase.to_json() for phrase in self.phrases],
            "text_keywords": list(self.text_keywords),
            "examples": list(self.examples),
            "sentence": self.sentence,
            "cohesion": round(self.cohesion, 4),
            "margin": round(self.margin, 4),
            "by": {
                name: {"counts": dict(spread.counts), "entropy": spread.entropy}
                for name, spread in self.spreads.items()
            },
            "description": self.description,
            "holds": round(self.holds, 4),
            "alert": self.alert,
        }

    @classmethod
    def from_stored(cls, document: Mapping[str, Any]) -> "Cluster":
        """Return the cluster of a JSON object that `stored` made."""
        same = {name: document[name] for name in document.keys() - {"cluster", "by", "phrases"}}
        phrases = [Phrase.from_json(phrase) for phrase in document["phrases"]]
        spreads = {name: Spread(spread["counts"], spread["entropy"]) for name, spread in document["by"].items()}
        return cls(number=document["cluster"], spreads=spreads, phrases=phrases, **same)


@dataclass(frozen=True, eq=False)
class Clustering:
    """Documents in clusters.

    Attributes:
        request: what was asked for.
        view: id of the view.
        material: the documents, or their sentences, row by row.
        clusters: by number.
        places: the clusters of every row by id, the nearest first.
        placing: puts documents that come later to these clusters.
        made: how they came about.
        by: name of the language model that wrote the categories; empty where none did.
        fault: why a language model that answers the question wrote or placed less than it was to; empty elsewhere.
        choice: how the number of clusters was chosen; None where it was given.
        stability: how well the clusters hold; None where the rows are too few to say, and of categories.
        margins: by how much the best category of a row is ahead of the next, by id; empty of other clusters, and
            of those that were saved.
        lessons: what examples taught of the instruction, by which the clusters go; None where they taught nothing.
        verdict: whether the model follows the instruction; None without one, where it was taught, or where too few
            texts are there to say.
        sampled: how much of the texts was read, and what that says of all; None where an encoder read them all.
        examples: the answers of the documents that taught the instruction, by id; empty where none did.
        resembles: another clustering that this one is nearly the same as; None for none, and without a `warning`.
    """

    request: ClusterRequest
    view: int
    material: Material
    clusters: Sequence[Cluster]
    places: Places
    placing: Placing
    made: Made = "vectors"
    by: str = ""
    fault: str = ""
    choice: Choice | None = None
    stability: Stability | None = None
    margins: Mapping[str, float] = field(default_factory=dict)
    lessons: Lessons | None = None
    verdict: Verdict | None = None
    sampled: Sampled | None = None
    examples: Mapping[str, str] = field(default_factory=dict)
    resembles: Resemblance | None = None

    @property
    def categories(self) -> CategoryNames | None:
        """The judge that compares documents with the names of categories; None where there is none."""
        return self.placing if isinstance(self.placing, CategoryNames) else None

    @property
    def named(self) -> bool:
        """Whether groups are answers to the question by name; else they are of similar texts."""
        return not isinstance(self.placing, Centroids)

    @property
    def question(self) -> str:
        """The question of the view; empty for the base view."""
        return self.request.instruction or ""

    @property
    def several(self) -> bool:
        """Whether a document may be in several clusters."""
        return self.categories is not None and self.categories.several

    @property
    def assignments(self) -> dict[str, int]:
        """The cluster of every row by id, from 0, the nearest of several; `NONE` where it fits none."""
        return {id: clusters[0] for id, clusters in self.places.items()}

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """The cluster (n,) of every row of the material, as `assignments` has it: from 0, `NONE` where it fits none."""
        return np.array([self.places[document.id][0] for document in self.material.documents], dtype=np.int64)

    @cached_property
    def documents(self) -> Mapping[str, Document]:
        """The rows of the material by their ids."""
        return {document.id: document for document in self.material.documents}

    @cached_property
    def topics(self) -> Mapping[str, Sequence[int]]:
        """The clusters that each whole document has a part in, each once, by the document's id."""
        by_parent: dict[str, dict[int, None]] = {}
        for document, parent in zip(self.material.documents, self.material.parents, strict=True):
            by_parent.setdefault(parent, {}).update(dict.fromkeys(self.places[document.id]))
        return {id: list(numbers) for id, numbers in by_parent.items()}

    def members(self, number: int) -> list[str]:
        """Return the ids of a cluster's rows, in their order."""
        return [id for id, clusters in self.places.items() if number in clusters]

    @property
    def caution(self) -> str:
        """Warn before the clusters: that their question may not be answered, what to do, and what else to doubt.

        Empty where there is nothing.
        """
        return " ".join(filter(None, [self.warning, self.doubts, _fewer(self), _unwritten(self)]))

    @property
    def warning(self) -> str:
        """That the question is not followed, or that teaching it did not surely help; empty elsewhere."""
        known = self.verdict if self.lessons is None else self.lessons
        return known.sentence if known is not None and known.warns else ""

    @property
    def known_answers(self) -> KnownAnswers | None:
        """The answers that its filter looks at; None where the filter asks for none."""
        return None if self.request.where is None else self.request.where.known

    @property
    def doubts(self) -> str:
        """Limits of clusters where `warning` says something: that they are not stable, and which were not learned."""
        return " ".join(filter(None, [self.division, _unsteady(self), _not_learned(self)]))

    @property
    def division(self) -> str:
        """The nature of clusters whose question may not be answered; empty elsewhere."""
        if not self.warning:
            return ""
        if self.resembles is not None:
            return self.resembles.sentence
        if self.named and self.lessons is None:
            return "Texts are in the categories whose names they resemble; these need not be their answers."
        if self.named:
            return "Read some texts of each group before you use it: they may give another answer."
        if self.lessons is not None or (self.verdict is not None and self.verdict.level == "unclear"):
            return "Read some texts of each group before you use it: the texts may be similar, the answers not."
        return "These are groups of similar texts; they need not answer the question."

    @property
    def not_learned(self) -> list[str]:
        """The categories that no example has, under a question that examples taught; no text is put to them."""
        numbers = () if self.categories is None else self.categories.not_learned
        return [cluster.label for cluster in self.clusters if cluster.number in numbers]

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        where, known = self.request.where, self.known_answers
        document = {
            "schema_version": SCHEMA_VERSION,
            "caution": self.caution,
            "instruction": self.request.instruction or "",
            "where": None if where is None else where.expression,
            "view": self.view,
            "documents": len(self.topics),
            "units": self.material.units,
            "k": len(self.clusters),
            "chosen": None if self.choice is None else self.choice.to_json(),
            "stability": None if self.stability is None else self.stability.to_json(),
            "made": self.made,
            "several": self.several,
            "written_by": self.by or None,
            "fault": self.fault or None,
            "clusters": [cluster.to_json() for cluster in self.clusters],
            "assignments": {id: ordinal(number) for id, number in self.assignments.items()},
            "taught": None if self.lessons is None else asdict(self.lessons),
            "verdict": None if self.verdict is None else self.verdict.to_json(),
            "resembles": None if self.resembles is None else self.resembles.to_json(),
            "sampled": None if self.sampled is None else self.sampled.to_json(),
            "known_answers": None if known is None else asdict(known),
        }
        if self.categories is not None:
            document |= {"floor": self.categories.floor, "not_learned": self.not_learned}
        if self.margins:
            document["margins"] = dict(self.margins)
        if self.several:
            places = self.places.items()
            document["places"] = {id: list(map(ordinal, numbers)) for id, numbers in places if len(numbers) > 1}
        return document


def documents_of(material: Material, places: Places) -> Counter[int]:
    """Return how many whole documents have a part in each cluster."""
    parts = {
        (parent, number)
        for document, parent in zip(material.documents, material.parents, strict=True)
        for number in places[document.id]
    }
    return Counter(number for _, number in parts)


def _unsteady(clustering: Clustering) -> str:
    """Say that clusters are not stable; nothing where they are, or where there are too few texts to say."""
    stability = clustering.stability
    if stability is None or stability.holds:
        return ""
    first = f"These {len(clustering.clusters)} clusters are not stable"
    if clustering.choice is not None and not clustering.choice.holds:
        first = f"These {len(clustering.clusters)} clusters are a first sorting, since no number of them is stable"
    runs = {"a second run": stability.repeated, "a run on half of the texts": stability.halves}
    if stability.repeated >= REPEATED:
        del runs["a second run"]
    agreements = " and ".join(f"{agreement:.2f}" for agreement in runs.values())
    return f"{first}: {' or '.join(runs)} gives others (agreement {agreements} of 1)."


def _not_learned(clustering: Clustering) -> str:
    """Name the categories that were not learned; nothing where there are none."""
    if not clustering.not_learned:
        return ""
    return f"Not learned, because no example has it: {', '.join(clustering.not_learned)}. No text is put there."


def _fewer(clustering: Clustering) -> str:
    """Say why there are fewer clusters than were wanted; nothing where there are not, or where that was the most."""
    wanted, made = clustering.request.k, len(clustering.clusters)
    if wanted is None or made >= wanted or clustering.made == "language model":
        return ""
    texts = len({document.text for document in clustering.material.documents})
    if texts < wanted:
        return f"{wanted} clusters were asked for, but there are only {texts} different texts: {made} clusters."
    return f"{wanted} clusters were asked for, but too few texts differ to the model: {made} clusters."


def _unwritten(clustering: Clustering) -> str:
    """Say that a language model wrote no categories though it answers the question; nothing where it did."""
    if not clustering.fault:
        return ""
    lacks = "placed fewer answers" if clustering.made in ("language model", "names") else "wrote no categories"
    return f"The language model {lacks}: {clustering.fault}"
