"""Splitting an index into shards: ranges of its texts, with all documents, vectors and words that belong to them.

Documents with equal texts stay together, since an index embeds a text once. Every shard is an index folder like any
other: `verify`, `repair`, `export` and `status` take it.
"""

import shutil
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from retriever.core.errors import OutputError, UsageError
from retriever.core.paths import new_folder
from retriever.core.schema import SCHEMA_VERSION
from retriever.core.types import Ids
from retriever.index.generations import build_generation, build_here
from retriever.index.open_views import OpenViews
from retriever.index.run_record import recorded
from retriever.index.status import MODEL
from retriever.index.view_upkeep import LAZY_LIMIT, lazy_limit
from retriever.shards.manifest import Manifest, Part, ViewStatistics
from retriever.store.connection import utc_now
from retriever.store.database import DATABASE, Store
from retriever.store.lock import LOCK_NAME, WriterLock

_LAST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Sharded:
    """An index that was split.

    Attributes:
        index: the index's folder.
        folder: that of the shards.
        documents: how many, in all.
        shards: name, documents and texts of each.
    """

    index: str
    folder: str
    documents: int
    shards: list[dict[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}


def shard_index(path: Path, parts: int, folder: Path) -> Sharded:
    """Split an index into shards of about as many documents each; the index stays as it is.

    Args:
        path: the index folder.
        parts: how many shards.
        folder: where they go; must not exist yet, and appears whole or not at all.

    Raises:
        UsageError: there are fewer texts than parts, or the folder exists.
        IndexNotFoundError: there is no index.
        IndexLockedError: another process writes to the index.
        OutputError: the disk is full, or the folder cannot be written.
    """
    if folder.exists():
        raise UsageError(f"{folder} exists already.", hint="Choose another --output, or remove it.")
    try:
        with Store.open(path / DATABASE) as store, WriterLock(path / LOCK_NAME):
            _require_plain(store)
            store.inspection.require_documents_listed()
            borders = _borders(store, parts)
            last_ids = store.parts.last_ids()
            statistics = _statistics(store, path)
            with new_folder(folder, private=True) as draft:
                made = [
                    _shard(path, draft / f"shard-{number:04}", border, last_ids, parts)
                    for number, border in enumerate(borders)
                ]
                Manifest(1, utc_now(), made, statistics).write(draft)
    except OSError as error:
        raise OutputError(
            f"{folder} cannot be written: {error.strerror or error}.", hint="Free space or choose another --output."
        ) from error
    shards = [{"folder": one.folder, "documents": one.documents, "texts": one.texts} for one in made]
    return Sharded(str(path), str(folder), sum(one.documents for one in made), shards)


def _require_plain(store: Store) -> None:
    """Refuse what shards do not know: units of documents, and views that were taught."""
    if store.units.divided:
        raise UsageError(
            f"The index is one of {store.units.kind}, which cannot be split yet.",
            hint="Index the corpus in whole documents (--units documents) into another folder.",
        )
    if store.heads.sources():
        raise UsageError(
            "The index has views that were taught, which cannot be split yet.",
            hint="Split a copy in which nothing is taught.",
        )


def _borders(store: Store, parts: int) -> list[tuple[int, int]]:
    """Return the first and the last content id of every part; together they leave out none."""
    contents, documents = store.parts.documents_by_content()
    if parts < 1 or parts > len(contents):
        raise UsageError(
            f"{len(contents)} texts cannot be split into {parts} shards.",
            hint="Every shard needs a text at least; documents with the same text stay together.",
        )
    starts = [0, *_starts(documents, parts)]
    firsts = [0, *(int(contents[start]) for start in starts[1:]), _LAST]
    return [(first, after - 1) for first, after in pairwise(firsts)]


def _starts(documents: Ids, parts: int) -> list[int]:
    """Return where the parts but the first begin, in the (n,) numbers of documents of the contents; none is empty."""
    total = np.cumsum(documents)
    wanted = np.searchsorted(total, total[-1] * np.arange(1, parts) / parts, side="left") + 1
    found: list[int] = []
    for number, start in enumerate(wanted.tolist(), start=1):
        least, most = (found[-1] if found else 0) + 1, len(documents) - (parts - number)
        found.append(min(max(start, least), most))
    return found


def _statistics(store: Store, path: Path) -> list[ViewStatistics]:
    """Return what orders the hits of every view, as the whole index has it, which notes it too."""
    views = OpenViews(store, path, device="cpu")
    found = []
    for view in store.views.all():
        with store.snapshot():
            similar, typical = views.calibration.of(view.view_id), views.loaded(view).shift
        views.calibration.save()
        found.append(ViewStatistics(view.key, similar, typical))
    return found


def _shard(source: Path, folder: Path, border: tuple[int, int], last_ids: dict[str, int], parts: int) -> Part:
    """Make one shard of a range of contents, with its vector indexes."""
    first, last = border
    with Store.open(folder / DATABASE, create=True) as store:
        with recorded(store, "shard"):
            store.parts.take(source / DATABASE, first, last, last_ids)
            if (source / MODEL).is_dir():
                shutil.copytree(source / MODEL, folder / MODEL)
            build_here(store)
            limit = lazy_limit(store)
            if limit is not None:
                store.settings.set(LAZY_LIMIT, limit // parts)
            for view in store.views.all():
                if not view.lazy:
                    build_generation(store, view, folder)
        counts = store.words.counts("")
        part = Part(folder.name, first, last, len(store.documents), counts.texts, counts.tokens)
        store.leave_log()
    return part
