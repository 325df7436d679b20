"""Writes and opens the immutable files of a view's vector indexes.

A file is written once, under a temporary name, and renamed when every byte is on the disk; the caller records its
SHA-256 and hands it back to open it. Nothing of a file is parsed before its hash is right.

Ids and vectors are one file: two NumPy arrays in ``.npy`` format behind each other, int64 (n,) and float32 (n, dim).
NumPy reads it too: ``with open(path, "rb") as file: ids, vectors = np.load(file), np.load(file)``.
"""

import hashlib
import io
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from retriever.core.errors import IndexDamagedError, RetrieverError, UsageError
from retriever.core.paths import DRAFT_SUFFIX, atomic_write, folder_within, make_folder, sync_directory, within
from retriever.core.types import Embeddings, Ids
from retriever.vectors.backend import (
    BuildOptions,
    Handle,
    ListedIndex,
    ViewVectors,
    check_embeddings,
    check_ids,
    number_of,
    text_of,
)


class FileBackend(ABC):
    """The base of backends that keep a vector index as one hashed file in its view's folder.

    Args:
        folder: the index's folder.
        device: where to search: ``auto``, ``cpu`` or ``cuda``.
    """

    suffix: ClassVar[str]

    def __init__(self, folder: Path, device: str = "auto") -> None:
        self.folder, self.device = folder, device

    def require(self, dim: int, options: BuildOptions) -> None:
        """Raise UsageError where a server's address is given; see `VectorBackend.require`."""
        if options.location:
            raise UsageError(
                f"The backend {options.backend} runs on this machine and takes no address.",
                hint=f"Say --backend {options.backend}.",
            )

    @abstractmethod
    def read(self, handle: Handle) -> ListedIndex:
        """Read the index in the file of a handle.

        Raises:
            IndexDamagedError: it is missing or not what was written.
        """

    def open(self, handle: Handle) -> ListedIndex:
        """Open the index in the file of a handle for searching; see `VectorBackend.open`."""
        return self.read(handle)

    def check(self, handle: Handle) -> str | None:
        """Check a file and describe what is wrong with it: its hash is computed, and what it holds is parsed."""
        try:
            self.read(handle)
        except IndexDamagedError as error:
            return error.message
        return None

    def remove(self, view: int, *, keep: Sequence[Handle] = ()) -> None:
        """Delete the view's files but those to keep; see `VectorBackend.remove`."""
        kept = {Path(text_of(handle, "path")).name for handle in keep}
        remove_others(view_folder(self.folder, view), self.suffix, kept)


def view_folder(folder: Path, view: int) -> Path:
    """Return where a view's files lie in the index's folder, whether it is there or not.

    Raises:
        IndexDamagedError: it is a link, so what lies there may be somebody else's.
    """
    return folder_within(folder, "views", str(view))


def new_path(folder: Path, view: int, suffix: str) -> Path:
    """Return a path for a file of a view that was never used before, so that no file in use is overwritten."""
    return view_folder(folder, view) / (uuid.uuid4().hex + suffix)


def write_file(path: Path, write: Callable[[Callable[[bytes], None]], None]) -> str:
    """Write a file whole or not at all and return its SHA-256 in hex; its folder is made when missing.

    It is readable by its owner alone: vectors give away the texts they stand for. ``write`` is given a function that
    takes the bytes, one part after the other.

    Raises:
        RetrieverError: the disk is full or the folder cannot be written.
    """
    digest = hashlib.sha256()
    try:
        make_folder(path.parent, private=True)
        with atomic_write(path) as file:

            def take(data: bytes) -> None:
                digest.update(data)
                file.write(data)

            write(take)
        sync_directory(path.parent.parent)  # made by a process that was killed before it could
    except OSError as error:
        raise RetrieverError(
            f"Cannot write {path}: {error.strerror or error}.",
            hint="Free space or check permissions, then run it again.",
        ) from error
    return digest.hexdigest()


@contextmanager
def reading(path: Path, sha256: str) -> Iterator[BinaryIO]:
    """Open a file for reading after checking that it is the one that was written.

    Raises:
        IndexDamagedError: it is missing, differs from its digest, or the block finds that it cannot be parsed.
    """
    try:
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
                raise damaged(path, "differs from its checksum")
            file.seek(0)
            yield file
    except OSError as error:
        raise damaged(path, f"cannot be read ({error.strerror or error})") from error
    except (RuntimeError, ValueError, EOFError, MemoryError) as error:
        raise damaged(path, f"is not the index it should be ({error})") from error


