"""`retriever index` and `retriever delete`: add documents to an index, and delete them."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from retriever.cli import output
from retriever.cli.options import DEFAULT_INDEX, DeviceOption, Embedding, EncodingOption, IndexOption, JsonOption
from retriever.cli.reading import Reading
from retriever.cli.verdicts import say_verdict
from retriever.core.errors import InputError
from retriever.core.requests import IndexType
from retriever.core.text import duration, printable
from retriever.forms import command_options, made

if TYPE_CHECKING:
    from retriever.core.results import IndexingReport
    from retriever.core.verdicts import Verdict

SKIPPED = 3


@command_options(IndexType)
@command_options(Embedding)
@command_options(Reading, leave_out=("reader", "read"))
def index(  # noqa: PLR0913 - one parameter per option
    corpus: Annotated[
        list[str], typer.Argument(help="JSON, CSV or Parquet files (zipped too), or - for JSON on stdin.")
    ],
    index: IndexOption = DEFAULT_INDEX,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="Instruction encoder of a new index: a name, METHOD:BACKBONE, http:URL#MODEL or a checkpoint folder.",
            hidden=True,
        ),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            help="Base encoder of a new index: minilm, st:MODEL, http:URL#MODEL (docs/bring-your-own.md), or none to "
            "use the instruction encoder. [default: minilm]",
        ),
    ] = None,
    instruction: Annotated[
        list[str] | None, typer.Option(help="Embed all texts under this instruction too; repeatable, all in one pass.")
    ] = None,
    id_field: Annotated[str | None, typer.Option(help="Field with the id, or a path: ticket.id.")] = None,
    text_field: Annotated[str | None, typer.Option(help="Field with the text, or a path: ticket.body.")] = None,
    encoding: EncodingOption = None,
    sheet: Annotated[
        str, typer.Option(help="Sheet of a spreadsheet. [default: the first with a text column]", show_default=False)
    ] = "",
    raw: Annotated[bool, typer.Option("--raw", help="Keep values and HTML as they are in the file.")] = False,
    sync: Annotated[bool, typer.Option("--sync", help="Delete documents that are no longer in the files.")] = False,
    on_long: Annotated[
        Literal["truncate", "skip", "error"],
        typer.Option(help="Treatment of texts over the limit of the encoder.", hidden=True),
    ] = "truncate",
    units: Annotated[
        Literal["documents", "sentences"] | None,
        typer.Option(
            help="Embed whole documents or each of their sentences; fixed by the first run. [default: documents]"
        ),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(help="Language of the texts: de, fr, ja and others, or auto to find out. [default: en]"),
    ] = None,
    *,
    read: Annotated[
        list[str] | None,
        typer.Option(
            help="Question that a language model answers about every text it was not asked about; repeatable."
        ),
    ] = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
    **options: object,
) -> int:
    """Index a corpus: add, update and embed documents.

    The same command again does only what is missing. Documents are also embedded under the instructions of earlier
    runs; `retriever views --drop` ends that.

    Example: retriever index examples/reviews.jsonl --instruction "What kind of product is this?"
    """
    from retriever.index.files import ReadingOptions, read_documents
    from retriever.index.opened import is_index

    indexing = replace(made(Embedding, options).options(device), on_long=on_long, sync=sync, units=units)
    indexing = replace(indexing, language=language)
    started = time.monotonic()  # loading models and telling whether they follow questions counts too
    reading_options = ReadingOptions(raw=raw, sheet=sheet)
    rows = read_documents(corpus, id_field=id_field, text_field=text_field, encoding=encoding, options=reading_options)
    reading = made(Reading, options, reader=None)
    chosen = reading.chosen(index, device, encoder, base, new=not is_index(index))
    said = rows.notes
    for note in said:
        output.say(note)
    with (
        reading.opened(index, device, chosen) as opened,
        output.ProgressLine() as line,
    ):
        report = opened.add(
            rows,
            instructions=instruction or [],
            options=replace(indexing, rows=rows.count),
            index_type=made(IndexType, options),
            progress=line.show,
        )
        views = [view for view in opened.views() if view.taught is None and view.view in report.views]
        verdicts = [view.verdict for view in views if view.verdict]
        for note in report.reading:
            if later := _without(note, said):
                output.say(later)
        if not json:
            _render(index, report, verdicts, time.monotonic() - started)  # a language model may be away
        for each in read or []:
            reading.begin(opened, each)
            opened.teaching.read(each, progress=line.show)
    if json:
        judged = [verdict.to_json() for verdict in verdicts]
        output.document({**report.to_json(), "truncated_ids": report.truncated_ids, "verdicts": judged})
    return SKIPPED if report.skipped else 0


def _without(note: str, said: Sequence[str]) -> str:
    """Return a note on a file without the statements of it that were printed before; empty where all were."""
    before = next((earlier for earlier in said if note.startswith(earlier)), None)
    if before is None:
        return note
    added = note.removeprefix(before).removeprefix("; ")
    return added and f"{before.partition(': ')[0]}: {added}"


def _render(index: Path, report: "IndexingReport", verdicts: Sequence["Verdict"], seconds: float) -> None:
    counts = {verb: getattr(report, verb) for verb in ("added", "updated", "unchanged", "deleted")}
    done = ", ".join(f"{count} {verb}" for verb, count in counts.items() if count) or "none"
    skipped = f"; {output.counted(report.skipped, 'row')} skipped" if report.skipped else ""
    output.result(f"Documents: {done}{skipped}, in {duration(seconds)}.")
    if instructions := [f'"{instruction}"' for instruction in report.instructions if instruction]:
        output.result(f"All texts are also embedded under {printable(', '.join(instructions))}.")
    for note in report.notes:
        output.result(printable(note))
    if report.skipped:
        output.say(f"`retriever status --index {index}` lists the skipped rows with file, line and reason.")
    for verdict in verdicts:
        say_verdict(verdict, of=f'"{verdict.instruction}": ')


def delete(
    ids: Annotated[list[str], typer.Argument(help="Ids of documents, or - for one id per line on stdin.")],
    index: IndexOption = DEFAULT_INDEX,
    json: JsonOption = False,
) -> None:
    """Delete documents by id.

    They disappear from all views at once; `retriever repair` frees their space.

    Example: retriever delete r-014 r-015
    """
    from retriever.workspace import Index

    wanted = output.stdin_lines() if ids == ["-"] else ids
    if not wanted:
        raise InputError("There are no ids on stdin.", hint="Send one id per line.")
    with Index(index) as opened:
        deleted = opened.delete(wanted)
    missing = sorted(set(wanted) - set(deleted))
    if not deleted:
        raise InputError(f"No document has one of these ids; the first is {wanted[0] if wanted else ''!r}.")
    if json:
        output.document({"deleted": deleted, "missing": missing})
        return
    output.result(f"{len(deleted)} deleted.")
    if missing:
        output.say(f"Not found: {output.counted(len(missing), 'id')}, such as {missing[0]!r}.")
