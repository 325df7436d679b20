"""`retriever export` and `retriever import`: a whole index as one file that another machine makes an index of again.

The archive holds the database, the user's own checkpoint where the index was made with one, and a manifest that says
what made them. Vector indexes are left out: they follow from the database, and a foreign one would have to be trusted.
"""

import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from retriever.core.archive import ArchiveReader, write_archive
from retriever.core.errors import IndexDamagedError, InputError, OutputError, RetrieverError, UsageError
from retriever.core.paths import atomic_write, make_folder, new_folder
from retriever.core.results import SCHEMA_VERSION
from retriever.core.types import JSON
from retriever.index.asking import consent
from retriever.index.dividing import kind
from retriever.index.generations import build_generation, build_here
from retriever.index.run_record import versions
from retriever.index.sources.catalog import sources_of
from retriever.index.sources.encoders import ENCODER, MODEL, OWN_MODEL, PLAIN, described
from retriever.store.connection import utc_now
from retriever.store.database import DATABASE, Store
from retriever.store.lock import LOCK_NAME, WriterLock
from retriever.store.schema import VERSION, require_own_schema

KIND = "retriever index"
_NAMES = re.compile(rf"{re.escape(DATABASE)}|{MODEL}/[^/]+")
_RUNS = 1000


@dataclass(frozen=True, slots=True)
class Archived:
    """An index that was exported or imported.

    Attributes:
        archive: the file.
        index: the index folder.
        manifest: what the archive says of itself.
        bytes: its size.
    """

    archive: str
    index: str
    manifest: Mapping[str, Any]
    bytes: int

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}


def export_index(path: Path, archive: Path) -> Archived:
    """Write an index as one file, whole or not at all.

    Args:
        path: the index folder.
        archive: must not exist yet.

    Raises:
        UsageError: the archive exists.
        IndexNotFoundError: there is no index.
        IndexDamagedError: the index is damaged; `retriever verify` says where.
        CheckpointError: the checkpoint it was made with has changed.
        IndexLockedError: another process writes to the index.
        OutputError: the archive cannot be written.
    """
    if archive.exists():
        raise UsageError(f"{archive} exists already.", hint="Choose another name.")
    try:
        make_folder(archive.parent)
        with (
            Store.open(path / DATABASE) as store,
            WriterLock(path / LOCK_NAME),
            tempfile.TemporaryDirectory(prefix=".export-", dir=archive.parent, ignore_cleanup_errors=True) as scratch,
        ):
            copy = Path(scratch, DATABASE)
            store.copy_to(copy)
            with Store.open(copy) as copied:
                _require_whole(copied)
                _forget_files(copied)
                facts = _facts(copied)
            files = {DATABASE: copy, **_model_files(described(store) or {})}
            with atomic_write(archive) as file:
                manifest = write_archive(file, facts, files)
    except OSError as error:
        raise OutputError(
            f"{archive} cannot be written: {error.strerror or error}.",
            hint="Free space or check permissions, then run it again.",
        ) from error
    return Archived(str(archive), str(path), manifest, archive.stat().st_size)


def import_index(archive: Path, path: Path) -> Archived:
    """Make an index of an archive; it appears whole or not at all.

    Args:
        archive: what `export_index` wrote, here or elsewhere.
        path: the index folder; must not exist yet.

    Raises:
        UsageError: the folder exists.
        InputError: the archive is none, was changed, or holds what does not belong in one.
        SchemaError: another version of retriever wrote it.
    """
    if path.exists():
        raise UsageError(f"{path} exists already.", hint="Choose another --index.")
    try:
        with archive.open("rb") as file:
            reader = ArchiveReader(file)
            _require_index(reader)
            with new_folder(path, private=True) as draft:
                _require_space(reader, draft)
                reader.extract(draft)
                _take_in(draft)
                consent.forget(path)  # who imports an index was asked nothing yet
    except OSError as error:
        raise RetrieverError(f"{archive} cannot be imported: {error.strerror or error}.") from error
    return Archived(str(archive), str(path), reader.manifest, archive.stat().st_size)


def _require_whole(store: Store) -> None:
    if store.inspection.structure() or store.inspection.rows():
        raise IndexDamagedError(
            f"{store.path} is damaged.", hint="`retriever verify --deep` says where; run `retriever repair` first."
        )


