"""`retriever curate`: raw questions and answers in, rows worth learning from out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retriever.cli import output
from retriever.cli.options import DeviceOption, EncodingOption, JsonOption
from retriever.core.text import printable

if TYPE_CHECKING:
    from retriever.training.run.curating import CurationReport

SKIPPED = 3


def curate(  # noqa: PLR0913 - one parameter per option
    source: Annotated[
        str,
        typer.Argument(metavar="IN", help="Questions and answers: JSONL, CSV, Parquet (.gz too), or - for stdin."),
    ],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The .jsonl file to write.")],
    expert: Annotated[
        list[str] | None,
        typer.Option(help="Encoder that votes; repeatable. A row stays above every median; the first mines negatives."),
    ] = None,
    max_chars: Annotated[int, typer.Option(help="Most characters of a question, text or answer.")] = 1024,
    negatives: Annotated[int, typer.Option(help="Hard negatives of a row.")] = 4,
    margin: Annotated[
        float, typer.Option(help="Share of the right answer's similarity above which a candidate is taken for right.")
    ] = 0.95,
    encoding: EncodingOption = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> int:
    """Curate rows for fine-tuning: length, language, duplicates, votes of experts, hard negatives.

    Says what each step dropped, with examples. A row that cannot be read is skipped and the run goes on.

    Example: retriever curate examples/qa.jsonl curated.jsonl --expert minilm --expert default
    """
    from retriever import load_encoder
    from retriever.training.curate import CurationOptions
    from retriever.training.curation.filters import LengthLimits
    from retriever.training.curation.votes import Expert
    from retriever.training.negatives import MiningOptions
    from retriever.training.run.curating import curate_file

    line = output.ProgressLine()
    options = CurationOptions(LengthLimits(most=max_chars), MiningOptions(negatives, margin), announce=line.tell)
    names = dict.fromkeys(expert or [])
    try:
        report = curate_file(
            source,
            target,
            lambda: [Expert(name, load_encoder(name, device=device)) for name in names],
            options,
            encoding,
        )
    finally:
        line.close()
    if json:
        output.document(report.to_json())
    else:
        _render(report)
    return SKIPPED if report.skipped else 0


def _render(report: "CurationReport") -> None:
    for file, mapping in report.mappings.items():
        output.say(f"{file}: {mapping}")
    for line in report.curated.lines():
        output.result(printable(line))
    output.result(f"{len(report.curated.rows)} of {report.read} rows written to {report.output}.")
    for row in report.bad[:3]:
        output.say(f"{row.file}, row {row.line} was skipped: {row.reason}.")
    if report.skipped > 3:
        output.say(f"{report.skipped} rows were skipped in all; --json lists them.")
