"""Cosine search on a FAISS index, under the contract of `retriever.core.protocols.VectorIndex`, on the CPU or a GPU.

FAISS alone does not keep that contract: it orders equal scores as it meets them, returns fewer hits than exist when
a filter or the number of probes is narrow, and answers a NaN query with nonsense. This module closes these gaps
around one call into FAISS. How the index is built is `building`'s matter, how it is stored `backend`'s.

On a GPU FAISS ignores filters without a word and returns at most 2,048 hits, so filtered and deeper searches stay on
the CPU index, which is kept. Vectors stand on the device as float32 of the stored half-precision values: scores agree
with the CPU's up to the order of summation.
"""

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.core.similarity import pad
from retriever.core.types import Embeddings, Ids, Neighbours
from retriever.vectors.backend import check_search
from retriever.vectors.faiss import faiss
from retriever.vectors.faiss.structures import AllowedRows, Flat, Structure, structure_of

_MOST_TIED = 16_384  # rows fetched to find the lowest ids among equal scores
_FETCHED_AT_ONCE = 1 << 22  # (queries x rows) of one such fetch
_DENSE = 8  # ids that span at most this many times their number are looked up in a table


class FaissIndex:
    """A FAISS index over content ids.

    Rows stand in ascending order of id, so the order of rows is the order of ids. Scores are cosines up to the
    rounding of the stored codes: with ``SQfp16`` they are the exact products with the vectors rounded to half
    precision, the same to the last bit whether searched alone, in a batch, filtered or through inverted lists.
    Where more than 16,384 vectors share the score of the k-th hit, some of the lowest ids stand for them, not
    surely the lowest. Safe for searches from several threads.

    Args:
        container: a `faiss.IndexIDMap` by inner product whose ids ascend; it stays the owner of everything.
        probes: inverted lists or graph candidates a search visits; 0 where the index has no such choice.
        structure: how to search it, when not as its kind says (another device).

    Raises:
        RuntimeError: FAISS can neither filter nor decode this kind of index.
    """

    def __init__(self, container: Any, *, probes: int = 0, structure: Structure | None = None) -> None:  # noqa: ANN401
        self.container = container
        self.ids: Ids = faiss.vector_to_array(container.id_map)
        self.dim = int(container.d)
        self.size = len(self.ids)
        self.structure = structure or structure_of(faiss.downcast_index(container.index))
        self.probes = probes

    @property
    def probes(self) -> int:
        """The lists or candidates a search visits; set it to trade time for recall."""
        return self._probes

    @probes.setter
    def probes(self, probes: int) -> None:
        self._probes = min(probes, self.structure.most_probes)
        self.structure.set_probes(self._probes)

    def search(self, queries: Embeddings, k: int, *, allowed: Ids | None = None) -> Neighbours:
        """Return the k nearest ids of each query; see `retriever.core.protocols.VectorIndex.search`.

        Whatever the probes, every query gets k hits, or all there are.

        Raises:
            UsageError: the queries are not finite (q, dim) float32, or k is below 1.
        """
        check_search(queries, k, self.dim)
        rows = None if allowed is None else AllowedRows(self._mask(allowed))
        available = self.size if rows is None else rows.count
        wanted = min(k, available)
        if wanted == 0 or len(queries) == 0:
            return pad(Neighbours(np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)), k)
        result = self._nearest(queries, wanted, min(wanted + 1, available), None if available == self.size else rows)
        missing = result.ids < 0  # of a search that visits everything, none
        ids = np.where(missing, -1, self.ids[result.ids])
        return pad(Neighbours(ids, np.where(missing, np.float32(-np.inf), result.scores)), k)

    def _mask(self, allowed: Ids) -> NDArray[np.bool_]:
        """Return which rows hold an allowed id, (n,) bool."""
        mask = np.zeros(self.size, dtype=bool)
        if self.size == 0 or len(allowed) == 0:
            return mask
        first, last = int(self.ids[0]), int(self.ids[-1])
        known = np.asarray(allowed, dtype=np.int64)
        known = known[(known >= first) & (known <= last)]
        if last - first < _DENSE * self.size:
            table = np.zeros(last - first + 1, dtype=bool)
            table[known - first] = True
            return table if len(table) == self.size else table[self.ids - first]
        rows = np.searchsorted(self.ids, known)
        mask[rows[self.ids[rows] == known]] = True
        return mask

    def _nearest(self, queries: Embeddings, wanted: int, fetch: int, rows: AllowedRows | None) -> Neighbours:
        """Return the best ``wanted`` rows, ties by ascending row, from at first ``fetch`` fetched ones."""
        result = self._fetch(queries, fetch, rows)
        best = _ordered(result, wanted)
        available = self.size if rows is None else rows.count
        deepest = min(available, max(_MOST_TIED, wanted + 1))
        if fetch >= deepest:
            return best
        open_ended = np.flatnonzero(result.scores[:, wanted - 1] == result.scores[:, -1])
        deeper = min(8 * fetch, deepest)
        step = max(1, _FETCHED_AT_ONCE // deeper)
        for start in range(0, len(open_ended), step):
            part = open_ended[start : start + step]
            again = self._nearest(queries[part], wanted, deeper, rows)
            best.ids[part], best.scores[part] = again.ids, again.scores
        return best

    def _fetch(self, queries: Embeddings, fetch: int, rows: AllowedRows | None) -> Neighbours:
        """Return ``fetch`` rows a query, no more than there are; what the quick search misses, the full one finds."""
        result = self.structure.search(queries, fetch, rows)
        short = np.flatnonzero(result.ids[:, -1] < 0)
        if short.size:
            again = self.structure.search_all(queries[short], fetch, rows)
            result.ids[short], result.scores[short] = again.ids, again.scores
        return result


def _ordered(result: Neighbours, wanted: int) -> Neighbours:
    """Return the first ``wanted`` columns of a result by descending score, equal scores by ascending row."""
    if (result.scores[:, 1:] < result.scores[:, :-1]).all():
        return Neighbours(result.ids[:, :wanted], result.scores[:, :wanted])
    order = np.lexsort((result.ids, -result.scores), axis=1)[:, :wanted]
    return Neighbours(np.take_along_axis(result.ids, order, axis=1), np.take_along_axis(result.scores, order, axis=1))


logger = logging.getLogger(__name__)

EXACT_BYTES = 8 << 30
"""float32 vectors of this size in all are searched exactly rather than through lists where there is a GPU."""

_MOST_HITS = 2048
_ROWS_AT_ONCE = 1 << 18


def has_gpu() -> bool:
    """Return whether FAISS sees a CUDA device."""
    return bool(faiss.get_num_gpus() > 0)


def place(index: FaissIndex) -> FaissIndex:
    """Return a copy of an exact index on the GPU, which shares the CPU one, or the index itself.

    Other kinds stay on the CPU, as exact ones do where there is no GPU with room for them.
    """
    if has_gpu() and isinstance(index.structure, Flat):
        try:
            return FaissIndex(index.container, structure=_FlatOnGpu(index))
        except RuntimeError:
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
