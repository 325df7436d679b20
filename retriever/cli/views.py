"""`retriever views`: the questions an index holds answers to, and what they take up."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from retriever.cli import output
from retriever.cli.options import (
    DEFAULT_INDEX,
    DeviceOption,
    IndexOption,
    JsonOption,
    LedgerOption,
    RayOption,
    WorkersOption,
    embedding,
)
from retriever.core.errors import UsageError
from retriever.core.schema import SCHEMA_VERSION
from retriever.core.text import shortened

if TYPE_CHECKING:
    from retriever.core.results import ViewStatus

_LONGEST = 60  # characters of an instruction
_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?b|)")


def views(  # noqa: PLR0913 - one parameter per option
    index: IndexOption = DEFAULT_INDEX,
    complete: Annotated[
        list[str] | None, typer.Option(help="Embed what the view of this instruction lacks; repeatable, one pass.")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="Remove the view of this instruction with its vectors; repeatable.")
    ] = None,
    limit: Annotated[
        str | None, typer.Option(help="Most that the vectors of views filled as needed may take: 500MB, 2GB, or none.")
    ] = None,
    workers: WorkersOption = None,
    ray: RayOption = None,
    ledger: LedgerOption = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """List the views of an index; complete some, drop others, and limit those that are filled as needed.

    Views fill as needed by searches, and by clusters of a part. Beyond the limit those used longest ago lose vectors
    first. The base view and completed views lose none.

    Example: retriever views --complete "What broke?" --drop "How do they feel?"
    """
    from retriever.workspace import Index

    options = embedding(workers, ray, ledger, device)
    line = output.ProgressLine()
    most = None if limit is None else _bytes(limit)
    with Index(index, device=device) as opened:
        opened.drop_views(drop or [])
        if complete:
            opened.complete(complete, options=options, progress=line.show)
        line.close()
        if limit is not None:
            opened.lazy_limit = most
        found, most = opened.views(), opened.lazy_limit
    if json:
        views = [one.to_json() for one in found]
        output.document({"schema_version": SCHEMA_VERSION, "lazy_limit": most, "views": views})
        return
    _render(found)
    for one in found:
        if one.verdict is not None and one.verdict.warns and one.taught is None:
            output.say(f'"{shortened(one.instruction, _LONGEST)}": {one.verdict.sentence}')
    if most is not None:
        output.say(f"Views filled as needed take at most {output.format_bytes(most)}.")


def _render(found: list["ViewStatus"]) -> None:
    output.table(
        ["view", "instruction", "coverage", "filled", "followed", "vectors", "size", "last used", "encoder", "taught"],
        [
            [
                one.view,
                shortened(one.instruction, _LONGEST) or "(base)",
                f"{one.coverage:.0%}",
                _filled(one),
                followed(one),
                one.vectors,
                output.format_bytes(one.bytes),
                one.last_used[:16].replace("T", " "),
                one.encoder,
                _taught(one),
            ]
            for one in found
        ],
    )


def _taught(view: "ViewStatus") -> str:
    if view.taught is None:
        return "-"
    after = view.taught.after
    return f"{sum(view.taught.answers.values())} examples, {after.value:.0%} ({after.low:.0%} to {after.high:.0%})"


def _filled(view: "ViewStatus") -> str:
    if view.lazy:
        return "as needed"
    return "whole" if view.coverage == 1 else "in part"


def followed(view: "ViewStatus") -> str:
    """Return what a table says of a view's verdict."""
    if view.verdict is None:
        return "-"
    return "yes" if view.verdict.level == "followed" else view.verdict.level


def _bytes(size: str) -> int | None:
    """Return the bytes of a size such as 2GB; None for none."""
    if size.strip().lower() == "none":
        return None
    found = _SIZE.fullmatch(size.strip().lower())
    if found is None:
        raise UsageError(f"--limit is {size!r}.", hint="Give a size such as 500MB or 2GB, or none.")
    return round(float(found[1]) * _UNITS[found[2]])
