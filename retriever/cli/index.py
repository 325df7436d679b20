"""`retriever index`: documents in, vectors stored."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from retriever.cli import output
from retriever.cli.options import (
    DEFAULT_INDEX,
    DeviceOption,
    FactoryOption,
    IndexOption,
    JsonOption,
    RecallOption,
)

if TYPE_CHECKING:
    from retriever.services.results import IndexingReport

SKIPPED = 3


def index(  # noqa: PLR0913 - one parameter per option
    corpus: Annotated[
        list[str], typer.Argument(help="JSONL, CSV or Parquet files (.gz too), or - for JSONL on stdin.")
    ],
    index: IndexOption = DEFAULT_INDEX,
    encoder: Annotated[
        str | None, typer.Option(help="Encoder of a new index: a name, METHOD:BACKBONE or a checkpoint folder.")
    ] = None,
    instruction: Annotated[
        list[str] | None, typer.Option(help="Also fill the view of this instruction; repeatable, in the same pass.")
    ] = None,
    id_field: Annotated[str | None, typer.Option(help="Field that holds the id.")] = None,
    text_field: Annotated[str | None, typer.Option(help="Field that holds the text.")] = None,
    sync: Annotated[bool, typer.Option("--sync", help="Delete documents that the corpus no longer has.")] = False,
    on_long: Annotated[
        Literal["truncate", "skip", "error"], typer.Option(help="What to do with texts over 512 tokens.")
    ] = "truncate",
    factory: FactoryOption = "auto",
    min_recall: RecallOption = 0.95,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> int:
    """Index a corpus: insert, update, embed. The same command again does only what is missing.

    Example: retriever index examples/reviews.jsonl --instruction "What kind of product is this?"
    """
    from retriever import load_encoder, open_index
    from retriever.corpus.readers import count_rows, read_documents
    from retriever.services.generations import IndexType
    from retriever.services.indexing import IndexingOptions

    rows = read_documents(corpus, id_field=id_field, text_field=text_field)
    chosen = None if encoder is None else load_encoder(encoder, device=device)
    line = output.ProgressLine(count_rows(corpus))
    with open_index(index, encoder=chosen) as opened:
        report = opened.add(
            rows,
            instructions=instruction or [],
            options=IndexingOptions(on_long=on_long, sync=sync),
            index_type=IndexType(factory, min_recall, device),
            progress=lambda report: line.show(report.in_hand, report.tokens, report.seconds),
        )
    line.close()
    if json:
        output.document(report.to_json())
    else:
        _render(index, report)
    return SKIPPED if report.skipped else 0


def _render(index: Path, report: "IndexingReport") -> None:
    embedded = sum(report.embedded.values())
    output.result(
        f"{report.added} added, {report.updated} updated, {report.unchanged} unchanged, {report.deleted} deleted, "
        f"{report.skipped} skipped; {embedded} vectors in {output.format_seconds(report.seconds)}."
    )
    if report.truncated:
        output.result(f"{report.truncated} texts were cut to the encoder's limit.")
    for note in report.notes:
        output.result(note)
    if report.skipped:
        output.say(f"`retriever status --index {index}` lists the skipped rows with file, line and reason.")
