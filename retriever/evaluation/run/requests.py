"""Describe requests to `retriever eval`, checked before anything runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retriever.core.errors import InputError, UsageError
from retriever.core.registry import nearest
from retriever.evaluation.suites import SUITES, Task, find_suite

ALL = "all"


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """A request to measure an encoder or an index with one suite.

    Attributes:
        data: the folder with the suite's files.
        tasks: those to run; empty for all of the suite.
        limit: most items a task looks at; None for all.
        seed: of sampling, clustering and resampling.
        command: the command line to show beside the scores.
        trec: a folder for the rankings and judgements of retrieval tasks, made where there is none; what was measured
            before is then measured again.
        factories: FAISS factory strings for the suite `index`; empty for its own choice.
    """

    suite: str
    data: Path
    tasks: tuple[str, ...] = ()
    limit: int | None = None
    seed: int = 0
    command: str = ""
    trec: Path | None = None
    factories: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [task.name for task in find_suite(self.suite)]
        for name in self.tasks:
            if name not in names:
                raise UsageError(f"The suite {self.suite} has no task {name!r}.", hint=nearest(name, names))
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"--limit is {self.limit}.", hint="A task needs at least 1 item.")
        if self.seed < 0:
            raise UsageError(f"--seed is {self.seed}.", hint="A seed is a whole number from 0.")
        if self.factories and self.needs_encoder:
            raise UsageError(f"The suite {self.suite} builds no index of its own.", hint="--factory goes with `index`.")
        if any(task.files for task in self.chosen) and not self.data.is_dir():
            raise InputError(f"{self.data} is not a folder.", hint="--data names the folder with the suite's files.")

    @property
    def chosen(self) -> list[Task]:
        """The tasks to run, in the suite's order."""
        return [task for task in find_suite(self.suite) if not self.tasks or task.name in self.tasks]

    @property
    def needs_encoder(self) -> bool:
        """Whether any task needs a model."""
        return any(task.needs_model for task in self.chosen)


def requests(suite: str, data: Path, **options: Any) -> list[EvaluationRequest]:  # noqa: ANN401 - of EvaluationRequest
    """Build the requests that a suite's name stands for: one request, or one a suite for ``all``.

    Raises:
        UsageError: a suite or task is unknown, or single tasks are asked of ``all``.
    """
    if suite == ALL and options.get("tasks"):
        raise UsageError("--task needs one suite.", hint=f"Known: {', '.join(sorted(SUITES))}.")
    if suite != ALL and suite not in SUITES:
        raise UsageError(f"Unknown suite {suite!r}.", hint=nearest(suite, [*SUITES, ALL]))
    return [EvaluationRequest(one, data, **options) for one in (SUITES if suite == ALL else [suite])]
