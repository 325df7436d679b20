"""Giving space back: deleted texts, dropped views, and vectors that searches left behind beyond a limit.

Rows go in a transaction first, files after it. The caller holds the writer's lock.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from retriever.core.errors import InputError, UsageError
from retriever.core.paths import folder_within
from retriever.index.generations import build_generation, clear_view, forget_obsolete
from retriever.index.status import own_views
from retriever.index.workers.ledger import FOLDER as LEDGER
from retriever.index.workers.ledger import Ledger
from retriever.store.database import Store
from retriever.store.views import View
from retriever.vectors.files import view_folder

LAZY_LIMIT = "lazy_limit"
"""The setting that holds the limit of lazily filled views."""

KEPT = 0.9  # of the limit, so that not every search beyond it has to remove something


def compact(store: Store, folder: Path, device: str = "auto") -> list[int]:
    """Drop what deleted documents left behind, rebuild every view's vector index; return the new generations."""
    views = store.views.all()
    for view in views:
        view_folder(folder, view.view_id)  # refuses before anything is done
    with store.transaction():
        store.documents.collect_garbage()
    built = [build_generation(store, view, folder, device) for view in views if not view.tuned]
    clear_dropped(store, folder)
    Ledger(folder_within(folder, LEDGER)).clear()
    store.vacuum()
    return [generation.generation_id for generation in built if generation]


def views_of(store: Store, instructions: Iterable[str]) -> list[View]:
    """Return the views of some instructions, made by the index's encoder.

    Raises:
        UsageError: the base view is among them.
        InputError: there is none of an instruction.
    """
    known = {view.key.instruction: view for view in own_views(store)}
    wanted = dict.fromkeys(instruction.strip() for instruction in instructions)
    if "" in wanted:
        raise UsageError("The base view cannot be dropped.", hint="Searches under a new instruction start from it.")
    for instruction in wanted:
        if instruction not in known:
            raise InputError(f"There is no view of {instruction!r}.", hint="`retriever views` lists them.")
    return [known[instruction] for instruction in wanted]


def drop_views(store: Store, folder: Path, views: Iterable[View]) -> None:
    """Remove views with their vectors, words and files.

    Raises:
        IndexDamagedError: the folder of one is a link.
    """
    views = list(views)
    for view in views:
        view_folder(folder, view.view_id)
    with store.transaction():
        for view in views:
            store.views.drop(view.view_id)
    clear_dropped(store, folder)


def lazy_limit(store: Store) -> int | None:
    """Return the most bytes that vectors of lazily filled views may take, or None for no limit."""
    limit = store.settings.get(LAZY_LIMIT)
    return limit if isinstance(limit, int) else None


def set_lazy_limit(store: Store, folder: Path, limit: int | None) -> None:
    """Set the most bytes that vectors of lazily filled views may take, and remove what is over it.

    Raises:
        UsageError: it is below 0.
    """
    if limit is not None and limit < 0:
        raise UsageError(f"The limit is {limit} bytes.", hint="Give at least 0, or none.")
    store.settings.set(LAZY_LIMIT, limit)
    if limit is not None:
        evict(store, folder, limit)


def lazy_bytes(store: Store) -> int:
    """Return the bytes of all vectors in lazily filled views and what these were taught, without words and SQLite's."""
    lazy = {view.view_id for view in own_views(store) if view.lazy}
    sources = store.heads.sources()
    counted = [view for view in store.views.all() if sources.get(view.view_id, view.view_id) in lazy]
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
    sources = store.heads.sources()
    with store.transaction():
        for view in sorted(own_views(store), key=lambda one: (one.last_used, one.view_id)):
            if view.lazy and excess > 0:
                view_folder(folder, view.view_id)  # refuses before anything is done
                made = [view, *(one for one in store.views.all() if sources.get(one.view_id) == view.view_id)]
                shrunk += made
                each = sum(store.vectors.bytes_each(one.key.dim) for one in made)
                count = min(store.vectors.count(view.view_id), -(-excess // each))
                store.vectors.remove_oldest(view.view_id, count)
                for taught in made[1:]:
                    store.vectors.remove_unsourced(taught.view_id, view.view_id)
                for one in made:
                    store.generations.retire(one.view_id)
                excess -= count * each
    for view in shrunk:
        clear_view(folder, view.view_id)
        forget_obsolete(store, view)


def clear_dropped(store: Store, folder: Path) -> None:
    """Remove the files of views that are gone: those of a drop, and those that a killed one left."""
    known = {view.view_id for view in store.views.all()}
    for old in sorted(folder_within(folder, "views").glob("*")):
        if old.is_dir() and not old.is_symlink() and old.name.isdecimal() and int(old.name) not in known:
            clear_view(folder, int(old.name))
            with suppress(OSError):  # something lies there that is not ours
                old.rmdir()
    for generation in store.generations.obsolete():
        if generation.view_id not in known:
            store.generations.forget(generation.generation_id)
