"""The table of suites and their tasks: a new task is one function and one row here."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from retriever.core.errors import UsageError
from retriever.core.registry import nearest, resolve
from retriever.evaluation import files

if TYPE_CHECKING:
    from retriever.core.protocols import Encoder
    from retriever.core.types import Document
    from retriever.evaluation.scores import Score

SearchMode = Literal["dense", "lexical", "hybrid", "auto"]

ScoredIds: TypeAlias = Sequence[tuple[str, float]]
"""Document ids with scores, best first, equal scores by ascending id."""


class SearchPath(Protocol):
    """Searches a corpus the way a user of an index would; `run.search_path` brings one."""

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
        data: the folder that holds the data files.
        encoder: what is measured; it keeps what it has embedded, so texts cost once per instruction.
        search: the real search path over that encoder.
        limit: most items a task looks at; None for all.
        seed: of sampling, clustering and resampling.
        trec: an existing folder for the rankings and judgements of retrieval tasks; None to write none.
        factories: FAISS factory strings that the `index` suite compares; empty for its own choice.
    """

    data: Path
    encoder: "Encoder"
    search: SearchPath
    limit: int | None = None
    seed: int = 0
    trec: Path | None = None
    factories: tuple[str, ...] = ()


TaskFunction: TypeAlias = Callable[[Bench], "Iterator[Score]"]


@dataclass(frozen=True, slots=True)
class Task:
    """One row of a suite.

    Attributes:
        name: unique within the suite.
        function: ``module:attribute`` of a `TaskFunction`.
        files: the data files it reads.
        summary: one line for help and reports.
        needs_model: whether it needs an encoder; the `index` suite makes its own vectors.
    """

    name: str
    function: str
    files: tuple[str, ...]
    summary: str
    needs_model: bool = True

    def run(self, bench: Bench) -> "Iterator[Score]":
        """Yield the task's scores."""
        function: TaskFunction = resolve(self.function)
        return function(bench)


SUITES: Mapping[str, tuple[Task, ...]] = {
    "awareness": (
        Task(
            "triplets",
            "retriever.evaluation.awareness:triplets",
            (files.TRIPLETS,),
            "triplets of product reviews by category and by polarity: harmonic mean of both success rates",
        ),
        Task(
            "restaurants",
            "retriever.evaluation.awareness:restaurants",
            (files.RESTAURANTS,),
            "restaurant sentences by aspect and by polarity: triplets, pairs, clusters",
        ),
        Task(
            "reviews",
            "retriever.evaluation.awareness:reviews",
            (files.REVIEWS,),
            "product reviews by category and by polarity: triplets, pairs, clusters",
        ),
        Task(
            "products",
            "retriever.evaluation.awareness:products",
            (files.PRODUCTS,),
            "sentences about products by product and by polarity: triplets, pairs, clusters",
        ),
    ),
    "robustness": (
        Task(
            "restaurants",
            "retriever.evaluation.robustness:restaurants",
            (files.RESTAURANTS,),
            "restaurant sentences under correct, implicit and incorrect wordings: Delta_ci, Delta_ii",
        ),
        Task(
            "reviews",
            "retriever.evaluation.robustness:reviews",
            (files.REVIEWS,),
            "product reviews under correct, implicit and incorrect wordings: Delta_ci, Delta_ii",
        ),
        Task(
            "products",
            "retriever.evaluation.robustness:products",
            (files.PRODUCTS,),
            "sentences about products under correct, implicit and incorrect wordings: Delta_ci, Delta_ii",
        ),
        Task(
            "instructed-queries",
            "retriever.evaluation.robustness:instructed_queries",
            (files.PASSAGES, files.WEB_QUERIES),
            "web queries under several users' instructions: Robustness@10",
        ),
    ),
    "ice": (
        Task(
            "fairytale",
            "retriever.evaluation.ice:fairytale",
            (files.STORIES,),
            "questions on held-out stories and their answers: IRS, IGS, ITDS",
        ),
    ),
    "generic": (
        Task(
            "sts",
            "retriever.evaluation.generic:sts",
            (files.SENTENCE_PAIRS,),
            "similarity of sentence pairs: Spearman with people's scores",
        ),
        Task(
            "retrieval",
            "retriever.evaluation.generic:retrieval",
            (files.PASSAGES, files.WEB_QUERIES),
            "passages for web queries in every search mode: nDCG@10, MAP, recall@100",
        ),
        Task(
            "rerank",
            "retriever.evaluation.generic:rerank",
            (files.STORIES,),
            "the section that answers a question among those of its story: MAP",
        ),
        Task(
            "intents",
            "retriever.evaluation.generic:intents",
            (files.INTENTS,),
            "clusters of customers' questions against their intents: V-measure",
        ),
        Task(
            "relations",
            "retriever.evaluation.generic:relations",
            (files.RELATIONS,),
            "clusters of sentences against the relation of two names: V-measure",
        ),
    ),
    "instructed-retrieval": (
        Task(
            "mams",
            "retriever.evaluation.instructed_retrieval:mams",
            (files.MAMS,),
            "reviews that complain about or praise an aspect, MAMS: nDCG@10, p-MRR",
        ),
        Task(
            "acos",
            "retriever.evaluation.instructed_retrieval:acos",
            (files.RESTAURANTS,),
            "reviews that complain about or praise an aspect, ACOS: nDCG@10, p-MRR",
        ),
    ),
    "index": (
        Task(
            "synthetic",
            "retriever.evaluation.index_suite:synthetic",
            (),
            "FAISS indexes against exact search over synthetic vectors: recall@10, queries/s",
            needs_model=False,
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
