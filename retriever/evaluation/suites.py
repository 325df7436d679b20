"""The table of suites and their tasks: a new task is one function and one row here."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from retriever.core.errors import UsageError
from retriever.core.protocols import Encoder
from retriever.core.registry import nearest, resolve
from retriever.core.types import Document
from retriever.evaluation.scores import Score

SearchMode = Literal["dense", "lexical", "hybrid", "auto"]

Ranking: TypeAlias = Sequence[tuple[str, float]]
"""Document ids with scores, best first, equal scores by ascending id."""


class SearchPath(Protocol):
    """Searches a corpus the way a user of an index would; the services layer brings one."""

    def __call__(
        self,
        documents: Sequence[Document],
        queries: Sequence[str],
        *,
        instructions: Sequence[str],
        mode: SearchMode,
        k: int,
    ) -> list[Ranking]:
        """Return one ranking per query; ``instructions`` holds one per query, empty for the default."""
        ...


@dataclass(frozen=True, slots=True)
class Bench:
    """What a task gets to work with.

    Attributes:
        data: the folder that holds the data files.
        encoder: what is measured; it keeps what it has embedded, so texts cost once per instruction.
        search: the real search path over that encoder.
        limit: most items a task looks at; None for all.
        seed: of sampling, clustering and resampling.
    """

    data: Path
    encoder: Encoder
    search: SearchPath
    limit: int | None = None
    seed: int = 0


TaskFunction: TypeAlias = Callable[[Bench], Iterator[Score]]


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

    def run(self, bench: Bench) -> Iterator[Score]:
        """Yield the task's scores."""
        function: TaskFunction = resolve(self.function)
        return function(bench)


SUITES: Mapping[str, tuple[Task, ...]] = {}


def find_suite(name: str) -> tuple[Task, ...]:
    """Return the tasks of a suite.

    Raises:
        UsageError: there is no such suite.
    """
    if name not in SUITES:
        raise UsageError(f"Unknown suite {name!r}.", hint=nearest(name, SUITES))
    return SUITES[name]
