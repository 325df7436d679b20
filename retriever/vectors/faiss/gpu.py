"""Exact search on a CUDA device.

FAISS ignores filters on the GPU without a word and returns at most 2,048 hits, so filtered and deeper searches stay
on the CPU index, which is kept. Vectors stand on the device as float32 of the stored half-precision values: scores
agree with the CPU's up to the order of summation.
"""

import logging
from typing import Literal

import numpy as np

from retriever.core.errors import RetrieverError
from retriever.core.types import Embeddings, Neighbours
from retriever.vectors.faiss._faiss import faiss
from retriever.vectors.faiss.index import FaissIndex
from retriever.vectors.faiss.structures import AllowedRows, Flat

logger = logging.getLogger(__name__)

EXACT_BYTES = 8 << 30
"""float32 vectors of this size in all are searched exactly rather than through lists where there is a GPU."""

_MOST_HITS = 2048
_ROWS_AT_ONCE = 1 << 18


def has_gpu() -> bool:
    """Return whether FAISS sees a CUDA device."""
    return bool(faiss.get_num_gpus() > 0)


def place(index: FaissIndex, device: Literal["auto", "cpu", "cuda"] = "auto") -> FaissIndex:
    """Return the index on the device to search it on: itself, or a copy on the GPU that shares the CPU one.

    ``auto`` takes a GPU where there is one with room for an exact index; other kinds stay on the CPU.

    Raises:
        RetrieverError: ``cuda`` was asked for and there is none, no room on it, or the index is not exact.
    """
    if device == "cpu" or (device == "auto" and not (has_gpu() and isinstance(index.structure, Flat))):
        return index
    if not has_gpu():
        raise RetrieverError("FAISS sees no CUDA device.", hint="Search with device cpu.")
    if not isinstance(index.structure, Flat):
        raise RetrieverError("Only exact indexes are searched on the GPU.", hint="Build with device cuda, or use cpu.")
    try:
        return FaissIndex(index.container, structure=_FlatOnGpu(index))
    except RuntimeError as error:
        if device == "cuda":
            raise RetrieverError(
                f"The index does not fit on the GPU: {error}.", hint="Search with device cpu."
            ) from error
        logger.warning("The index does not fit on the GPU; it is searched on the CPU.")
        return index


class _FlatOnGpu(Flat):
    """An exact index on the CPU with its vectors on the GPU as well."""

    def __init__(self, index: FaissIndex) -> None:
        cpu = faiss.downcast_index(index.container.index)
        super().__init__(cpu)
        self._resources = faiss.StandardGpuResources()  # the GPU index crashes once this is gone
        self._on_gpu = faiss.GpuIndexFlatIP(self._resources, cpu.d, faiss.GpuIndexFlatConfig())
        for start in range(0, cpu.ntotal, _ROWS_AT_ONCE):
            self._on_gpu.add(cpu.reconstruct_n(start, min(_ROWS_AT_ONCE, cpu.ntotal - start)))

    def search(self, queries: Embeddings, k: int, allowed: AllowedRows | None) -> Neighbours:
        """Search on the GPU what it can answer, the rest on the CPU."""
        if allowed is not None or k > _MOST_HITS:
            return super().search(queries, k, allowed)
        scores, rows = self._on_gpu.search(np.ascontiguousarray(queries), k)
        return Neighbours(rows, scores)
