"""What a shard does to its own folder: changes in one transaction, and building its vector indexes."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from retriever.core.errors import IndexLockedError
from retriever.index.generations import build_outgrown
from retriever.index.view_upkeep import evict, lazy_bytes, lazy_limit
from retriever.shards.messages import Change
from retriever.store.database import Store
from retriever.store.lock import LOCK_NAME, WriterLock
from retriever.store.views import ViewKey

BATCH = "shard_batch"
"""The setting that counts the changes a router made to all shards together."""


def apply(store: Store, change: Change, batch: int) -> int:
    """Write a change in one transaction, with the number of its batch; return how many documents are gone."""
    with store.transaction():
        deleted = 0
        if change.documents:
            store.documents.put(change.documents, change.new_ids)
        if change.deletes:
            deleted += len(store.documents.delete(change.deletes))
        if change.keep is not None:
            deleted += store.documents.delete_absent(set(change.keep))
        for one in change.vectors:
            view = store.views.ensure(one.key, lazy=True)
            store.vectors.put(view.view_id, one.content_ids, one.embeddings, one.words, one.vector_ids)
            store.views.touch(view.view_id)
        for key, value in change.settings.items():
            store.settings.set(key, value)
        if change.quarantine:
            store.runs.quarantine(change.run, change.quarantine)
        if change.progress is not None:
            store.runs.progress(change.run, change.progress)
        store.settings.set(BATCH, batch)
    return deleted


def hold_limit(store: Store, folder: Path) -> None:
    """Hold the limit of lazily filled views in this shard; while another process writes nothing is removed."""
    limit = lazy_limit(store)
    if limit is not None and lazy_bytes(store) > limit:
        with suppress(IndexLockedError), WriterLock(folder / LOCK_NAME):
            evict(store, folder, limit)


def build_outgrown_views(store: Store, keys: Sequence[ViewKey], folder: Path, device: str) -> None:
    """Build the vector index of every one of some views that has outgrown its own."""
    views = [store.views.find(key) for key in keys]
    build_outgrown(store, [view for view in views if view is not None], folder, device)
