"""`retriever shard`: an index split into shards that are searched as one."""

from pathlib import Path
from typing import Annotated

import typer

from retriever.cli import output
from retriever.cli.options import JsonOption


def shard(
    index: Annotated[Path, typer.Argument(help="Index folder; it stays as it is.")],
    output_folder: Annotated[Path, typer.Option("--output", "-o", help="Folder to make, with a folder a shard in it.")],
    parts: Annotated[int, typer.Option(min=1, help="Shards.")] = 2,
    json: JsonOption = False,
) -> None:
    """Split an index into shards: ranges of its documents with all their views, which `search` and `serve` take as one.

    Example: retriever shard indexes/reviews --parts 8 --output shards/reviews
    """
    from retriever.shards.splitting import shard_index

    done = shard_index(index, parts, output_folder)
    if json:
        output.document(done.to_json())
        return
    sizes = [one["documents"] for one in done.shards]
    output.result(
        f"{output_folder}: {done.documents} documents in {len(sizes)} shards of {min(sizes)} to {max(sizes)}. "
        f"`retriever serve --shards {output_folder}` serves them."
    )
