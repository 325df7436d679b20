"""Opening whatever lies in a folder: an index, or shards."""

from pathlib import Path

from retriever.core.errors import UsageError
from retriever.index.open_index import is_index
from retriever.shards.index import ShardedIndex
from retriever.shards.manifest import Manifest, is_sharded
from retriever.workspace import Index

DEADLINE = 1.0
"""Seconds that an answer of served shards waits for them."""


def opened_index(path: Path, *, device: str = "auto") -> Index | ShardedIndex:
    """Return an index, or shards in this process, to be searched."""
    return ShardedIndex(path, device=device) if is_sharded(path) and not is_index(path) else Index(path, device=device)


def require_shards(path: Path) -> Manifest:
    """Return the manifest of a folder of shards.

    Raises:
        UsageError: an index lies there that was not split.
        IndexNotFoundError: nothing of the kind lies there.
        IndexDamagedError: the manifest is damaged.
    """
    if is_index(path) and not is_sharded(path):
        raise UsageError(f"{path} is an index that was not split.", hint="Serve it with --index, or split it first.")
    return Manifest.read(path)
