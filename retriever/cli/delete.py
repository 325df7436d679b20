"""`retriever delete`: documents out of every view."""

from typing import Annotated

import typer

from retriever.cli import output
from retriever.cli.options import DEFAULT_INDEX, IndexOption, JsonOption
from retriever.core.errors import InputError
from retriever.core.schema import SCHEMA_VERSION


def delete(
    ids: Annotated[list[str], typer.Argument(help="Ids of documents, or - for one id a line on stdin.")],
    index: IndexOption = DEFAULT_INDEX,
    json: JsonOption = False,
) -> None:
    """Delete documents by id; they vanish from every view at once, their space is freed by `compact`.

    Example: retriever delete r-014 r-015
    """
    from retriever.workspace import Index

    wanted = output.stdin_lines() if ids == ["-"] else ids
    if not wanted:
        raise InputError("There are no ids on stdin.", hint="Send one id a line.")
    with Index(index) as opened:
        deleted = opened.delete(wanted)
    missing = sorted(set(wanted) - set(deleted))
    if not deleted:
        raise InputError(f"No document has one of these ids; the first is {wanted[0] if wanted else ''!r}.")
    if json:
        output.document({"schema_version": SCHEMA_VERSION, "deleted": deleted, "missing": missing})
        return
    output.result(f"{len(deleted)} deleted.")
    if missing:
        output.say(f"{len(missing)} ids were not found, such as {missing[0]!r}.")
