"""`retriever export` and `retriever import`: a whole index as one file, or handed over to other software."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from retriever.cli import output
from retriever.cli.options import DEFAULT_INDEX, IndexOption, JsonOption
from retriever.core.errors import UsageError
from retriever.core.text import printable

if TYPE_CHECKING:
    from retriever.index.durability.archive import Archived
    from retriever.index.handover.qdrant import HandedOver


def export(
    archive: Annotated[
        str, typer.Argument(help="What to write, which must not exist: a file, with --to a folder or http://HOST:6333.")
    ],
    index: IndexOption = DEFAULT_INDEX,
    to: Annotated[
        Literal["archive", "parquet", "qdrant"],
        typer.Option(help="archive: one file. parquet, qdrant: documents, words and the vectors of complete views."),
    ] = "archive",
    collection: Annotated[
        str | None, typer.Option(help="With --to qdrant: the name readers use; the index folder's, if left out.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Write an index as one file that another machine can import, or hand it over to other software.

    A Qdrant collection is filled behind the name that readers use, which then moves to it in one step; the same command
    again goes on where it was interrupted.

    Example: retriever export reviews.tar --index indexes/reviews
    """
    if collection is not None and to != "qdrant":
        raise UsageError("--collection is for --to qdrant.", hint="Leave it out.")
    if to == "qdrant":
        from retriever.index.handover.qdrant import export_qdrant

        handed = export_qdrant(index, archive, collection)
        if json:
            output.document(handed.to_json())
        else:
            _tell(handed)
        return
    from retriever.index.durability.archive import export_index
    from retriever.index.handover.parquet import export_parquet

    done = (export_parquet if to == "parquet" else export_index)(index, Path(archive))
    if json:
        output.document(done.to_json())
    else:
        _render(archive, done)


def import_(
    archive: Annotated[Path, typer.Argument(help="File, or folder of Parquet, that `retriever export` wrote.")],
    index: IndexOption = DEFAULT_INDEX,
    json: JsonOption = False,
) -> None:
    """Make an index of an archive, once everything in it is found to be what its manifest says.

    Example: retriever import reviews.tar --index indexes/reviews
    """
    if archive.is_dir():
        from retriever.index.handover.parquet import import_parquet

        done = import_parquet(archive, index)
    else:
        from retriever.index.durability.archive import import_index

        done = import_index(archive, index)
    if json:
        output.document(done.to_json())
        return
    held = done.manifest
    output.result(f"{index}: {held['documents']} documents, {len(held['views'])} views, made {held['created'][:10]}.")


def _render(archive: str, done: "Archived") -> None:
    held = done.manifest
    output.result(
        f"{archive}: {held['documents']} documents, {len(held['views'])} views, {done.bytes / 1e6:.1f} MB. It holds "
        "the texts: keep it as private as the index."
    )
    _tell_left(held.get("left", []))


def _tell(handed: "HandedOver") -> None:
    output.result(
        f"{handed.collection} at {handed.location}: {handed.points} documents, {handed.sent} of them sent now, "
        f"{len(handed.vectors)} vectors each."
    )
    for name, instruction in handed.vectors.items():
        output.result(printable(f"  {name}: {instruction or 'the base view'}"))
    _tell_left(handed.left)


def _tell_left(left: list[str]) -> None:
    for instruction in left:
        output.say(printable(f"Left out, since it lacks texts: {instruction or 'the base view'}"))
