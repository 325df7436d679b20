"""Ids and vectors as one file: two NumPy arrays in ``.npy`` format behind each other, int64 (n,) and float32 (n, dim).

NumPy reads it too: ``with open(path, "rb") as file: ids, vectors = np.load(file), np.load(file)``.
"""

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from retriever.core.errors import UsageError
from retriever.core.paths import within
from retriever.core.types import Embeddings, Ids
from retriever.vectors.backend import Handle, ViewVectors, number_of, text_of
from retriever.vectors.checks import check_embeddings, check_ids
from retriever.vectors.files import reading, write_file

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
