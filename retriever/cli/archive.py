"""`retriever export` and `retriever import`: a whole index as one file."""

from pathlib import Path
from typing import Annotated

import typer

from retriever.cli import output
from retriever.cli.options import DEFAULT_INDEX, IndexOption, JsonOption


def export(
    archive: Annotated[Path, typer.Argument(help="File to write; must not exist.")],
    index: IndexOption = DEFAULT_INDEX,
    json: JsonOption = False,
) -> None:
    """Write an index as one file that another machine can import, with all it takes to make it again.

    Example: retriever export reviews.tar --index indexes/reviews
    """
    from retriever.index.durability.archive import export_index

    done = export_index(index, archive)
    if json:
        output.document(done.to_json())
        return
    held = done.manifest
    output.result(
        f"{archive}: {held['documents']} documents, {len(held['views'])} views, {done.bytes / 1e6:.1f} MB. It holds "
        "the texts: keep it as private as the index."
    )


def import_(
    archive: Annotated[Path, typer.Argument(help="File that `retriever export` wrote.")],
    index: IndexOption = DEFAULT_INDEX,
    json: JsonOption = False,
) -> None:
    """Make an index of an archive, once everything in it is found to be what its manifest says.

    Example: retriever import reviews.tar --index indexes/reviews
    """
    from retriever.index.durability.archive import import_index

    done = import_index(archive, index)
    if json:
        output.document(done.to_json())
        return
    held = done.manifest
    output.result(f"{index}: {held['documents']} documents, {len(held['views'])} views, made {held['created'][:10]}.")
