"""What the shards of a corpus hold, told as one index."""

from collections.abc import Sequence
from dataclasses import replace

from retriever.core.results import IndexStatus, ViewStatus


def joined_status(path: str, parts: Sequence[IndexStatus]) -> IndexStatus:
    """Return the state of all shards as that of one index.

    Args:
        path: the folder of the shards.
        parts: of each shard, the one that records runs first.
    """
    first = parts[0]
    texts = sum(part.texts for part in parts)
    by_key: dict[tuple[object, ...], list[tuple[ViewStatus, int]]] = {}
    for part in parts:
        for view in part.views:
            key = (view.instruction, view.encoder, view.pooling, view.steps, view.look_ahead, view.dtype, view.dim)
            by_key.setdefault(key, []).append((view, part.texts))
    return replace(
        first,
        path=path,
        documents=sum(part.documents for part in parts),
        texts=texts,
        size_bytes=sum(part.size_bytes for part in parts),
        views=[_joined(found, texts) for found in by_key.values()],
    )


def _joined(found: Sequence[tuple[ViewStatus, int]], texts: int) -> ViewStatus:
    """Return a view's state of the shards that know it, each with its number of texts."""
    views = [view for view, _ in found]
    recalls = [view.recall for view in views if view.recall is not None]
    held = sum(round(view.coverage * count) for view, count in found)
    whole = all(view.coverage == 1 for view in views) and sum(count for _, count in found) == texts
    return replace(
        views[0],
        vectors=sum(view.vectors for view in views),
        bytes=sum(view.bytes for view in views),
        coverage=1.0 if whole or not texts else min(round(held / texts, 4), 0.9999),
        tail=sum(view.tail for view in views),
        recall=min(recalls, default=None),
        lazy=all(view.lazy for view in views),
        last_used=max(view.last_used for view in views),
    )
