"""Writes and opens the immutable files FAISS indexes live in.

A generation is written once, under a temporary name, and renamed when every byte is on the disk; the caller records
its SHA-256 (in the database) and hands it back to open it. FAISS files carry no checksum of their own, and damaged
ones mostly load and answer wrongly, so nothing reaches the FAISS reader before the hash is right. What a FAISS file
does not hold, the probes of a search, is the caller's to keep as well.
"""

import hashlib
import os
import tempfile
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from retriever.core.errors import IndexDamagedError, RetrieverError, UsageError
from retriever.core.paths import make_folder, sync_directory
from retriever.index._faiss import faiss
from retriever.index.faiss_index import FaissIndex

_SUFFIX = ".faiss"
_TEMPORARY = ".tmp"
_LEAST_LIMIT = 1 << 16
_LATTICE_R2 = 1 << 10  # of lattice codecs, whose tables grow steeply with it; the factory's own stay far below
_limits = threading.Lock()  # the limits of the FAISS reader are global

# Tables of residual products are for Euclidean distances alone and can be far larger than the file. Inverted lists
# that lie in another file, whose path stands in this one, are looked for beside it: a reader of bytes has no place, so
# FAISS refuses them before it opens anything.
_FLAGS = faiss.IO_FLAG_SKIP_PRECOMPUTE_TABLE | faiss.IO_FLAG_ONDISK_SAME_DIR


@dataclass(frozen=True, slots=True)
class WrittenGeneration:
    """A file that is whole and on the disk.

    Attributes:
        path: where it is.
        sha256: hex digest of its bytes.
        size_bytes: their number.
    """

    path: Path
    sha256: str
    size_bytes: int


def write_generation(index: FaissIndex, folder: Path, name: str) -> WrittenGeneration:
    """Write an index to ``folder/name.faiss``, whole or not at all; the folder is made when missing.

    The file is readable by its owner alone: vectors give away the texts they stand for.

    Raises:
        UsageError: the name is not a plain file name.
        RetrieverError: the disk is full or the folder cannot be written.
    """
    if not name or name.startswith(".") or Path(name).name != name:
        raise UsageError(f"{name!r} cannot name a generation.", hint="Use letters, digits, - and _.")
    path = folder / (name + _SUFFIX)
    try:
        make_folder(folder, private=True)
        with _replacing(path) as file:
            sha256, size = _write_hashed(index, file)
        sync_directory(folder)
        sync_directory(folder.parent)  # made by a process that was killed before it could
    except OSError as error:
        raise RetrieverError(
            f"Cannot write {path}: {error.strerror or error}.",
            hint="Free space or check permissions, then run it again.",
        ) from error
    return WrittenGeneration(path, sha256, size)


def open_generation(path: Path, *, sha256: str, size: int, dim: int, probes: int = 0) -> FaissIndex:
    """Open a generation after checking that it is the file that was written.

    Args:
        path: the file.
        sha256: the digest `write_generation` returned.
        size: the number of vectors it holds.
        dim: their length.
        probes: what the build found (`building.Built.probes`).

    Raises:
        IndexDamagedError: the file is missing, differs from its digest, or holds something else.
    """
    try:
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
                raise _damaged(path, "differs from its checksum")
            file.seek(0)
            return FaissIndex(read_container(file, size=size, dim=dim), probes=probes)
    except OSError as error:
        raise _damaged(path, f"cannot be read ({error.strerror or error})") from error
    except (RuntimeError, MemoryError) as error:
        raise _damaged(path, f"is not the index it should be ({error})") from error


def remove_other_generations(folder: Path, keep: Collection[str]) -> list[Path]:
    """Delete what no longer counts in a folder: temporary files of killed writers and generations not in ``keep``.

    Only the one writer of an index may call this. Open indexes hold their contents in memory and are not disturbed.

    Args:
        folder: of one view; may be missing.
        keep: names as given to `write_generation`.

    Returns:
        The deleted paths.
    """
    kept = {name + _SUFFIX for name in keep}
    ours = (path for path in sorted(folder.glob("*")) if path.suffix in {_SUFFIX, _TEMPORARY})
    stale = [path for path in ours if path.name not in kept]
    for path in stale:
        with suppress(OSError):  # what cannot be deleted today is deleted with the next generation
            path.unlink(missing_ok=True)
    return stale


def read_container(file: BinaryIO, *, size: int, dim: int) -> Any:  # noqa: ANN401 - a faiss.IndexIDMap
    """Parse a FAISS file, with the reader's limits set by the size of the file, and check what it holds.

    Raises:
        RuntimeError: it cannot be parsed, or is not an inner-product index of ``size`` ascending ids.
    """
    with _reader_limits(os.fstat(file.fileno()).st_size):
        container = faiss.read_index(faiss.PyCallbackIOReader(file.read), _FLAGS)
    if not isinstance(container, faiss.IndexIDMap):
        raise RuntimeError("it has no ids")
    ids = faiss.vector_to_array(container.id_map)
    inner = container.index
    if not len(ids) == container.ntotal == inner.ntotal == size or not container.d == inner.d == dim:
        raise RuntimeError(f"it holds {inner.ntotal} vectors of length {inner.d}, not {size} of {dim}")
    if not (container.is_trained and inner.is_trained):
        raise RuntimeError("it is not trained")
    if inner.metric_type != faiss.METRIC_INNER_PRODUCT or (np.diff(ids) <= 0).any():
        raise RuntimeError("its metric or its ids are wrong")
    return container


def _write_hashed(index: FaissIndex, file: BinaryIO) -> tuple[str, int]:
    """Write through our own file: FAISS's writer ignores what fails on closing, and the hash comes in the same pass."""
    digest, size = hashlib.sha256(), 0

    def write(data: bytes) -> None:
        nonlocal size
        digest.update(data)
        size += file.write(data)

    faiss.write_index(index.container, faiss.PyCallbackIOWriter(write))
    return digest.hexdigest(), size


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """Give a temporary file beside ``path`` that takes its place, synced, when the block ends well."""
    descriptor, temporary = tempfile.mkstemp(prefix=path.stem + "-", suffix=_TEMPORARY, dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def _reader_limits(file_bytes: int) -> Iterator[None]:
    """Let no vector in the file claim more bytes, nor a loop more rounds, than the file has bytes."""
    most = max(file_bytes, _LEAST_LIMIT)
    limits = {"vector_byte": most, "loop": most, "lattice_r2": _LATTICE_R2}
    with _limits:
        before = {name: getattr(faiss, f"get_deserialization_{name}_limit")() for name in limits}
        _set_limits(limits)
        try:
            yield
        finally:
            _set_limits(before)


def _set_limits(limits: Mapping[str, int]) -> None:
    for name, limit in limits.items():
        getattr(faiss, f"set_deserialization_{name}_limit")(limit)


def _damaged(path: Path, what: str) -> IndexDamagedError:
    return IndexDamagedError(f"{path} {what}.", hint="Run `retriever repair` to rebuild it from the database.")
