"""Run a suite task by task, each kept when it is done, so that an interrupted evaluation goes on where it was.

Nothing is caught: a task that cannot run ends the evaluation with its own error, and what was finished before it stays.
"""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from retriever.core.environment import machine
from retriever.core.errors import InputError, UsageError
from retriever.core.fingerprint import file_hash, json_hash
from retriever.core.paths import ANOTHER_CACHE, cache_dir, make_folder, writing
from retriever.core.protocols import Encoder
from retriever.core.registry import nearest
from retriever.core.results import SCHEMA_VERSION
from retriever.core.types import JSON
from retriever.evaluation.run.bench import EmbeddingProgress, IndexSearchPath, RememberingEncoder
from retriever.evaluation.run.results import Evaluation, compare, score_from_file, score_to_file, write_json
from retriever.evaluation.scores import Score
from retriever.evaluation.suites import SUITES, Bench, Task, find_suite
from retriever.index.encoding import describe
from retriever.index.run_record import versions
from retriever.store.connection import utc_now

ALL = "all"


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """A request to measure an encoder with one suite.

    Attributes:
        tasks: those to run; empty for all of the suite.
        limit: most items a task looks at; None for all.
    """

    suite: str
    data: Path
    tasks: tuple[str, ...] = ()
    limit: int | None = None
    seed: int = 0
    command: str = ""

    def __post_init__(self) -> None:
        names = [task.name for task in find_suite(self.suite)]
        for name in self.tasks:
            if name not in names:
                raise UsageError(f"The suite {self.suite} has no task {name!r}.", hint=nearest(name, names))
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"--limit is {self.limit}.", hint="A task needs at least 1 item.")
        if self.seed < 0:
            raise UsageError(f"--seed is {self.seed}.", hint="A seed is a whole number from 0.")
        if any(task.files for task in self.chosen) and not self.data.is_dir():
            raise InputError(f"{self.data} is not a folder.", hint="--data names the folder with the suite's files.")

    @property
    def chosen(self) -> list[Task]:
        """The tasks to run, in the suite's order."""
        return [task for task in find_suite(self.suite) if not self.tasks or task.name in self.tasks]


def requests(suite: str, data: Path, **options: Any) -> list[EvaluationRequest]:  # noqa: ANN401 - of EvaluationRequest
    """Build the requests that a suite's name stands for: one request, or one a suite for ``all``.

    Raises:
        UsageError: a suite or task is unknown, or single tasks are asked of ``all``.
    """
    if suite == ALL and options.get("tasks"):
        raise UsageError("--task needs one suite.", hint=f"Known: {', '.join(sorted(SUITES))}.")
    if suite != ALL and suite not in SUITES:
        raise UsageError(f"Unknown suite {suite!r}.", hint=nearest(suite, [*SUITES, ALL]))
    return [EvaluationRequest(name, data, **options) for name in (SUITES if suite == ALL else [suite])]


RUN_FILE = "run.json"

_MEASURING = ("clusters", "core", "corpus", "encoders", "evaluation", "index", "store", "vectors")
"""The parts of the package that kept scores depend on."""


@dataclass(frozen=True, slots=True)
class EvaluationProgress:
    """The progress of an evaluation: the task that runs, its place among all from 1, and how far its embedding is."""

    suite: str
    task: str
    number: int
    tasks: int
    embedding: EmbeddingProgress | None = None


Progress = Callable[[EvaluationProgress], None]


