"""Giving space back: dropped views, and vectors that searches left behind beyond a limit.

Rows go in a transaction first, files after it. The caller holds the writer's lock.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from retriever.core.errors import InputError, UsageError
from retriever.core.paths import folder_within
from retriever.index.generations import clear_view, forget_obsolete
from retriever.index.sources.catalog import own_views, sources_of
from retriever.index.sources.source import Source
from retriever.store.database import Store
from retriever.store.views import View
from retriever.vectors.files import view_folder

LAZY_LIMIT = "lazy_limit"
"""The setting that holds the limit of lazily filled views."""

KEPT = 0.9  # of the limit, so that not every search beyond it has to remove something


def views_of(store: Store, instructions: Iterable[str]) -> list[View]:
    """Return the views of some instructions, made by the index's encoder; errors as `Upkeep.drop_views`."""
    known: dict[str, list[View]] = {}
    for view in own_views(store):
        known.setdefault(view.key.instruction, []).append(view)
    wanted = dict.fromkeys(instruction.strip() for instruction in instructions)
    if "" in wanted:
        raise UsageError("The base view cannot be dropped.", hint="Searches under a new instruction start from it.")
    for instruction in wanted:
        if instruction not in known:
            raise InputError(f"There is no view of {instruction!r}.", hint="`retriever views` lists them.")
    return [view for instruction in wanted for view in known[instruction]]


def lazy_limit(store: Store) -> int | None:
    """Return the most bytes that vectors of lazily filled views may take, or None for no limit."""
    limit = store.settings.get(LAZY_LIMIT)
    return limit if isinstance(limit, int) else None


def lazy_bytes(store: Store) -> int:
    """Return the bytes of all vectors in lazily filled views and those made of them, without words and SQLite's."""
    counted = [source.view for made in _lazy(store) for source in made if source.view]
    return sum(store.vectors.count(view.view_id) * store.vectors.bytes_each(view.key.dim) for view in counted)


def evict(store: Store, folder: Path, limit: int) -> None:
    """Remove vectors of lazily filled views until they take nine tenths of a limit, where they are over it.

    The views used longest ago lose theirs first, and of a view those stored first. The base view, views that somebody
    asked for and those of another encoder lose none.
    """
    excess = lazy_bytes(store) - limit
    if excess <= 0:
        return
    excess += round((1 - KEPT) * limit)
    shrunk: list[View] = []
    with store.transaction():
        for first, *made in _lazy(store):
            if excess > 0:
                views = [source.view for source in (first, *made) if source.view]
                view_folder(folder, first.view_id)  # refuses before anything is done
                each = sum(store.vectors.bytes_each(view.key.dim) for view in views)
                count = min(store.vectors.count(first.view_id), -(-excess // each))
                store.vectors.remove_oldest(first.view_id, count)
                remove_unsourced(store, made)
                for view in views:
                    store.generations.retire(view.view_id)
                shrunk += views
                excess -= count * each
    for view in shrunk:
        clear_view(store, folder, view.view_id)
        forget_obsolete(store, view)


def remove_unsourced(store: Store, made: Sequence[Source]) -> None:
    """Remove the vectors of made views that what they are made of does not give, in the caller's transaction.

    Generations that cover them must go with them.
    """
    sources = sources_of(store)
    for source in made:
        contents = source.contents(sources.held)
        if contents is not None:
            gone = np.setdiff1d(store.vectors.held(source.view_id), contents)
            if len(gone):
                store.vectors.remove(source.view_id, gone)


def _lazy(store: Store) -> list[list[Source]]:
    """Return the lazily filled views, those used longest ago first, each with those that have its texts.

    Vectors of answers are none of them: they are few.
    """
    sources = sources_of(store)
    lazy = [source for source in sources.visible() if source.view and source.view.lazy]
    roots = [source for source in lazy if source.root is source and not source.in_words]
    roots.sort(key=lambda source: (source.view.last_used if source.view else "", source.view_id))
    return [sources.family(source) for source in roots]


def clear_dropped(store: Store, folder: Path) -> None:
    """Remove the files of views that are gone: those of a drop, and those that a killed one left."""
    known = {view.view_id for view in store.views.all()}
    for old in sorted(folder_within(folder, "views").glob("*")):
        if old.is_dir() and not old.is_symlink() and old.name.isdecimal() and int(old.name) not in known:
            clear_view(store, folder, int(old.name))
            with suppress(OSError):  # something lies there that is not ours
                old.rmdir()
    for generation in store.generations.obsolete():
        if generation.view_id not in known:
            store.generations.forget(generation.generation_id)
