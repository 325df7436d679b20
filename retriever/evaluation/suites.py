"""The table of suites and their tasks: a new task is one function and one row here."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from retriever.core.errors import UsageError
from retriever.core.registry import nearest, resolve
from retriever.evaluation.wordings import unmet_kinds

if TYPE_CHECKING:
    from retriever.core.protocols import Encoder
    from retriever.core.types import Document
    from retriever.evaluation.scores import Score


class DataFile(StrEnum):
    """Names of the suites' data files inside the data folder; docs/evaluation.md says what a row of each holds.

    Those of `unmet` are beside their kinds of question, in ``unmet.json``.
    """

    TRIPLETS = "triplets_dmaste.jsonl"
    RESTAURANTS = "aspects_restaurant_acos.jsonl"
    REVIEWS = "reviews_dmaste.jsonl"
    PRODUCTS = "aspects_huliu.jsonl"
    MAMS = "aspects_mams.jsonl"
    PASSAGES = "retrieval_msmarco_corpus.jsonl"
    WEB_QUERIES = "retrieval_msmarco_queries.jsonl"
    STORIES = "qa_fairytale.jsonl"
    SENTENCE_PAIRS = "stsb.jsonl"
    INTENTS = "banking77.jsonl"
    RELATIONS = "fewrel_nyt_pubmed.jsonl"
    ASKED = "asked.jsonl"


SearchMode = Literal["dense", "lexical", "hybrid", "auto"]

ScoredIds: TypeAlias = Sequence[tuple[str, float]]
"""Document ids with scores, best first, equal scores by ascending id."""


class SearchPath(Protocol):
    """Searches a corpus the way a user of an index would; `run.bench` brings one."""

    def __call__(
        self,
        documents: "Sequence[Document]",
        queries: Sequence[str],
        *,
        instructions: Sequence[str],
        mode: SearchMode,
        k: int,
    ) -> list[ScoredIds]:
        """Return one ranking per query; ``instructions`` holds one per query, empty for the default."""
        ...


@dataclass(frozen=True, slots=True)
class Bench:
    """The resources and settings that a task works with.

    Attributes:
        encoder: what is measured; it remembers what it has embedded, so texts cost once per instruction.
        limit: most items a task looks at; None for all.
        seed: of sampling, clustering and resampling.
    """

    data: Path
    encoder: "Encoder"
    search: SearchPath
    limit: int | None = None
    seed: int = 0

    def at_most(self, most: int) -> int:
        """Return the limit of a task that never looks at more items than ``most``."""
        return most if self.limit is None else min(self.limit, most)


TaskFunction: TypeAlias = Callable[[Bench], "Iterator[Score]"]


@dataclass(frozen=True, slots=True)
class Task:
    """One row of a suite.

    Attributes:
        function: ``module:attribute`` of a `TaskFunction`.
        summary: one line for help and reports.
    """

    name: str
    function: str
    files: tuple[str, ...]
    summary: str

    def run(self, bench: Bench) -> "Iterator[Score]":
        """Yield the task's scores."""
        function: TaskFunction = resolve(self.function)
        return function(bench)


def _tasks(module: str, *rows: tuple[str, ...]) -> tuple[Task, ...]:
    """Return the tasks of a module here, each a function of that name: rows of name, summary, and files."""
    return tuple(
        Task(name, f"{__package__}.{module}:{name.replace('-', '_')}", tuple(read), summary)
        for name, summary, *read in rows
    )


_KINDS = Counter(kind.file for kind in unmet_kinds())
"""How many kinds of question that training never asks are asked of each file."""

SUITES: Mapping[str, tuple[Task, ...]] = {
    "awareness": _tasks(
        "awareness",
        (
            "triplets",
            "triplets of product reviews by category and by polarity: harmonic mean of both success rates",
            DataFile.TRIPLETS,
        ),
        (
            "restaurants",
            "restaurant sentences by aspect and by polarity: triplets, pairs, clusters",
            DataFile.RESTAURANTS,
        ),
        ("reviews", "product reviews by category and by polarity: triplets, pairs, clusters", DataFile.REVIEWS),
        (
            "products",
            "sentences about products by product and by polarity: triplets, pairs, clusters",
            DataFile.PRODUCTS,
        ),
    ),
    "robustness": _tasks(
        "robustness",
        (
            "restaurants",
            "restaurant sentences under correct, implicit and incorrect wordings: Delta_ci, Delta_ii",
            DataFile.RESTAURANTS,
        ),
        (
            "reviews",
            "product reviews under correct, implicit and incorrect wordings: Delta_ci, Delta_ii",
            DataFile.REVIEWS,
        ),
        (
            "products",
            "sentences about products under correct, implicit and incorrect wordings: Delta_ci, Delta_ii",
            DataFile.PRODUCTS,
        ),
        (
            "instructed-queries",
            "web queries under several users' instructions: Robustness@10",
            DataFile.PASSAGES,
            DataFile.WEB_QUERIES,
        ),
    ),
    "ice": _tasks(
        "ice",
        ("fairytale", "questions on held-out stories and their answers: IRS, IGS, ITDS", DataFile.STORIES),
    ),
    "generic": _tasks(
        "generic",
        ("sts", "similarity of sentence pairs: Spearman with people's scores", DataFile.SENTENCE_PAIRS),
        (
            "retrieval",
            "passages for web queries in every search mode: nDCG@10, MAP, recall@100",
            DataFile.PASSAGES,
            DataFile.WEB_QUERIES,
        ),
        ("rerank", "the section that answers a question among those of its story: MAP", DataFile.STORIES),
        ("intents", "clusters of customers' questions against their intents: V-measure", DataFile.INTENTS),
        ("relations", "clusters of sentences against the relation of two names: V-measure", DataFile.RELATIONS),
    ),
    "instructed-retrieval": _tasks(
        "instructed_retrieval",
        ("mams", "reviews that complain about or praise an aspect, MAMS: nDCG@10, p-MRR", DataFile.MAMS),
        ("acos", "reviews that complain about or praise an aspect, ACOS: nDCG@10, p-MRR", DataFile.RESTAURANTS),
        ("conditions", "texts for laymen or experts, as code, in German and so on, and not so: SICR, WISE"),
    ),
    "unmet": _tasks(
        "unmet",
        (
            "triplets",
            "kinds of question that training never asks, and not asked: share of triplets that come right",
            *_KINDS,
        ),
        (
            "reversal",
            "two such kinds asked of the same texts, where they pull apart: harmonic mean of both success rates",
            *(file for file, kinds in _KINDS.items() if kinds > 1),
        ),
        (
            "asked",
            "questions of held-out grids, asked of texts one by one and answered by reading: triplets, reversal",
            DataFile.ASKED,
        ),
    ),
}


def find_suite(name: str) -> tuple[Task, ...]:
    """Return the tasks of a suite.

    Raises:
        UsageError: there is no such suite.
    """
    if name not in SUITES:
        raise UsageError(f"Unknown suite {name!r}.", hint=nearest(name, SUITES))
    return SUITES[name]