def evaluate(
    request: EvaluationRequest,
    encoder: Encoder,
    *,
    progress: Progress | None = None,
    folder: Path | None = None,
) -> Evaluation:
    """Run the tasks of a suite that have not been run before, and return the scores of all.

    A task is kept under what it depends on: suite, encoder with its settings, limit, seed, the contents of the data
    files, and the code that measures. The file of the whole run is written beside them, by default into ``evaluation``
    in the user's cache. ``progress`` is called at the start of every task and after every chunk of texts embedded.

    Raises:
        InputError: a data file is missing or bad; file and row are named.
        OutputError: the cache cannot be written.
    """
    kept = folder or cache_dir() / "evaluation"
    with writing(kept, ANOTHER_CACHE):
        make_folder(kept)
    description: dict[str, JSON] = describe(encoder)
    data = data_hashes(request)
    run = kept / "runs" / f"{request.suite}-{_run_hash(request, description, data)[:20]}"
    scores: list[Score] = []
    seconds: dict[str, float] = {}
    state = EvaluationProgress(request.suite, "", 0, len(request.chosen))

    def tell(embedding: EmbeddingProgress) -> None:
        if progress is not None:
            progress(replace(state, embedding=embedding))

    remembering = RememberingEncoder(encoder, on_progress=tell)
    with IndexSearchPath(remembering) as search:
        bench = Bench(request.data, remembering, search, request.limit, request.seed)
        for number, task in enumerate(request.chosen, start=1):
            state = replace(state, task=task.name, number=number)
            if progress is not None:
                progress(state)
            file = run / f"task-{task.name}.json"
            done = _saved(file) or _measured(file, task, bench)
            scores += done.scores
            seconds[task.name] = done.seconds
    evaluation = Evaluation(
        suite=request.suite,
        encoder=description,
        scores=scores,
        seconds=seconds,
        seed=request.seed,
        limit=request.limit,
        data=data,
        command=request.command,
        date=utc_now(),
        machine=machine(),
        versions=versions(),
        notes=remembering.notes,
    )
    evaluation.save(run / RUN_FILE)
    return evaluation


def document(ours: Sequence[Evaluation], theirs: Sequence[Evaluation] = ()) -> dict[str, Any]:
    """Return the documented JSON object of an evaluation run.

    There is an evaluation a suite; those of the encoder it is measured against are in the same order.
    """
    pairs = [pair for own, other in zip(ours, theirs, strict=True) for pair in compare(own, other)] if theirs else []
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluations": [evaluation.to_json() for evaluation in ours],
        "against": [evaluation.to_json() for evaluation in theirs],
        "differences": [pair.to_json() for pair in pairs],
    }


def data_hashes(request: EvaluationRequest) -> dict[str, str | None]:
    """Return the SHA-256 of every data file of the suite; None for one that is not there."""
    names = dict.fromkeys(name for task in find_suite(request.suite) for name in task.files)
    paths = {name: request.data / name for name in names}
    return {name: file_hash(path) if path.is_file() else None for name, path in paths.items()}


@dataclass(frozen=True, slots=True)
class _Done:
    """A finished task."""

    scores: list[Score]
    seconds: float


def _measured(file: Path, task: Task, bench: Bench) -> _Done:
    """Run a task and keep what it found."""
    started = time.monotonic()
    scores = list(task.run(bench))
    done = _Done(scores, time.monotonic() - started)
    write_json(file, {"seconds": done.seconds, "scores": [score_to_file(score) for score in scores]})
    return done


def _saved(file: Path) -> _Done | None:
    """Return a task that was finished before; None where there is none, or none that can be read."""
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        return _Done([score_from_file(score) for score in stored["scores"]], float(stored["seconds"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _run_hash(request: EvaluationRequest, encoder: Mapping[str, JSON], data: Mapping[str, str | None]) -> str:
    """Return the hash of all that the scores depend on; which of the tasks are asked for is not among it."""
    depends: dict[str, JSON] = {
        "suite": request.suite,
        "encoder": encoder,
        "limit": request.limit,
        "seed": request.seed,
        "data": cast("Mapping[str, JSON]", data),
        "version": versions()["retriever"],
        "code": _code_hash(),
    }
    return json_hash(depends)


def _code_hash() -> str:
    """Return a hash of all code that a score can depend on: everything but commands and training."""
    package = Path(__file__).parents[2]
    endings = (f"{wing}/**/*.{ending}" for wing in _MEASURING for ending in ("py", "json", "jsonl"))
    files = sorted(file for ending in endings for file in package.glob(ending))
    digest = hashlib.sha256()
    for file in files:
        digest.update(str(file.relative_to(package)).encode() + file.read_bytes())
    return digest.hexdigest()
