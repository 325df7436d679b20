"""`retriever export --to parquet`: an index as a folder of Parquet files, and an index of such a folder again.

``documents.parquet`` has id, text and metadata (as JSON). ``view-N.parquet``, one a complete view of an encoder, has
the id, the vector and the words of every document, in the same order; vectors are the stored numbers, of length 1 to
three digits. ``windows`` has the places of a long text's windows (start, end, start, end, ...), ``window_vectors``
their numbers.
``manifest.json`` says what made them, with the SHA-256 of each file.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, fields
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from retriever.core.errors import EncoderError, IndexDamagedError, InputError, OutputError, RetrieverError, UsageError
from retriever.core.fingerprint import file_hash
from retriever.core.languages import ENGLISH, language
from retriever.core.paths import new_folder
from retriever.core.types import Document, Span
from retriever.index.generations import build_generation
from retriever.index.languages import TOLD_APART
from retriever.index.run_record import recorded, versions
from retriever.index.sources.catalog import own_views
from retriever.index.sources.encoders import ENCODER, PLAIN, described
from retriever.index.upkeep.archive import Archived
from retriever.store.connection import utc_now
from retriever.store.database import DATABASE, Store
from retriever.store.lock import LOCK_NAME, WriterLock
from retriever.store.views import View, ViewKey
from retriever.store.windows import Windows

MANIFEST = "manifest.json"
DOCUMENTS = "documents.parquet"
KIND = "retriever parquet"
_FORMAT = 2
_NAMES = re.compile(r"documents\.parquet|view-[0-9]{1,9}\.parquet")
_MANIFEST_BYTES = 1 << 24
_ROWS = 1000  # texts at a time on the way out, rows on the way in
_NONE = Windows((), np.empty((0, 0), dtype=np.float32))
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
            own = [(view, len(store.vectors.pending(view.view_id))) for view in own_views(store)]
            # The others stay behind. An index without its answers could not make a view of answers again.
            views = [view for view, lacking in own if not lacking and not store.sources.makes(view.view_id)]
            _write(store, views, draft)
            left = [view.key.instruction for view, _ in own if view not in views]
            manifest = _manifest(store, views, left, draft)
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


def _file(view: View) -> str:
    return f"view-{view.view_id}.parquet"


def _write(store: Store, views: Sequence[View], draft: Path) -> None:
    """Write all documents, those with equal texts behind each other, and the views' vectors as the database has them.

    Nobody may write to the index meanwhile.
    """
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    text = pa.string()
    kinds = {DOCUMENTS: pa.schema([("id", text), ("text", text), ("metadata", text)])}
    for view in views:
        about = {"instruction": view.key.instruction, "fingerprint": view.key.fingerprint}
        columns = [("id", text), ("vector", pa.list_(pa.float32(), view.key.dim)), ("words", pa.list_(text))]
        columns += [("windows", pa.list_(pa.int64())), ("window_vectors", pa.list_(pa.float32()))]
        kinds[_file(view)] = pa.schema(columns, about)
    contents = store.documents.live_contents()
    with ExitStack() as stack:
        files = {name: stack.enter_context(ParquetWriter(draft / name, kind)) for name, kind in kinds.items()}
        for start in range(0, len(contents), _ROWS):
            chunk = contents[start : start + _ROWS]
            expanded = store.documents.expand(chunk)
            documents = [document for content_id in chunk.tolist() for document in expanded[content_id]]
            places = np.repeat(np.arange(len(chunk)), [len(expanded[content_id]) for content_id in chunk.tolist()])
            ids = pa.array([document.id for document in documents], text)
            texts = pa.array([document.text for document in documents], text)
            metadata = [json.dumps(dict(document.metadata), ensure_ascii=False) for document in documents]
            columns = [ids, texts, pa.array(metadata, text)]
            files[DOCUMENTS].write_batch(pa.record_batch(columns, schema=kinds[DOCUMENTS]))
            for view in views:
                stored = store.vectors.get(view.view_id, chunk, as_stored=True)
                held = store.vectors.windows(view.view_id, chunk, as_stored=True)
                windows = [held.get(content_id, _NONE) for content_id in chunk[places].tolist()]
                numbers = pa.array(np.ascontiguousarray(stored.embeddings[places]).ravel())
                vectors = pa.FixedSizeListArray.from_arrays(numbers, view.key.dim)
                words = pa.array([stored.words[place] for place in places], pa.list_(text))
                spans = [[number for span in each.spans for number in (span.start, span.end)] for each in windows]
                behind = pa.array([each.embeddings.ravel() for each in windows], pa.list_(pa.float32()))
                columns = [ids, vectors, words, pa.array(spans, pa.list_(pa.int64())), behind]
                files[_file(view)].write_batch(pa.record_batch(columns, schema=kinds[_file(view)]))


def _manifest(store: Store, views: Sequence[View], left: Sequence[str], draft: Path) -> dict[str, Any]:
    files = [(path, path.stat().st_size) for path in sorted(draft.iterdir())]
    return {
        "kind": KIND,
        "format": _FORMAT,
        "created": utc_now(),
        "versions": versions(),
        "encoder": described(store),
        "plain": described(store, PLAIN),
        "language": store.words.language.code,
        "languages_told_apart": store.settings.get(TOLD_APART) is True,
        "documents": len(store.documents),
        "texts": store.documents.count_contents(),
        "views": [{"file": _file(view), **asdict(view.key)} for view in views],
        "left": list(left),
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
        files = {str(file["name"]): str(file["sha256"]) for file in manifest["files"]}
        named = [DOCUMENTS, *(str(view["file"]) for view in manifest["views"])]
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
        path = folder / name
        if path.is_symlink() or not path.is_file() or file_hash(path) != digest:
            raise InputError(f"{path} is not what the manifest says.", hint=_AGAIN)
    return dict(manifest)


def _take_in(folder: Path, manifest: Mapping[str, Any], store: Store) -> None:
    try:
        keys = [{field.name: view[field.name] for field in fields(ViewKey)} for view in manifest["views"]]
        views = [store.views.ensure(ViewKey(**key)) for key in keys]
        store.words.speak(language(str(manifest.get("language", ENGLISH.code))))
        if manifest.get("languages_told_apart"):
            store.settings.set(TOLD_APART, True)
        for setting, description in ((ENCODER, manifest["encoder"]), (PLAIN, manifest["plain"])):
            if description is not None:
                store.settings.set(setting, dict(description))
        tables = [_batches(folder / DOCUMENTS, ("id", "text", "metadata"))]
        tables += [_batches(folder / str(view["file"]), _VIEW) for view in manifest["views"]]
        for parts in zip_longest(*tables):
            _store(store, views, parts)
        if len(store.documents) != manifest["documents"]:
            raise ValueError(f"it holds {len(store.documents)} documents")
    except (ValueError, KeyError, TypeError, EncoderError, UsageError, IndexDamagedError, RecursionError) as error:
        raise InputError(f"{folder} is no exported index: {error}", hint=_AGAIN) from error


_VIEW = ("id", "vector", "words", "windows", "window_vectors")


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
            windows = {content: _windows(columns, place) for content, place in zip(contents, first, strict=True)}
            held = {int(content): text_windows for content, text_windows in windows.items() if text_windows.spans}
            store.vectors.put(view.view_id, contents, numbers[first], [words[place] for place in first], held)


def _windows(columns: Mapping[str, Any], row: int) -> Windows:
    """Return the windows of a row.

    Raises:
        ValueError: they have not as many places as vectors.
    """
    places, dim = columns["windows"][row].as_py(), columns["vector"].type.list_size
    spans = [Span(start, end) for start, end in zip(places[::2], places[1::2], strict=True)]
    numbers = np.asarray(columns["window_vectors"][row].as_py(), dtype=np.float32)
    return Windows(spans, numbers.reshape(len(spans), dim))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())
