"""`retriever report`: a saved clustering as a page to hand over."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retriever.cli import output
from retriever.cli.numbers import ByOption, DateOption, PeriodOption, SavedArgument, StarsOption, WhereOption
from retriever.cli.options import DEFAULT_INDEX, DeviceOption, IndexOption, JsonOption
from retriever.core.text import printable

if TYPE_CHECKING:
    from retriever.workspace import Index


def report(  # noqa: PLR0913 - one parameter per option
    name: SavedArgument,
    file: Annotated[
        Path, typer.Option("-o", "--output", help="Write the report: .html, one file that needs no network, or .md.")
    ] = Path("report.html"),
    index: IndexOption = DEFAULT_INDEX,
    by: ByOption = None,
    period: PeriodOption = None,
    stars: StarsOption = None,
    date: DateOption = None,
    where: WhereOption = None,
    diagnose: Annotated[
        bool, typer.Option("--diagnose", help="Look anew into whether the model follows the question; takes seconds.")
    ] = False,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Write what a saved clustering says: shares, impact, trend, quotes with ids, and how far to trust it.

    Without --by, products and categories are compared where the index has them.

    Example: retriever report complaints -o complaints.html --by product
    """
    from retriever.clusters.groups import saved_groups
    from retriever.clusters.index_numbers import NumbersRequest, numbers_of, usual_segments
    from retriever.clusters.periods import period_unit
    from retriever.clusters.report import make_report, model_names, report_format, write_report
    from retriever.workspace import Index

    report_format(file)  # a name that cannot be is told before anything is read
    unit = None if period is None else period_unit(period)
    line = output.ProgressLine()
    with Index(index, device=device) as opened:
        found = opened.saved_clustering(name, progress=line.show)
        segments = tuple(by) if by else usual_segments(opened)
        counted = numbers_of(opened, saved_groups(found), NumbersRequest(segments, unit, stars, date, where))
        status = opened.status()
        said = _diagnosis(opened, str(found.stored.document["instruction"])) if diagnose else ""
    line.close()
    made = make_report(found, counted, model_names(status.encoder, status.plain), diagnosis=said, where=where)
    write_report(file, made)
    if json:
        output.document(made.to_json())
        return
    for sentence in made.findings:
        output.result(printable(sentence))
    output.say(f"The report is in {file}.")


def _diagnosis(index: "Index", instruction: str) -> str:
    """Return what a diagnosis says of a question."""
    from retriever.evaluation.run import diagnosing

    if not instruction:
        return "No question was asked: the reviews are grouped by what they say."
    output.say(f"Reading {diagnosing.DIAGNOSED_TEXTS} reviews under seven instructions ...")
    texts = diagnosing.index_texts(index, diagnosing.DIAGNOSED_TEXTS)
    readers = index.readers
    plain = readers.base if readers.two else None
    return diagnosing.diagnose(readers.question, texts, instruction, plain=plain).verdict.sentence
