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


def _tasks(module: str, *rows: tuple[str, ...], needs_model: bool = True) -> tuple[Task, ...]:
    """Return the tasks of a module here, each a function of that name: rows of name, summary, and files."""
    return tuple(
        Task(name, f"{__package__}.{module}:{name.replace('-', '_')}", tuple(read), summary, needs_model)
        for name, summary, *read in rows
    )


_SEVERAL_KINDS = (
    files.HAPPY_MOMENTS,
    files.MEDIA_BIAS,
    files.COMPLAINTS,
    files.SCREEN_BLURBS,
    files.SOFTWARE_ISSUES,
    files.EVENT_APPRAISAL,
)
"""The files whose texts are asked several of the kinds in ``unmet.json``; those of `_ONE_KIND` are asked one."""

_ONE_KIND = (
    files.CODE_DEBT,
    files.SHORT_FORMS,
    files.SOFTWARE_REQUIREMENTS,
    files.FALLACIES,
    files.PROGRAMMING_TITLES,
    files.ODD_HEADLINES,
    files.CANCER_HALLMARKS,
)


SUITES: Mapping[str, tuple[Task, ...]] = {
    "awareness": _tasks(
        "awareness",
        (
            "triplets",
            "triplets of product reviews by category and by polarity: harmonic mean of both success rates",
            files.TRIPLETS,
        ),
        ("restaurants", "restaurant sentences by aspect and by polarity: triplets, pairs, clusters", files.RESTAURANTS),
        ("reviews", "product reviews by category and by polarity: triplets, pairs, clusters", files.REVIEWS),
        ("products", "sentences about products by product and by polarity: triplets, pairs, clusters", files.PRODUCTS),
    ),
    "robustness": _tasks(
        "robustness",
        (
            "restaurants",
            "restaurant sentences under correct, implicit and incorrect wordings: Delta_ci, Delta_ii",
            files.RESTAURANTS,
        ),
        (
            "reviews",
            "product reviews under correct, implicit and incorrect wordings: Delta_ci, Delta_ii",
            files.REVIEWS,
        ),
        (
            "products",
            "sentences about products under correct, implicit and incorrect wordings: Delta_ci, Delta_ii",
            files.PRODUCTS,
        ),
        (
            "instructed-queries",
            "web queries under several users' instructions: Robustness@10",
            files.PASSAGES,
            files.WEB_QUERIES,
        ),
    ),
    "ice": _tasks(
        "ice",
        ("fairytale", "questions on held-out stories and their answers: IRS, IGS, ITDS", files.STORIES),
    ),
    "generic": _tasks(
        "generic",
        ("sts", "similarity of sentence pairs: Spearman with people's scores", files.SENTENCE_PAIRS),
        (
            "retrieval",
            "passages for web queries in every search mode: nDCG@10, MAP, recall@100",
            files.PASSAGES,
            files.WEB_QUERIES,
        ),
        ("rerank", "the section that answers a question among those of its story: MAP", files.STORIES),
        ("intents", "clusters of customers' questions against their intents: V-measure", files.INTENTS),
        ("relations", "clusters of sentences against the relation of two names: V-measure", files.RELATIONS),
    ),
    "instructed-retrieval": _tasks(
        "instructed_retrieval",
        ("mams", "reviews that complain about or praise an aspect, MAMS: nDCG@10, p-MRR", files.MAMS),
        ("acos", "reviews that complain about or praise an aspect, ACOS: nDCG@10, p-MRR", files.RESTAURANTS),
    ),
    "unmet": _tasks(
        "unmet",
        (
            "triplets",
            "kinds of question that training never asks, and not asked: share of triplets that come right",
            *_SEVERAL_KINDS,
            *_ONE_KIND,
        ),
        (
            "reversal",
            "two such kinds asked of the same texts, where they pull apart: harmonic mean of both success rates",
            *_SEVERAL_KINDS,
        ),
        (
            "asked",
            "questions of held-out grids, asked of texts one by one and answered by reading: triplets, reversal",
            files.ASKED,
        ),
    ),
    "index": _tasks(
        "index_suite",
        ("synthetic", "FAISS indexes against exact search over synthetic vectors: recall@10, queries/s"),
        needs_model=False,
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
