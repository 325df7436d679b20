"""`retriever views`: the questions an index holds answers to, and what they take up."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from retriever.cli import output
from retriever.cli.options import DEFAULT_INDEX, DeviceOption, IndexOption, JsonOption

if TYPE_CHECKING:
    from retriever.services.results import IndexingReport, ViewStatus

SCHEMA_VERSION = 1
_LONGEST = 60  # characters of an instruction


def views(
    index: IndexOption = DEFAULT_INDEX,
    complete: Annotated[
        list[str] | None, typer.Option(help="Embed what the view of this instruction lacks; repeatable, one pass.")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="Remove the view of this instruction with its vectors; repeatable.")
    ] = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """List the views of an index; complete some, drop others.

    Example: retriever views --complete "What broke?" --drop "How do they feel?"
    """
    from retriever.services.workspace import Index

    line = output.ProgressLine()

    def progress(report: "IndexingReport") -> None:
        line.tell(f"{sum(report.embedded.values())} vectors, {report.tokens} tokens")

    with Index(index, device=device) as opened:
        opened.drop_views(drop or [])
        if complete:
            opened.complete(complete, progress=progress)
        line.close()
        found = opened.views()
    if json:
        output.document({"schema_version": SCHEMA_VERSION, "views": [asdict(one) for one in found]})
    else:
        _render(found)


def _render(found: list["ViewStatus"]) -> None:
    output.table(
        ["view", "instruction", "coverage", "filled", "vectors", "size", "last used", "encoder"],
        [
            [
                one.view,
                _short(one.instruction) or "(base)",
                f"{one.coverage:.0%}",
                "by searches" if one.lazy else "whole",
                one.vectors,
                output.format_bytes(one.bytes),
                one.last_used[:16].replace("T", " "),
                one.encoder,
            ]
            for one in found
        ],
    )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."
