"""`retriever curate` and `retriever finetune`: training rows, and models trained on them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from retriever.cli import output
from retriever.cli.options import DeviceOption, EncodingOption, JsonOption
from retriever.core.registry import require_extra
from retriever.core.text import duration, printable, shortened
from retriever.training.methods import DEFAULT, METHODS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from retriever.core.types import BadRow
    from retriever.training.curation import CurationReport
    from retriever.training.loop import StepProgress
    from retriever.training.run.report import FinetuneReport, Judgement

SKIPPED = 3
_SHOWN = 80  # characters of a text
_METHODS = f"<{'|'.join(METHODS)}>"
_MINING = " and ".join(method.name for method in METHODS.values() if method.mined != "none")


def finetune(  # noqa: PLR0913 - one parameter per option
    context: typer.Context,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="QA", help="Questions and answers: JSONL, CSV, Parquet (.gz too), or - for JSONL on stdin."
        ),
    ],
    target: Annotated[Path, typer.Option("--output", "-o", help="Checkpoint folder to make.")],
    method: Annotated[
        str | None,
        typer.Option(metavar=_METHODS, help=f"Training method. [default: {DEFAULT}, or as in --config]"),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(help="Model to train: a name, METHOD:BACKBONE or a checkpoint folder. [default: the method's]"),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the rows. [default: by the number of rows]")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file of settings that differ from the defaults.")] = None,
    index: Annotated[Path | None, typer.Option(help=f"Take hard negatives from this index folder ({_MINING}).")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run that was stopped.")] = False,
    no_promote: Annotated[bool, typer.Option("--no-promote", help="Never make the model the default encoder.")] = False,
    minutes: Annotated[float | None, typer.Option(help="Stop after this many minutes; --resume continues.")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed. [default: 0, or as in --config]", hidden=True)] = None,
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16"], typer.Option(help="Number format of the model.", hidden=True)
    ] = "auto",
    encoding: EncodingOption = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> int:
    """Fine-tune a model on your own questions and answers.

    Some texts are held out to measure the model before and after. A model that improves on them, and loses at most one
    point on a general set, becomes the default encoder; any other model stays in its folder. Ctrl-C saves the run.

    Example: retriever finetune examples/qa.jsonl --output models/reviews
    """
    require_extra("train")
    from retriever.training.run.finetuning import FinetuneRequest, finetune

    request = FinetuneRequest(
        files=files,
        output=target,
        method=method,
        base=base,
        config=config,
        epochs=epochs,
        seed=seed,
        index=index,
        resume=resume,
        promote=not no_promote,
        minutes=minutes,
        encoding=encoding,
        device=device,
        dtype=dtype,
        command=output.command_line(context),
    )
    with output.ProgressLine() as line:
        report = finetune(request, on_progress=lambda *now: line.tell(_progress(*now)), announce=output.say)
    if json:
        output.document(report.to_json())
    else:
        _render(report, request.again)
    return SKIPPED if report.data.skipped else 0


def _progress(stage: str, now: "StepProgress") -> str:
    left = duration(now.seconds_left)
    return (
        f"{stage}: step {now.step} of {now.steps}, loss {now.loss:.3f}, {now.rows_per_second:.1f} rows/s, {left} left"
    )


def _render(report: "FinetuneReport", again: str) -> None:
    data = report.data
    for file in data.files:
        output.say(f"{file.name}: {file.mapping}")
    output.result(f"{len(data.train)} training rows, {len(data.held_out)} held out, {data.skipped} skipped.")
    _say_skipped(data.bad, data.skipped)
    for note in report.notes:
        output.say(note)
    if report.judgement is None:
        output.result(f"Stopped after step {report.step} of {report.steps}. To continue: {again}")
        return
    for change in report.judgement.changes:
        output.result(str(change))
    for example in report.judgement.examples[:1]:
        _render_example(example)
    output.result(f"{report.judgement.verdict.sentence} {_outcome(report.judgement, report.output)}")


def _say_skipped(rows: "Sequence[BadRow]", count: int) -> None:
    for row in rows[:3]:
        output.say(f"{row.file}, row {row.line} was skipped: {row.reason}.")
    if count > 3:
        output.say(f"{count} rows were skipped in all; --json lists them.")


def _render_example(example: "Mapping[str, Any]") -> None:
    """Print what a search of a held-out row finds first, before and after."""
    instruction = f" under {_short(example['instruction'])}" if example["instruction"] else ""
    output.result(f"An example: {_short(example['query'])}{instruction} (answer: {_short(example['answer'])}) finds")
    for when in ("before", "after"):
        first = example[when][0]
        answer = f" (answer: {_short(first['answer'])})" if first["answer"] else ""
        output.result(f"  {when + ':':7} {'right' if first['right'] else 'wrong'}: {_short(first['text'])}{answer}")


def _short(text: str) -> str:
    return f'"{shortened(text, _SHOWN)}"'


def _outcome(judgement: "Judgement", folder: Path) -> str:
    if judgement.promoted:
        return f"{folder} is the default encoder now."
    promote = f"`retriever models promote {folder}` makes it the default."
    if judgement.verdict.passed:
        return f"{folder} was not made the default, because of --no-promote; {promote}"
    return f"{folder} was kept, but is not the default."


def curate(  # noqa: PLR0913 - one parameter per option
    source: Annotated[
        str,
        typer.Argument(metavar="IN", help="Questions and answers: JSONL, CSV, Parquet (.gz too), or - for stdin."),
    ],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="Write the rows to this .jsonl file.")],
    expert: Annotated[
        list[str] | None,
        typer.Option(
            help="Encoder that scores rows; repeatable. Rows above the median of each stay; the first mines negatives."
        ),
    ] = None,
    max_chars: Annotated[int, typer.Option(help="Most characters of a question, text or answer.")] = 1024,
    negatives: Annotated[int, typer.Option(help="Hard negatives per row.")] = 4,
    margin: Annotated[
        float, typer.Option(help="Share of the right answer's similarity from which a candidate counts as right.")
    ] = 0.95,
    encoding: EncodingOption = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> int:
    """Prepare rows for fine-tuning: filter them, add hard negatives.

    Filters are length, language, duplicates and the scores of encoders. The command reports the rows that each step
    dropped, with examples. Rows that cannot be read are skipped.

    Example: retriever curate examples/qa.jsonl curated.jsonl --expert minilm --expert default
    """
    from retriever import load_encoder
    from retriever.training.curation import CurationOptions, curate_file
    from retriever.training.negatives import MiningOptions

    with output.ProgressLine() as line:
        options = CurationOptions(max_chars, MiningOptions(negatives, margin), line.tell)
        report = curate_file(
            source,
            target,
            lambda: {name: load_encoder(name, device=device) for name in dict.fromkeys(expert or [])},
            options,
            encoding,
        )
    if json:
        output.document(report.to_json())
    else:
        _render_curated(report)
    return SKIPPED if report.source.skipped else 0


def _render_curated(report: "CurationReport") -> None:
    for file, mapping in report.source.mappings.items():
        output.say(f"{file}: {mapping}")
    for line in report.curated.lines():
        output.result(printable(line))
    output.result(f"{len(report.curated.rows)} of {len(report.source.rows)} rows written to {report.output}.")
    _say_skipped(report.source.bad, report.source.skipped)