def remove_others(folder: Path, suffix: str, keep: Collection[str]) -> None:
    """Delete what no longer counts in a view's folder: temporary files of killed writers, and those not to be kept.

    Only files that end in ``suffix`` are removed but for those whose names are in ``keep``. The folder may be missing.
    """
    for path in sorted(folder.glob("*")):
        if path.suffix in {suffix, DRAFT_SUFFIX} and path.name not in keep:
            with suppress(OSError):  # what cannot be deleted today is deleted with the next generation
                path.unlink(missing_ok=True)


def damaged(path: Path, what: str) -> IndexDamagedError:
    """Return the error of a file that is not what was written."""
    return IndexDamagedError(f"{path} {what}.", hint="Run `retriever repair` to rebuild it from the database.")


_VECTOR = np.dtype("<f4")
_ID = np.dtype("<i8")


@dataclass(frozen=True, slots=True)
class IdsAndVectors:
    """Ids (n,) and the vectors (n, dim) they belong to."""

    ids: Ids
    embeddings: Embeddings


def checked_batches(vectors: ViewVectors) -> Iterator[IdsAndVectors]:
    """Yield the vectors of a view with their ids, batch by batch.

    Raises:
        UsageError: the ids do not ascend, their number is another than that of the vectors, or one is not finite.
    """
    check_ids(vectors.ids)
    if (np.diff(vectors.ids) < 0).any():
        raise UsageError("The ids do not ascend.", hint="Read the vectors in the order of their ids.")
    at = 0
    for batch in vectors.batches:
        check_embeddings(batch, vectors.dim)
        at += len(batch)
        if at > len(vectors.ids):
            raise UsageError(f"There are more vectors than the {len(vectors.ids)} ids.")
        yield IdsAndVectors(vectors.ids[at - len(batch) : at], batch)
    if at != len(vectors.ids):
        raise UsageError(f"{len(vectors.ids)} ids were given for {at} vectors.")


def write_arrays(vectors: ViewVectors, folder: Path, path: Path) -> Handle:
    """Write the vectors of a view to a file in the index's folder, one batch in memory at a time; return its handle.

    Raises:
        UsageError: as `checked_batches`.
        RetrieverError: the disk is full or the folder cannot be written.
    """

    def write(take: Callable[[bytes], None]) -> None:
        take(_header(_ID, len(vectors.ids)))
        take(np.ascontiguousarray(vectors.ids, dtype=_ID).tobytes())
        take(_header(_VECTOR, len(vectors.ids), vectors.dim))
        for batch in checked_batches(vectors):
            take(np.ascontiguousarray(batch.embeddings, dtype=_VECTOR).tobytes())

    sha256 = write_file(path, write)
    where = path.relative_to(folder).as_posix()
    return {"path": where, "sha256": sha256, "size": len(vectors.ids), "dim": vectors.dim}


def read_arrays(folder: Path, handle: Handle) -> IdsAndVectors:
    """Read the file of a handle after checking that it is the one that was written.

    Raises:
        IndexDamagedError: it is missing, lies outside the folder, differs from its digest, or holds something else.
    """
    shape = number_of(handle, "size"), number_of(handle, "dim")
    with reading(within(folder, text_of(handle, "path")), text_of(handle, "sha256")) as file:
        ids, embeddings = np.load(file, allow_pickle=False), np.load(file, allow_pickle=False)
        if (ids.dtype, ids.shape, embeddings.dtype, embeddings.shape) != (_ID, shape[:1], _VECTOR, shape):
            raise ValueError(f"it holds {embeddings.dtype} of shape {embeddings.shape}, not float32 of {shape}")
        if (np.diff(ids) <= 0).any() or not np.isfinite(embeddings).all():
            raise ValueError("its ids or its vectors are wrong")
        return IdsAndVectors(ids.astype(np.int64), embeddings.astype(np.float32))


def _header(dtype: np.dtype[Any], *shape: int) -> bytes:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype.str, "fortran_order": False, "shape": shape})
    return header.getvalue()