def _forget_files(store: Store) -> None:
    """Drop the records of vector indexes, which the archive does not hold."""
    with store.transaction():
        for view in store.views.all():
            store.generations.retire(view.view_id)
        for generation in store.generations.obsolete():
            store.generations.forget(generation.generation_id)
    store.leave_log()


def _facts(store: Store) -> dict[str, Any]:
    """Collect the facts that the manifest states of an index."""
    made_of = {row.view_id: list(row.needs) for row in store.sources.rows()}
    views = [
        {
            "view": view.view_id,
            **asdict(view.key),
            "created": view.created,
            "vectors": store.vectors.count(view.view_id),
            "made_of": made_of.get(view.view_id, []),
        }
        for view in store.views.all()
    ]
    runs = [{**asdict(run), "statistics": dict(run.statistics)} for run in reversed(store.runs.last(_RUNS))]
    return {
        "kind": KIND,
        "created": utc_now(),
        "versions": versions(),
        "schema": VERSION,
        "encoder": store.settings.get(ENCODER),
        "plain": store.settings.get(PLAIN),
        "documents": len(store.documents),
        "texts": store.documents.count_contents(),
        "units": kind(store),
        "language": store.words.language.code,
        "views": views,
        "runs": runs,
    }


def _model_files(encoder: Mapping[str, JSON]) -> dict[str, Path]:
    """Return the files of the checkpoint the index was made with, where it is the user's own, by name."""
    from retriever.encoders.catalog import SHIPPED_FOLDER, checkpoint_folder
    from retriever.encoders.sources import check_manifest

    name = str(encoder.get("name") or "")
    folder = checkpoint_folder(name) if name else None
    if folder is None or not folder.is_absolute() or folder.is_relative_to(SHIPPED_FOLDER):
        return {}
    check_manifest(folder, hint="Put the checkpoint back; without it the archive would be of no use.")
    return {f"{MODEL}/{file.name}": file for file in sorted(folder.iterdir()) if not file.name.startswith(".")}


def _require_index(reader: ArchiveReader) -> None:
    names = [member.name for member in reader.members]
    strange = [name for name in names if not _NAMES.fullmatch(name)]
    if reader.manifest.get("kind") != KIND or strange or DATABASE not in names:
        what = f"it holds {strange[0]!r}" if strange else "it is another kind of archive"
        raise InputError(f"This is no exported index: {what}.", hint="Name what `retriever export` wrote.")


def _require_space(reader: ArchiveReader, folder: Path) -> None:
    needed = 2 * sum(member.size for member in reader.members)  # the vector indexes are about as large as the vectors
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise RetrieverError(f"The index needs {needed >> 20} MiB, and {free >> 20} are free.", hint="Make room.")


def _take_in(draft: Path) -> None:
    """Make an index of extracted files, having looked at everything that is in them."""
    require_own_schema(draft / DATABASE)
    try:
        with Store.open(draft / DATABASE) as store:
            _require_whole(store)
            if strange := store.inspection.foreign_json():
                raise InputError(f"The archive's database is not ours: {strange[0]}.", hint="Export the index again.")
            if any(store.generations.active(view.view_id) for view in store.views.all()):
                raise InputError("The archive's database names vector indexes.", hint="Export the index again.")
            sources = sources_of(store).all(lambda view: True)
            for source in sources:
                source.check()
            _point_to_model(store, draft)
            build_here(store)
            store.reranked.clear()  # nor are scores or names of rerankers taken from elsewhere
            for source in sources:
                if source.view is not None and not source.hidden:
                    build_generation(store, source.view, draft)
            store.leave_log()
    except IndexDamagedError as error:
        raise InputError(
            f"The archive's database is damaged: {error.message}", hint="Export the index again."
        ) from error


def _point_to_model(store: Store, draft: Path) -> None:
    """Let the index look for its checkpoint in its own folder, where the archive brought one."""
    encoder = store.settings.get(ENCODER)
    if (draft / MODEL).is_dir() and isinstance(encoder, dict):
        store.settings.set(ENCODER, {**encoder, "name": OWN_MODEL})
