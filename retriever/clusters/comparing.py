"""Compare two instructions: the ranks of one query's hits, or the clusters documents are in; as JSON or a page."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from retriever.clusters.arithmetic.consensus import directions
from retriever.clusters.clustering import Clustering
from retriever.clusters.pages import page
from retriever.clusters.references import NONE, ordinal
from retriever.core.errors import UsageError
from retriever.core.paths import write_output
from retriever.core.results import SCHEMA_VERSION, Hit, SearchResult
from retriever.core.verdicts import Verdict
from retriever.index.teaching.labels import NONE_OF_THESE

_FLOW_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Side:
    """One of two instructions that are compared; None for none, with what is known of whether it is followed."""

    instruction: str | None
    verdict: Verdict | None


@dataclass(frozen=True, slots=True)
class Moved:
    """A document that one of two searches found.

    Attributes:
        hit: as one of them found it, the first where both did.
        ranks: its rank in each, from 1; None where it is not among the hits.
        words: what the model answered to each instruction; empty where it is not among the hits.
    """

    hit: Hit
    ranks: tuple[int | None, int | None]
    words: tuple[Sequence[str], Sequence[str]]

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {"id": self.hit.document.id, "ranks": list(self.ranks), "words": [list(words) for words in self.words]}


@dataclass(frozen=True, slots=True)
class RankChange:
    """One query under two instructions: all documents of both answers, by their better rank, and the share in both."""

    results: tuple[SearchResult, SearchResult]
    moved: Sequence[Moved]
    overlap: float

    @property
    def sides(self) -> list[Side]:
        """The two instructions."""
        return [Side(result.instruction, result.verdict) for result in self.results]

    @property
    def approximate(self) -> list[str]:
        """A sentence on each answer that was drawn from candidates."""
        return [
            f"{name} is approximate: candidates alone were read under its instruction. "
            f"`retriever views --complete {shlex.quote(result.instruction or '')}` makes it exact."
            for name, result in zip("AB", self.results, strict=True)
            if result.path == "lazy"
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {
            "schema_version": SCHEMA_VERSION,
            "query": self.results[0].query,
            "instructions": [side.instruction or "" for side in self.sides],
            "paths": [result.path for result in self.results],
            "known_answers": [result.known_answers and asdict(result.known_answers) for result in self.results],
            "verdicts": [side.verdict and side.verdict.to_json() for side in self.sides],
            "overlap": round(self.overlap, 4),
            "documents": [move.to_json() for move in self.moved],
        }


@dataclass(frozen=True, slots=True)
class Flow:
    """Documents that are in one cluster of the first clustering and one of the second.

    Attributes:
        first: number of the cluster under the first instruction, from 0; `NONE` for none of them.
        second: under the second.
        ids: the documents', those nearest to their first cluster's centre first.
        stays: whether the two clusters are each other's counterparts: those of one name, of the others those that have
            most documents in common.
    """

    first: int
    second: int
    ids: Sequence[str]
    stays: bool

    @property
    def examples(self) -> Sequence[str]:
        """Ids of some of the documents."""
        return self.ids[:_FLOW_EXAMPLES]

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        sides = {"from": ordinal(self.first), "to": ordinal(self.second)}
        return {**sides, "size": len(self.ids), "stays": self.stays, "examples": list(self.examples)}


@dataclass(frozen=True, slots=True)
class ClusterChange:
    """The same documents clustered under two instructions.

    Attributes:
        flows: the largest first.
        rand: adjusted Rand index; 1 where the clusters are the same, 0 as by chance.
        information: adjusted mutual information, likewise.
    """

    clusterings: tuple[Clustering, Clustering]
    flows: Sequence[Flow]
    rand: float
    information: float

    @property
    def sides(self) -> list[Side]:
        """The two instructions."""
        return [Side(clustering.request.instruction, clustering.verdict) for clustering in self.clusterings]

    @property
    def names(self) -> list[Mapping[int, str]]:
        """The names of the clusters of both by number, and of `NONE`."""
        return [
            {**{cluster.number: cluster.label for cluster in clustering.clusters}, NONE: NONE_OF_THESE}
            for clustering in self.clusterings
        ]

    @property
    def moved(self) -> int:
        """Documents whose cluster is not the counterpart of the one they were in."""
        return sum(len(flow.ids) for flow in self.flows if not flow.stays)

    @property
    def sentence(self) -> str:
        """How many documents are in another cluster, and how much the two clusterings agree."""
        documents = sum(len(flow.ids) for flow in self.flows)
        return (
            f"{self.moved} of {documents} documents are in another cluster. Agreement of the two clusterings: "
            f"{self.rand:.2f} (0 by chance, 1 where they are the same)."
        )

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {
            "schema_version": SCHEMA_VERSION,
            "instructions": [side.instruction or "" for side in self.sides],
            "verdicts": [side.verdict and side.verdict.to_json() for side in self.sides],
            "clusters": [[cluster.to_json() for cluster in clustering.clusters] for clustering in self.clusterings],
            "adjusted_rand": round(self.rand, 4),
            "adjusted_mutual_information": round(self.information, 4),
            "moved": self.moved,
            "flows": [flow.to_json() for flow in self.flows],
        }


def compare_ranks(first: SearchResult, second: SearchResult) -> RankChange:
    """Compare two answers to one query, hit by hit."""
    ours, theirs = (
        {hit.document.id: (rank, hit) for rank, hit in enumerate(result.hits, start=1)} for result in (first, second)
    )
    moved = []
    for id, (_, hit) in (theirs | ours).items():
        left, right = ours.get(id), theirs.get(id)
        ranks = (left[0] if left else None, right[0] if right else None)
        moved.append(Moved(hit, ranks, (left[1].words if left else (), right[1].words if right else ())))
    moved.sort(key=lambda move: (min(rank for rank in move.ranks if rank is not None), move.hit.document.id))
    both = sum(None not in move.ranks for move in moved)
    longest = max(len(first.hits), len(second.hits))
    return RankChange((first, second), moved, both / longest if longest else 1.0)


def compare_clusters(first: Clustering, second: Clustering) -> ClusterChange:
    """Compare two clusterings of the same documents.

    Raises:
        UsageError: they are not of the same documents.
    """
    from scipy.optimize import linear_sum_assignment
    from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score

    ids = [document.id for document in first.material.documents]
    if ids != [document.id for document in second.material.documents]:
        raise UsageError("The two clusterings are of different documents.", hint="Cluster both under the same --where.")
    numbers = [[*(cluster.number for cluster in each.clusters), NONE] for each in (first, second)]
    places = [dict(zip(known, range(len(known)), strict=True)) for known in numbers]
    labels, other = (
        np.array([known[number] for number in each.labels.tolist()], dtype=np.int64)
        for known, each in zip(places, (first, second), strict=True)
    )
    table = np.zeros((len(numbers[0]), len(numbers[1])), dtype=np.int64)
    np.add.at(table, (labels, other), 1)
    names = [[cluster.label.casefold() for cluster in each.clusters] for each in (first, second)]
    alike = np.array([[name == another for another in names[1]] for name in names[0]]).reshape(table[:-1, :-1].shape)
    matched = linear_sum_assignment(table[:-1, :-1] + alike * (len(ids) + 1), maximize=True)
    pairs = set(zip(*(side.tolist() for side in matched), strict=True))
    pairs.add((len(table) - 1, len(table[0]) - 1))  # of none and none
    vectors = first.material.vectors
    cosines = np.einsum("nd,nd->n", vectors, directions(vectors, labels, len(table))[labels])
    nearest = np.argsort(-cosines, kind="stable")
    flows = [
        Flow(
            numbers[0][i],
            numbers[1][j],
            [ids[row] for row in nearest[(labels[nearest] == i) & (other[nearest] == j)]],
            (i, j) in pairs,
        )
        for i, j in zip(*(side.tolist() for side in np.nonzero(table)), strict=True)
    ]
    flows.sort(key=lambda flow: (-len(flow.ids), flow.first, flow.second))
    rand, information = adjusted_rand_score(labels, other), adjusted_mutual_info_score(labels, other)
    return ClusterChange((first, second), flows, float(rand), float(information))


def write_page(path: Path, change: RankChange | ClusterChange) -> None:
    """Write a comparison as a page without scripts: what texts and models say is shown, never run.

    Raises:
        OutputError: the file cannot be written.
    """
    if isinstance(change, RankChange):
        title, says = change.results[0].query, [f"{change.overlap:.0%} of the hits are in both.", *change.approximate]
    else:
        title, says = "Clusters", [change.sentence]
    write_output(path, page("comparison.html", change=change, title=title, says=says), "--html")
