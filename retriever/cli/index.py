"""`retriever index`: documents in, vectors stored."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from retriever.cli import output
from retriever.cli.options import (
    DEFAULT_INDEX,
    BackendOption,
    DeviceOption,
    EncodingOption,
    FactoryOption,
    IndexOption,
    JsonOption,
    LedgerOption,
    PlainOption,
    RayOption,
    RecallOption,
    WorkersOption,
    embedding,
)
from retriever.core.text import printable

if TYPE_CHECKING:
    from retriever.core.results import IndexingReport

SKIPPED = 3


def index(  # noqa: PLR0913 - one parameter per option
    corpus: Annotated[
        list[str], typer.Argument(help="JSONL, CSV or Parquet files (.gz too), or - for JSONL on stdin.")
    ],
    index: IndexOption = DEFAULT_INDEX,
    encoder: Annotated[
        str | None,
        typer.Option(help="Question reader of a new index: a name, METHOD:BACKBONE or a checkpoint folder."),
    ] = None,
    plain: PlainOption = None,
    instruction: Annotated[
        list[str] | None, typer.Option(help="Also fill the view of this instruction; repeatable, all in one pass.")
    ] = None,
    id_field: Annotated[str | None, typer.Option(help="Field that holds the id.")] = None,
    text_field: Annotated[str | None, typer.Option(help="Field that holds the text.")] = None,
    encoding: EncodingOption = None,
    sync: Annotated[bool, typer.Option("--sync", help="Delete documents that the corpus no longer has.")] = False,
    on_long: Annotated[
        Literal["truncate", "skip", "error"], typer.Option(help="What to do with texts over the reader's limit.")
    ] = "truncate",
    units: Annotated[
        Literal["documents", "sentences", "clauses"] | None,
        typer.Option(
            help="What is embedded and found: documents (unless told otherwise), each of their sentences, or clauses "
            "of these. Settled with the first document."
        ),
    ] = None,
    backend: BackendOption = None,
    factory: FactoryOption = None,
    min_recall: RecallOption = None,
    workers: WorkersOption = None,
    ray: RayOption = None,
    ledger: LedgerOption = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> int:
    """Index a corpus: insert, update, embed. The same command again does only what is missing.

    Views that were asked for before are filled too; `retriever views --drop` ends that.

    Example: retriever index examples/reviews.jsonl --instruction "What kind of product is this?"
    """
    from retriever.index.files import count_rows, read_documents
    from retriever.index.generations import IndexType
    from retriever.index.open_index import is_index
    from retriever.index.readers import load_readers
    from retriever.workspace import Index

    options = replace(embedding(workers, ray, ledger, device), on_long=on_long, sync=sync, units=units)
    rows = read_documents(corpus, id_field=id_field, text_field=text_field, encoding=encoding)
    question, base = load_readers(encoder, plain, new=not is_index(index), device=device)
    line = output.ProgressLine(count_rows(corpus))
    with Index(index, encoder=question, plain=base, device=device) as opened:
        report = opened.add(
            rows,
            instructions=instruction or [],
            options=options,
            index_type=IndexType(factory, min_recall, backend),
            progress=line.show,
        )
        verdicts = [
            one.verdict for one in opened.views() if one.verdict and one.taught is None and one.view in report.views
        ]
    line.close()
    if json:
        output.document(
            {**report.to_json(), "truncated_ids": report.truncated_ids, "verdicts": [one.to_json() for one in verdicts]}
        )
    else:
        _render(index, report)
        for one in verdicts:
            if one.warns:
                output.say(f'"{one.instruction}": {one.sentence}')
    return SKIPPED if report.skipped else 0


def _render(index: Path, report: "IndexingReport") -> None:
    embedded = sum(report.embedded.values())
    output.result(
        f"{report.added} added, {report.updated} updated, {report.unchanged} unchanged, {report.deleted} deleted, "
        f"{report.skipped} skipped; {embedded} vectors in {output.format_seconds(report.seconds)}."
    )
    if len(report.views) > 1:
        views = ", ".join(f'"{one}"' if one else "the base view" for one in report.instructions)
        output.result(f"{len(report.views)} views hold all texts: {printable(views)}.")
    for note in report.notes:
        output.result(printable(note))
    if report.skipped:
        output.say(f"`retriever status --index {index}` lists the skipped rows with file, line and reason.")
