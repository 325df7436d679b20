"""`retriever eval`: how good an encoder is, on one suite or on all."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retriever.cli import output
from retriever.cli.options import DeviceOption, JsonOption
from retriever.core.registry import require_extra
from retriever.core.text import duration, printable
from retriever.evaluation.suites import SUITES

if TYPE_CHECKING:
    from retriever.evaluation.run.evaluating import EvaluationProgress, EvaluationRequest
    from retriever.evaluation.run.results import Evaluation


def evaluate(  # noqa: PLR0913 - one parameter per option
    context: typer.Context,
    suite: Annotated[
        str,
        typer.Argument(help=f"{', '.join(SUITES)}, or all."),
    ],
    data: Annotated[Path, typer.Option(help="Folder with the files of the suite.")] = Path("data"),
    encoder: Annotated[str, typer.Option(help="Encoder: a name, METHOD:BACKBONE or a checkpoint folder.")] = "default",
    against: Annotated[str | None, typer.Option(help="Another encoder to compare with.")] = None,
    task: Annotated[list[str] | None, typer.Option(help="Task of the suite; repeatable. [default: all]")] = None,
    limit: Annotated[int | None, typer.Option(help="Most items per task, for a quick run.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of sampling, clustering and resampling.")] = 0,
    pooling: Annotated[str | None, typer.Option(help="Pooling of the hidden states of --encoder.", hidden=True)] = None,
    steps: Annotated[
        int | None, typer.Option(help="Number of soft or generated tokens (K) of --encoder.", hidden=True)
    ] = None,
    look_ahead: Annotated[
        int | None, typer.Option(help="Number of look-ahead tokens (L) of --encoder.", hidden=True)
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a report to this .md file, and its picture as .svg.")
    ] = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Measure an encoder on evaluation suites.

    Each score has a 95 % bootstrap interval. Finished tasks stay in the cache: an interrupted run continues with the
    next one.

    Example: retriever eval awareness --data data --encoder instemb --against minilm --limit 200 --report awareness.md
    """
    require_extra("eval")
    from retriever.evaluation.run.evaluating import document, requests
    from retriever.evaluation.run.report import check_report, write_report

    if report is not None:
        check_report(report)
    command = output.command_line(context)
    measured = requests(suite, data, tasks=tuple(task or ()), limit=limit, seed=seed, command=command)
    settings = {"pooling": pooling, "steps": steps, "look_ahead": look_ahead}
    ours = _evaluate(measured, encoder, device=device, **settings)
    theirs = [] if against is None else _evaluate(measured, against, device=device)
    if report is not None:
        write_report(report, ours, theirs)
    if json:
        output.document(document(ours, theirs))
    else:
        _render(ours, theirs)


def _evaluate(requests: list["EvaluationRequest"], name: str, **options: str | int | None) -> list["Evaluation"]:
    """Return one evaluation a request."""
    from retriever import load_encoder
    from retriever.evaluation.run.evaluating import evaluate as measure

    loaded = load_encoder(name, **options)  # type: ignore[arg-type]
    with output.ProgressLine() as line:
        return [measure(request, loaded, progress=lambda state: line.tell(_progress(state))) for request in requests]


def _progress(state: "EvaluationProgress") -> str:
    text = f"{state.suite} {state.number}/{state.tasks} {state.task}"
    if state.embedding is None:
        return text
    at = state.embedding
    rate = at.done / at.seconds if at.seconds else 0.0
    return f"{text}: {at.done} of {at.total} texts, {rate:.0f} texts/s, {duration(at.left)} left"


def _render(ours: list["Evaluation"], theirs: list["Evaluation"]) -> None:
    from retriever.evaluation.run.report import interval, number, verdict
    from retriever.evaluation.run.results import compare

    for place, evaluation in enumerate(ours):
        output.result(output.style(printable(f"{evaluation.suite}: {evaluation.name}"), "cyan"))
        header = ["task", "metric", "value", "95 % interval", "items"]
        rows = [[each.task, each.metric, number(each.value), interval(each), each.items] for each in evaluation.scores]
        if theirs:
            header += ["against", "difference", ""]
            pairs = {(pair.ours.task, pair.ours.metric): pair for pair in compare(evaluation, theirs[place])}
            for row, score in zip(rows, evaluation.scores, strict=True):
                pair = pairs.get((score.task, score.metric))
                row += (
                    ["-", "-", ""]
                    if pair is None
                    else [
                        number(pair.theirs.value),
                        f"{pair.difference.value:+.2f} [{pair.difference.low:+.2f}, {pair.difference.high:+.2f}]",
                        verdict(pair),
                    ]
                )
        output.table(header, rows)
        output.result("" if evaluation.mean is None else f"mean of the headline scores: {number(evaluation.mean)}")
    for note in dict.fromkeys(note for evaluation in [*ours, *theirs] for note in evaluation.notes):
        output.say(note)
