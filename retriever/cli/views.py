"""`retriever status` and `retriever views`: the contents of an index and its views."""

from typing import TYPE_CHECKING, Annotated

import typer

from retriever.cli import output
from retriever.cli.options import DEFAULT_INDEX, DeviceOption, Embedding, IndexOption, JsonOption
from retriever.cli.verdicts import say_commands
from retriever.core.errors import UsageError
from retriever.core.text import printable, shortened
from retriever.forms import command_options, made

if TYPE_CHECKING:
    from collections.abc import Mapping

    from retriever.core.results import ViewStatus
    from retriever.core.types import JSON

_SKIPPED_ROWS = 20  # that status shows
_LONGEST = 60  # characters of an instruction


def status(index: IndexOption = DEFAULT_INDEX, json: JsonOption = False) -> None:
    """Show documents, views, recent runs and skipped rows.

    Example: retriever status --index indexes/default
    """
    from retriever.workspace import Index

    with Index(index) as opened:
        state = opened.status()
    if json:
        output.document(state.to_json())
        return
    language = "" if state.language == "en" else f", words searched as {state.language}"
    parts = output.counted(state.unit_count, state.units.removesuffix("s"))
    units = "" if state.units == "documents" else f" in {parts}"
    documents, texts = output.counted(state.documents, "document"), output.counted(state.texts, "distinct text")
    output.result(f"{state.path}: {documents}{units}, {texts}, {state.size_bytes / 1e6:.1f} MB{language}")
    for role, encoder in (("instruction encoder", state.encoder), ("base encoder", state.plain)):
        if encoder is not None:
            output.result(f"{role} {encoder.get('name')}, fingerprint {str(encoder.get('fingerprint'))[:12]}")
    if state.fields:
        fields = (f"{name} ({types or 'no values'})" for name, types in state.fields.items())
        output.result(printable(f"fields {', '.join(fields)}"))
    if state.sent["tokens"]:
        texts, tokens = output.counted(state.sent["texts"], "text"), output.counted(state.sent["tokens"], "token")
        output.result(f"Endpoints were sent {texts} until now: about {tokens}, with their replies.")
    output.result()
    output.table(
        ["view", "instruction", "followed", "vectors", "coverage", "index", "recall@10", "not indexed"],
        [
            [
                view.view,
                view.instruction or "(base)",
                _followed(view),
                view.vectors,
                f"{view.coverage:.0%}",
                view.factory or view.backend or "-",
                "-" if view.recall is None else f"{view.recall:.3f}",
                view.tail,
            ]
            for view in state.views
        ],
    )
    output.result(_built_with(state.vector_index))
    output.result()
    output.table(
        ["run", "started", "status", "command"],
        [[run["run_id"], run["started"][:19], run["status"], run["command"]] for run in state.runs],
    )
    for row in state.quarantined[:_SKIPPED_ROWS]:
        where = f"{row['file']}, line {row['line']}" if row["file"] else f"document {row['id']}"
        output.result(printable(f"skipped: {where}: {row['reason']}"))
    if len(state.quarantined) > _SKIPPED_ROWS:
        output.result(f"... and {len(state.quarantined) - _SKIPPED_ROWS} more; --json lists all.")


def _built_with(chosen: "Mapping[str, JSON]") -> str:
    """Describe the vector indexes' build options in a sentence."""
    where = f" at {chosen['location']}" if chosen["location"] else ""
    if chosen["backend"] == "faiss":
        where = f", factory {chosen['factory']}, recall@10 at least {chosen['min_recall']}"
    return printable(f"Vector indexes are built with {chosen['backend']}{where}.")


@command_options(Embedding)
def views(
    index: IndexOption = DEFAULT_INDEX,
    complete: Annotated[
        list[str] | None, typer.Option(help="Embed all texts under this instruction; repeatable, all in one pass.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Delete the view of this instruction; repeatable.")] = None,
    limit: Annotated[
        str | None, typer.Option(help="Largest size of all views that are filled as needed: 500MB, 2GB, or none.")
    ] = None,
    *,
    device: DeviceOption = "auto",
    json: JsonOption = False,
    **options: object,
) -> None:
    """List the views of an index, and complete or delete some.

    A view holds the vectors of the texts under one instruction. Searches, and clusters of a filtered part, fill views
    as needed; beyond the limit, the least recently used views lose vectors first. The base view and completed views
    lose none.

    Example: retriever views --complete "What broke?" --drop "How do they feel?"
    """
    from retriever.workspace import Index

    indexing = made(Embedding, options).options(device)
    most = None if limit is None else _bytes(limit)
    with Index(index, device=device) as opened, output.ProgressLine() as line:
        opened.upkeep.drop_views(drop or [])
        if complete:
            opened.upkeep.complete(complete, options=indexing, progress=line.show)
        if limit is not None:
            opened.upkeep.lazy_limit = most
        statuses, most = opened.views(), opened.upkeep.lazy_limit
    if json:
        output.document({"lazy_limit": most, "views": [view.to_json() for view in statuses]})
        return
    _render(statuses)
    doubtful = [view.verdict for view in statuses if view.taught is None and view.verdict and view.verdict.warns]
    for verdict in doubtful:
        output.say(f'"{shortened(verdict.instruction, _LONGEST)}": {verdict.finding}', "yellow")
    if doubtful:
        say_commands("QUESTION")
    if most is not None:
        output.say(f"Views that are filled as needed use at most {output.format_bytes(most)}.")


def _render(statuses: list["ViewStatus"]) -> None:
    output.table(
        ["view", "instruction", "coverage", "filled", "followed", "vectors", "size", "last used", "encoder", "taught"],
        [
            [
                view.view,
                shortened(view.instruction, _LONGEST) or "(base)",
                f"{view.coverage:.0%}",
                _filled(view),
                _followed(view),
                view.vectors,
                output.format_bytes(view.bytes),
                view.last_used[:16].replace("T", " "),
                view.encoder,
                _taught(view),
            ]
            for view in statuses
        ],
    )


def _taught(view: "ViewStatus") -> str:
    if view.taught is None:
        return "-"
    before, after = view.taught.before.value, view.taught.after
    count = sum(view.taught.answers.values())
    return f"{count} examples, {before:.0%} before, {after.value:.0%} after ({after.low:.0%} to {after.high:.0%})"


def _filled(view: "ViewStatus") -> str:
    if view.lazy:
        return "as needed"
    return "completely" if view.coverage == 1 else "partly"


def _followed(view: "ViewStatus") -> str:
    """Return what a table says of a view's verdict."""
    return "-" if view.verdict is None else view.verdict.level


def _bytes(size: str) -> int | None:
    """Return the bytes of a size such as 2GB; None for none."""
    from pydantic import ByteSize, TypeAdapter

    if size.strip().lower() == "none":
        return None
    try:
        return TypeAdapter(ByteSize).validate_strings(size)
    except ValueError as error:
        raise UsageError(f"--limit is {size!r}.", hint="Give a size such as 500MB or 2GB, or none.") from error
