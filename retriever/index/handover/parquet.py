"""`retriever export --to parquet`: an index as a folder of Parquet files, and an index of such a folder again.

``documents.parquet`` has id, text and metadata (as JSON). ``view-N.parquet``, one a complete view, has the id, the
vector and the words of every document, in the same order; vectors are the stored numbers, of length 1 to three digits.
``manifest.json`` says what made them, with the SHA-256 of each file.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from retriever.core.errors import EncoderError, IndexDamagedError, InputError, OutputError, RetrieverError, UsageError
from retriever.core.fingerprint import file_hash
from retriever.core.paths import new_folder
from retriever.core.types import Document
from retriever.index.durability.archive import Archived
from retriever.index.generations import build_generation
from retriever.index.handover.contents import Contents, HandedView
from retriever.index.run_record import recorded, versions
from retriever.index.status import ENCODER, PLAIN, described
from retriever.store.connection import utc_now
from retriever.store.database import DATABASE, Store
from retriever.store.lock import LOCK_NAME, WriterLock
from retriever.store.views import View, ViewKey

MANIFEST = "manifest.json"
DOCUMENTS = "documents.parquet"
KIND = "retriever parquet"
_FORMAT = 1
_NAMES = re.compile(r"documents\.parquet|view-[0-9]{1,9}\.parquet")
_MANIFEST_BYTES = 1 << 24
_ROWS = 1000
_AGAIN = "Export the index again; what was changed is not read."


def export_parquet(path: Path, folder: Path) -> Archived:
    """Write an index as a folder of Parquet files; it appears whole or not at all.

    Args:
        path: the index folder.
        folder: must not exist yet.

    Raises:
        UsageError: the folder exists.
        IndexNotFoundError: there is no index.
        IndexDamagedError: the index is damaged.
        IndexLockedError: another process writes to the index.
        OutputError: the folder cannot be written.
    """
    if folder.exists():
        raise UsageError(f"{folder} exists already.", hint="Choose another name.")
    try:
        with (
            Store.open(path / DATABASE) as store,
            WriterLock(path / LOCK_NAME),
            new_folder(folder, private=True) as draft,
        ):
            contents = Contents(store)
            _write(contents, draft)
            manifest = _manifest(store, contents, draft)
            (draft / MANIFEST).write_text(json.dumps(manifest, indent=1, ensure_ascii=False), encoding="utf-8")
    except OSError as error:
        raise OutputError(
            f"{folder} cannot be written: {error.strerror or error}.", hint="Free space or choose another folder."
        ) from error
    return Archived(str(folder), str(path), manifest, _size(folder))


def import_parquet(folder: Path, path: Path) -> Archived:
    """Make an index of such a folder; it appears whole or not at all. Vector indexes are built here.

    Args:
        folder: what `export_parquet` wrote.
        path: the index folder; must not exist yet.

    Raises:
        UsageError: the index folder exists.
        InputError: the folder holds something else, or was changed.
    """
    if path.exists():
        raise UsageError(f"{path} exists already.", hint="Choose another --index.")
    manifest = _read_manifest(folder)
    try:
        with new_folder(path, private=True) as draft:
            with Store.open(draft / DATABASE, create=True) as store, recorded(store, "import"):
                _take_in(folder, manifest, store)
                for view in store.views.all():
                    build_generation(store, view, draft)
                store.leave_log()
    except OSError as error:
        raise RetrieverError(f"{folder} cannot be imported: {error.strerror or error}.") from error
    return Archived(str(folder), str(path), manifest, _size(folder))


def _file(view: HandedView) -> str:
    return f"view-{view.view.view_id}.parquet"


def _write(contents: Contents, draft: Path) -> None:
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    text = pa.string()
    kinds = {DOCUMENTS: pa.schema([("id", text), ("text", text), ("metadata", text)])}
    for one in contents.views:
        vector = pa.list_(pa.float32(), one.view.key.dim)
        about = {"instruction": one.view.key.instruction, "fingerprint": one.view.key.fingerprint}
        kinds[_file(one)] = pa.schema([("id", text), ("vector", vector), ("words", pa.list_(text))], about)
    with ExitStack() as stack:
        files = {name: stack.enter_context(ParquetWriter(draft / name, kind)) for name, kind in kinds.items()}
        for rows in contents.rows(as_stored=True):
            ids = pa.array([one.id for one in rows.documents], text)
            metadata = [json.dumps(dict(one.metadata), ensure_ascii=False) for one in rows.documents]
            columns = [ids, pa.array([one.text for one in rows.documents], text), pa.array(metadata, text)]
            files[DOCUMENTS].write_batch(pa.record_batch(columns, schema=kinds[DOCUMENTS]))
            for one in contents.views:
                numbers = pa.array(np.ascontiguousarray(rows.vectors[one.name]).ravel())
                vectors = pa.FixedSizeListArray.from_arrays(numbers, one.view.key.dim)
                words = pa.array(rows.words[one.name], pa.list_(text))
                files[_file(one)].write_batch(pa.record_batch([ids, vectors, words], schema=kinds[_file(one)]))


def _manifest(store: Store, contents: Contents, draft: Path) -> dict[str, Any]:
    files = [(path, path.stat().st_size) for path in sorted(draft.iterdir())]
    return {
        "kind": KIND,
        "format": _FORMAT,
        "created": utc_now(),
        "versions": versions(),
        "encoder": described(store),
        "plain": described(store, PLAIN),
        "documents": len(store.documents),
        "texts": store.documents.count_contents(),
        "views": [{"file": _file(one), "name": one.name, **asdict(one.view.key)} for one in contents.views],
        "left": contents.left,
        "files": [{"name": path.name, "size": size, "sha256": file_hash(path)} for path, size in files],
    }


def _read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest, and look at every file that it names."""
    path = folder / MANIFEST
    try:
        with path.open("rb") as file:
            manifest = json.loads(file.read(_MANIFEST_BYTES))
        if manifest["kind"] != KIND or manifest["format"] != _FORMAT:
            raise InputError(f"{path} is of another kind or of a newer format.", hint=_AGAIN)
        files = {str(one["name"]): str(one["sha256"]) for one in manifest["files"]}
        named = [DOCUMENTS, *(str(one["file"]) for one in manifest["views"])]
        missing = sorted({"created", "documents", "encoder", "plain"} - set(manifest))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{folder} is no exported index: {path.name} lacks something: {error}.", hint=_AGAIN
        ) from error
    if missing:
        raise InputError(f"{folder} is no exported index: {MANIFEST} lacks {missing[0]}.", hint=_AGAIN)
    if set(named) != set(files) or len(named) != len(files) or not all(map(_NAMES.fullmatch, files)):
        raise InputError(f"{folder} is no exported index: its manifest names other files.", hint=_AGAIN)
    for name, digest in files.items():
        one = folder / name
        if one.is_symlink() or not one.is_file() or file_hash(one) != digest:
            raise InputError(f"{one} is not what the manifest says.", hint=_AGAIN)
    return dict(manifest)


