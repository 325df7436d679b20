"""Building the vector indexes of views from the stored vectors, and clearing away what they replace.

Which backend builds them, and how, is chosen once and remembered by the index (`IndexType`, `remember`).
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from retriever.core.errors import RetrieverError
from retriever.core.requests import IndexType
from retriever.core.types import JSON, Embeddings
from retriever.index.sources.catalog import sources_of
from retriever.store.database import Store
from retriever.store.generations import Generation, StoredIndex
from retriever.store.views import View
from retriever.vectors.backend import BACKENDS, BuildOptions, Handle, ViewVectors, folder_mark, open_backend
from retriever.vectors.files import view_folder

TAIL_SHARE = 0.1

_CHOICES = ("backend", "location", "factory", "min_recall")

CHOSEN = "vector_index"
"""The setting that holds what was chosen of `BuildOptions`."""

_PLUGINS = "plugins"  # in that setting: names of other packages' backends that were ever chosen

_log = logging.getLogger(__name__)


def build_options(store: Store) -> BuildOptions:
    """Read the options that the index's vector indexes are built with."""
    return replace(_options(store.settings.get(CHOSEN)), index=store.identity())


def chosen_type(store: Store) -> dict[str, JSON]:
    """Return those options that somebody can choose."""
    options = build_options(store)
    return {key: getattr(options, key) for key in _CHOICES}


def remember(store: Store, chosen: IndexType | None, folder: Path, dims: Iterable[int]) -> None:
    """Let every later build be of the chosen type, for vectors of these lengths; what is None of it stays as it was.

    Raises:
        UsageError: nothing could be built so; nothing is remembered then.
        RetrieverError: a package or a server is missing.
    """
    named = {} if chosen is None else chosen.to_json()
    if not named:
        return
    before = store.settings.get(CHOSEN)
    wanted = {**(before if isinstance(before, dict) else {}), **named}
    if "location" in named:
        wanted["folder"] = folder_mark(folder)
        wanted[_PLUGINS] = sorted({*_plugins_used(before), str(wanted["backend"])} - BACKENDS.keys())
    options = _options(wanted)
    backend = open_backend(options.backend, folder)
    for dim in dims:
        backend.require(dim, options)
    store.settings.set(CHOSEN, wanted)


def build_here(store: Store) -> None:
    """Forget a server or another package that built vector indexes: a database from elsewhere does not choose these."""
    chosen = store.settings.get(CHOSEN)
    if isinstance(chosen, dict) and (chosen.get("location") or build_options(store).backend not in BACKENDS):
        forgotten = ("backend", "location", "folder", _PLUGINS)
        store.settings.set(CHOSEN, {key: value for key, value in chosen.items() if key not in forgotten})


def build_outgrown(store: Store, views: Iterable[View], folder: Path, device: str = "auto") -> None:
    """Build the vector index of every view whose newer vectors outgrow their share of it, and of those made of them."""
    wanted = {view.view_id for view in views}
    for source in sources_of(store).visible(lambda view: True):
        view = source.view
        if view is not None and not wanted.isdisjoint([view.view_id, source.root.view_id]):
            built = store.generations.active(view.view_id)
            newer = store.vectors.count_after(view.view_id, built.watermark if built else 0)
            if newer > TAIL_SHARE * (built.size if built else 0):
                build_generation(store, view, folder, device)


def build_generation(store: Store, view: View, folder: Path, device: str = "auto") -> Generation | None:
    """Build a vector index over all vectors of a view and make it the one in use.

    It is whole before the database names it; a kill between the two leaves something that nothing names, which the
    next build removes.

    Returns:
        The new generation, or None when the view has no vectors.

    Raises:
        IndexDamagedError: the view's folder is a link.
        RetrieverError: the disk is full, or a package or a server is missing.
    """
    view_folder(folder, view.view_id)
    watermark = store.vectors.last_id(view.view_id)
    ids = store.vectors.indexed_ids(view.view_id, through=watermark)
    if not len(ids):
        store.generations.retire(view.view_id)
        forget_obsolete(store, view)
        clear_view(store, folder, view.view_id)
        return None
    options, started = build_options(store), time.perf_counter()
    batches = _Scanned(lambda: store.vectors.scan_indexed(view.view_id, through=watermark))
    built = open_backend(options.backend, folder, device).build(
        view.view_id, ViewVectors(ids, view.key.dim, batches), options
    )
    details = {**built.details, "seconds": round(time.perf_counter() - started, 3)}
    stored = StoredIndex(options.backend, built.handle, len(ids), watermark, built.recall, details)
    with store.transaction():
        generation = store.generations.activate(view.view_id, stored)
        forget_obsolete(store, view)
    clear_view(store, folder, view.view_id, backend=options.backend, keep=[built.handle])
    return generation


def clear_view(store: Store, folder: Path, view_id: int, *, backend: str = "", keep: Sequence[Handle] = ()) -> None:
    """Remove what any backend holds for a view but the indexes to keep, which are of the backend of a name.

    Raises:
        IndexDamagedError: the view's folder is a link.
    """
    for name in [*BACKENDS, *_plugins_used(store.settings.get(CHOSEN))]:
        try:
            opened = open_backend(name, folder)
        except RetrieverError as error:
            _log.warning("Old vector indexes of %s were not removed. %s", name, error)
            continue
        opened.remove(view_id, keep=keep if name == backend else ())


def forget_obsolete(store: Store, view: View) -> None:
    """Drop the records of a view's indexes that serve it no longer."""
    for old in store.generations.obsolete():
        if old.view_id == view.view_id:
            store.generations.forget(old.generation_id)


def _plugins_used(chosen: JSON) -> list[str]:
    """Return the names of other packages' backends that were ever chosen."""
    names = chosen.get(_PLUGINS) if isinstance(chosen, dict) else None
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _options(chosen: JSON) -> BuildOptions:
    """Return the options that are chosen in a JSON object; a value of another type than its default's is not."""
    default = asdict(BuildOptions(folder=0))  # whatever names no folder was chosen in another
    named = chosen if isinstance(chosen, dict) else {}
    usable = {key: named[key] for key, value in default.items() if type(named.get(key)) is type(value)}
    return BuildOptions(**{**default, **usable})


@dataclass(frozen=True, slots=True)
class _Scanned(Iterable[Embeddings]):
    """Batches of vectors that are read from the database as often as they are iterated."""

    scan: Callable[[], Iterator[Embeddings]]

    def __iter__(self) -> Iterator[Embeddings]:
        return self.scan()
