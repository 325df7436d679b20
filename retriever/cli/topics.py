"""`retriever topics`: what people change in saved clusters and categories."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from retriever.cli import output
from retriever.cli.classify import assigned
from retriever.cli.cluster import render
from retriever.cli.options import DEFAULT_INDEX, IndexOption, JsonOption
from retriever.core.errors import UsageError
from retriever.core.text import printable


def topics(  # noqa: PLR0913 - one parameter per option
    name: Annotated[str, typer.Argument(help="What the clusters or categories were saved under.")],
    index: IndexOption = DEFAULT_INDEX,
    merge: Annotated[
        list[str] | None, typer.Option(help="The first takes in the others: 3,5,8. A cluster goes by number or name.")
    ] = None,
    split: Annotated[list[str] | None, typer.Option(help="Split into parts: 3=2 makes two of cluster 3.")] = None,
    move: Annotated[
        list[str] | None, typer.Option(help="Put a document elsewhere: ID=5, or ID=none for no cluster.")
    ] = None,
    rename: Annotated[list[str] | None, typer.Option(help='Give a name: 3="Late delivery".')] = None,
    hide: Annotated[list[str] | None, typer.Option(help="Show this cluster no more.")] = None,
    show: Annotated[list[str] | None, typer.Option(help="Show a hidden cluster again.")] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Take back the last change that holds.")] = False,
    history: Annotated[bool, typer.Option("--history", help="List who changed what, and when.")] = False,
    author: Annotated[str, typer.Option(help="Who changes; who is logged in unless told.")] = "",
    json: JsonOption = False,
) -> None:
    """Rename, merge, split and hide saved clusters or categories, and move documents between them.

    All changes of one call are made or none, in the order of the options above; each can be taken back by itself.
    Documents that come later go through them too.

    Example: retriever topics complaints --rename 3="Late delivery" --merge 1,5 --hide 7
    """
    from retriever.clusters.edit_requests import ClusterEdits
    from retriever.workspace import Index

    edits = ClusterEdits(
        merge=[one.split(",") for one in merge or []],
        split=dict(_parts(one) for one in split or []),
        move=dict(assigned(one, "--move") for one in move or []),
        rename=dict(_named(one) for one in rename or []),
        hide=hide or [],
        show=show or [],
    )
    if undo and edits:
        raise UsageError("--undo stands alone.", hint="Take back first, then change.")
    line = output.ProgressLine()
    with Index(index) as opened:
        if undo:
            from retriever.clusters.editing import describe

            output.say(f"Taken back: {describe(opened.undo_edit(name).change)}.")
        if edits:
            found = opened.edit_clustering(name, edits, author=author, progress=line.show)
        else:
            found = opened.saved_clustering(name, progress=line.show)
    line.close()
    document = found.to_json()
    if json:
        output.document(document)
    elif history:
        _render_history(document["edits"])
    else:
        render(document)


def _named(given: str) -> tuple[str, str]:
    """Return the cluster and its new name, which may hold the sign itself."""
    cluster, sign, label = given.partition("=")
    if not cluster.strip() or not sign:
        raise UsageError(f"--rename is {given!r}.", hint='Write --rename 3="Late delivery".')
    return cluster.strip(), label


def _parts(given: str) -> tuple[str, int]:
    cluster, number = assigned(given, "--split")
    if not number.isdecimal():
        raise UsageError(f"--split is {given!r}.", hint="Write --split 3=2 for two parts of cluster 3.")
    return cluster, int(number)


def _render_history(edits: Sequence[Mapping[str, Any]]) -> None:
    for one in edits:
        when = one["made"][:16].replace("T", " ")
        undone = f"  (taken back {one['undone'][:16].replace('T', ' ')})" if one["undone"] else ""
        output.result(f"{one['edit']:4}  {when}  {printable(one['author'])}  {printable(one['does'])}{undone}")
    if not edits:
        output.result("Nothing was changed.")