def _take_in(folder: Path, manifest: Mapping[str, Any], store: Store) -> None:
    try:
        views = [store.views.ensure(ViewKey(**{name: one[name] for name in _KEY})) for one in manifest["views"]]
        for setting, description in ((ENCODER, manifest["encoder"]), (PLAIN, manifest["plain"])):
            if description is not None:
                store.settings.set(setting, dict(description))
        tables = [_batches(folder / DOCUMENTS, ("id", "text", "metadata"))]
        tables += [_batches(folder / str(one["file"]), ("id", "vector", "words")) for one in manifest["views"]]
        for parts in zip_longest(*tables):
            _store(store, views, parts)
        if len(store.documents) != manifest["documents"]:
            raise ValueError(f"it holds {len(store.documents)} documents")
    except (ValueError, KeyError, TypeError, EncoderError, IndexDamagedError, RecursionError) as error:
        raise InputError(f"{folder} is no exported index: {error}", hint=_AGAIN) from error


_KEY = ("fingerprint", "instruction", "pooling", "steps", "look_ahead", "dtype", "dim")


def _batches(path: Path, columns: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the columns of a file, so many rows at a time."""
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path, memory_map=False) as file:
        for batch in file.iter_batches(_ROWS, columns=list(columns)):
            yield {name: batch.column(name) for name in columns}


def _store(store: Store, views: Sequence[View], parts: Sequence[Mapping[str, Any] | None]) -> None:
    """Store some rows of all files in one transaction."""
    if any(part is None for part in parts):
        raise ValueError("its files have different lengths")
    documents, *vectors = (part for part in parts if part is not None)
    ids = documents["id"].to_pylist()
    rows = zip(ids, documents["text"].to_pylist(), documents["metadata"].to_pylist(), strict=True)
    with store.transaction():
        stored = store.documents.upsert([Document(id, text, json.loads(metadata)) for id, text, metadata in rows])
        contents, first = np.unique(np.asarray(stored.content_ids, dtype=np.int64), return_index=True)
        for view, columns in zip(views, vectors, strict=True):
            if columns["id"].to_pylist() != ids:
                raise ValueError("its files name different documents")
            numbers = np.asarray(columns["vector"].flatten(), dtype=np.float32).reshape(len(ids), -1)
            words = columns["words"].to_pylist()
            store.vectors.put(view.view_id, contents, numbers[first], [words[place] for place in first])


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())
