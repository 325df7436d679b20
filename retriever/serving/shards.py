"""Shards as they are served: each in a Ray actor, behind a router in this process."""

from pathlib import Path

from retriever.serving.encoder_pool import EncoderPool
from retriever.shards.index import ShardedIndex
from retriever.shards.opening import DEADLINE, require_shards
from retriever.shards.ray_actors import RayShards


def served_shards(folder: Path, encoders: EncoderPool, address: str) -> ShardedIndex:
    """Return the shards of a folder, each in an actor.

    Args:
        folder: of the shards.
        encoders: that read queries.
        address: of a Ray cluster; ``local`` starts one on this machine.

    Raises:
        IndexNotFoundError: there are none.
        RetrieverError: Ray is not installed, or cannot be reached.
    """
    path = folder.absolute()
    transport = RayShards(require_shards(path).folders(path), address=address)
    return ShardedIndex(path, load=encoders.described, transport=transport, deadline=DEADLINE)
