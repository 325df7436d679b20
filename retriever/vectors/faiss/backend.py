"""FAISS as a vector backend: one hashed file a view, searched on the CPU or a GPU.

FAISS files carry no checksum of their own, and damaged ones mostly load and answer wrongly, so nothing reaches the
FAISS reader before the hash is right (`retriever.vectors.files`). The probes of a search, which a FAISS file does not
hold, are the caller's to keep as well.
"""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from retriever.core.paths import within
from retriever.core.types import Embeddings, Ids
from retriever.vectors.backend import (
    BuildOptions,
    BuiltIndex,
    Handle,
    ListedIndex,
    ViewVectors,
    number_of,
    text_of,
)
from retriever.vectors.faiss import faiss
from retriever.vectors.faiss.building import EXACT, build_index, check_options
from retriever.vectors.faiss.index import FaissIndex, place
from retriever.vectors.files import FileBackend, new_path, reading, write_file


class FaissBackend(FileBackend):
    """Keeps FAISS indexes as files; implements `retriever.vectors.backend.VectorBackend`.

    With ``cpu`` as the device FAISS stays off the GPU.
    """

    suffix = ".faiss"

    def require(self, dim: int, options: BuildOptions) -> None:
        """Raise UsageError for a factory string that FAISS does not know for ``dim``, or a recall that is no share."""
        super().require(dim, options)
        check_options(dim, factory=options.factory, min_recall=options.min_recall)

    def build(self, view: int, vectors: ViewVectors, options: BuildOptions) -> BuiltIndex:
        """Build and write the index of a view; see `VectorBackend.build`."""
        target = new_path(self.folder, view, self.suffix)
        built = build_index(vectors, factory=options.factory, min_recall=options.min_recall, device=self.device)
        handle: Handle = {
            "path": target.relative_to(self.folder).as_posix(),
            "sha256": write_faiss(built.index, target),
            "size": built.index.size,
            "dim": vectors.dim,
            "probes": built.index.probes,
        }
        size = target.stat().st_size / max(built.index.size, 1)
        details: Handle = {"factory": built.factory, "bytes_per_vector": round(size, 1), "note": built.note}
        return BuiltIndex(handle, built.recall, details)

    def open(self, handle: Handle) -> ListedIndex:
        """Open an index and place it on the device; see `VectorBackend.open`."""
        index = self.read(handle)
        return index if self.device == "cpu" else place(index)

    def hold(self, ids: Ids, embeddings: Embeddings) -> ListedIndex:
        """Return an exact index in half precision, as the built ones are; see `VectorBackend.hold`."""
        return build_index(ViewVectors(ids, embeddings.shape[1], [embeddings]), factory=EXACT).index

    def read(self, handle: Handle) -> FaissIndex:
        """Read the index in the file of a handle; see `FileBackend.read`."""
        return read_faiss(
            within(self.folder, text_of(handle, "path")),
            sha256=text_of(handle, "sha256"),
            size=number_of(handle, "size"),
            dim=number_of(handle, "dim"),
            probes=number_of(handle, "probes"),
        )


_LEAST_LIMIT = 1 << 16
_LATTICE_R2 = 1 << 10  # of lattice codecs, whose tables grow steeply with it; the factory's own stay far below
_limits = threading.Lock()  # the limits of the FAISS reader are global

# Tables of residual products are for Euclidean distances alone and can be far larger than the file. Inverted lists
# that lie in another file, whose path stands in this one, are looked for beside it: a reader of bytes has no place, so
# FAISS refuses them before it opens anything.
_FLAGS = faiss.IO_FLAG_SKIP_PRECOMPUTE_TABLE | faiss.IO_FLAG_ONDISK_SAME_DIR


def write_faiss(index: FaissIndex, path: Path) -> str:
    """Write an index to a file, whole or not at all, and return the file's SHA-256 in hex.

    It goes through our own file: FAISS's writer ignores what fails on closing, and the hash comes in the same pass.

    Raises:
        RetrieverError: the disk is full or the folder cannot be written.
    """
    return write_file(path, lambda take: faiss.write_index(index.container, faiss.PyCallbackIOWriter(take)))


def read_faiss(path: Path, *, sha256: str, size: int, dim: int, probes: int = 0) -> FaissIndex:
    """Open a file after checking that it is the one that was written, ``size`` vectors of length ``dim``.

    What a file does not hold is ``probes``, as the build found it.

    Raises:
        IndexDamagedError: the file is missing, differs from its digest, or holds something else.
    """
    with reading(path, sha256) as file:
        return FaissIndex(read_container(file, size=size, dim=dim), probes=probes)


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
