"""Search each kind of FAISS index, with and without a filter.

Everything here speaks of rows, the positions 0 to n - 1 inside an index; `faiss.index` turns them into ids. A structure
answers in two ways: `search` is quick and may miss rows, `search_all` compares with every allowed row. What FAISS
cannot filter by itself is decoded and compared exactly.
"""

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.core.errors import IndexDamagedError
from retriever.core.similarity import merge
from retriever.core.types import Embeddings, Neighbours
from retriever.vectors.faiss import faiss

_SMALL = 10_000  # so few allowed rows are all compared, even where a quicker search exists
_GATHER_BYTES = 1 << 28  # codes copied together for one filtered batch
_GATHER_QUERIES = 4  # measured: from here on, copying codes together beats testing a bit per code and query
_DECODED_ROWS = 1 << 16


class AllowedRows:
    """The rows a search may return: those where ``mask`` (n,) is true."""

    def __init__(self, mask: NDArray[np.bool_]) -> None:
        self.mask = mask
        self.count = int(np.count_nonzero(mask))

    @cached_property
    def numbers(self) -> NDArray[np.int64]:
        """The allowed rows, ascending."""
        return np.flatnonzero(self.mask)

    @cached_property
    def selector(self) -> Any:  # noqa: ANN401 - a faiss.IDSelector
        """The rows as FAISS takes them: one bit a row, the fastest of its selectors."""
        return faiss.IDSelectorBitmap(np.packbits(self.mask, bitorder="little"))


class Structure(ABC):
    """One kind of FAISS index; ``most_probes`` is the largest number of probes that changes anything, 0 for none."""

    most_probes = 0

    def __init__(self, index: Any) -> None:  # noqa: ANN401 - a faiss.Index
        self._index = index

    def set_probes(self, probes: int) -> None:  # noqa: B027 - where there is nothing to choose
        """Choose how much of the index a quick search visits."""

    @abstractmethod
    def search(self, queries: Embeddings, k: int, allowed: AllowedRows | None) -> Neighbours:
        """Return (q, k) rows and scores, best first, -1 where nothing was found; equal scores in any order."""

    def search_all(self, queries: Embeddings, k: int, allowed: AllowedRows | None) -> Neighbours:
        """Return the same after comparing with every allowed row."""
        return self.search(queries, k, allowed)


class Flat(Structure):
    """Codes in one array, all of them compared: ``Flat``, ``SQfp16``, ``SQ8``.

    A scalar quantizer adds up in the same order on every way through it (plain, selected, gathered, in an inverted
    list), so equal vectors have equal scores. ``Flat`` gives large batches to BLAS, where they can differ in the last
    bit.
    """

    def search(self, queries: Embeddings, k: int, allowed: AllowedRows | None) -> Neighbours:
        """Compare with every allowed row."""
        if allowed is None:
            return _run(self._index, queries, k)
        if not self._worth_gathering(len(queries), allowed.count):
            return _run(self._index, queries, k, faiss.SearchParameters(sel=allowed.selector))
        gathered = _run(self._gathered(allowed.numbers), queries, k)
        return Neighbours(np.where(gathered.ids < 0, -1, allowed.numbers[gathered.ids]), gathered.scores)

    def _worth_gathering(self, queries: int, rows: int) -> bool:
        fits = rows * self._index.code_size <= _GATHER_BYTES
        return fits and (queries >= _GATHER_QUERIES or rows * 100 <= self._index.ntotal)

    def _gathered(self, rows: NDArray[np.int64]) -> Any:  # noqa: ANN401 - an index of the same kind
        index = self._index
        if isinstance(index, faiss.IndexScalarQuantizer):
            part = faiss.IndexScalarQuantizer(index.d, index.sq.qtype, index.metric_type)
            part.sq, part.is_trained = index.sq, True
        else:
            part = faiss.IndexFlat(index.d, index.metric_type)
        codes = faiss.rev_swig_ptr(index.codes.data(), index.codes.size()).reshape(-1, index.code_size)
        part.add_sa_codes(codes[rows])
        return part


class Inverted(Structure):
    """Inverted lists (``IVF1024,SQfp16``): a query visits the lists of its nearest centroids; a probe is a list."""

    def __init__(self, index: Any) -> None:  # noqa: ANN401 - a faiss.IndexIVF
        super().__init__(index)
        self.most_probes = index.nlist
        # Only a flat quantizer ranks all centroids, which is what visiting every list rests on.
        flat = isinstance(faiss.downcast_index(index.quantizer), faiss.IndexFlat)
        self._decoded = None if flat else Decoded(index)

    def set_probes(self, probes: int) -> None:
        """Visit this many lists, at most all."""
        self._index.nprobe = min(max(probes, 1), self.most_probes)

    def search(self, queries: Embeddings, k: int, allowed: AllowedRows | None) -> Neighbours:
        """Visit lists until about as many vectors are compared as without a filter."""
        if allowed is None:
            return _run(self._index, queries, k)
        if allowed.count <= _SMALL:
            return self.search_all(queries, k, allowed)
        lists = math.ceil(self._index.nprobe * self._index.ntotal / allowed.count)
        return self._visit(queries, k, allowed, lists)

    def search_all(self, queries: Embeddings, k: int, allowed: AllowedRows | None) -> Neighbours:
        """Visit all lists."""
        if self._decoded is not None:
            return self._decoded.search_all(queries, k, allowed)
        return self._visit(queries, k, allowed, self.most_probes)

    def _visit(self, queries: Embeddings, k: int, allowed: AllowedRows | None, lists: int) -> Neighbours:
        selector = None if allowed is None else allowed.selector
        lists = min(lists, self.most_probes)
        return _run(self._index, queries, k, faiss.SearchParametersIVF(sel=selector, nprobe=lists))


class Graph(Structure):
    """A neighbour graph (``HNSW32,SQ8``): a probe is one candidate kept while walking (efSearch)."""

    def __init__(self, index: Any) -> None:  # noqa: ANN401 - a faiss.IndexHNSW
        super().__init__(index)
        self._storage = structure_of(faiss.downcast_index(index.storage))
        self.most_probes = min(index.ntotal, 4096)

    def set_probes(self, probes: int) -> None:
        """Keep this many candidates."""
        self._index.hnsw.efSearch = max(probes, 1)

    def search(self, queries: Embeddings, k: int, allowed: AllowedRows | None) -> Neighbours:
        """Walk the graph; where a filter keeps less than a tenth, walking finds too little and all are compared."""
        if allowed is None:
            return _run(self._index, queries, k)
        share = allowed.count / self._index.ntotal
        if allowed.count <= _SMALL or share < 0.1:
            return self.search_all(queries, k, allowed)
        candidates = math.ceil(self._index.hnsw.efSearch / share)
        return _run(self._index, queries, k, faiss.SearchParametersHNSW(sel=allowed.selector, efSearch=candidates))

    def search_all(self, queries: Embeddings, k: int, allowed: AllowedRows | None) -> Neighbours:
        """Compare with the vectors under the graph."""
        return self._storage.search_all(queries, k, allowed)


class Decoded(Structure):
    """Any other index: FAISS searches all of it, filtered searches compare decoded vectors.

    Raises:
        RuntimeError: FAISS cannot decode this kind of index.
    """

    def __init__(self, index: Any) -> None:  # noqa: ANN401 - a faiss.Index
        super().__init__(index)
        self._lists = faiss.try_extract_index_ivf(index)
        if self._lists is not None:
            self.most_probes = self._lists.nlist
            self._lists.make_direct_map()
        if index.ntotal:
            index.reconstruct(0)

    def set_probes(self, probes: int) -> None:
        """Visit this many inverted lists, where there are any."""
        if self._lists is not None:
            self._lists.nprobe = min(max(probes, 1), self.most_probes)

    def search(self, queries: Embeddings, k: int, allowed: AllowedRows | None) -> Neighbours:
        """Let FAISS search when there is no filter."""
        return _run(self._index, queries, k) if allowed is None else self.search_all(queries, k, allowed)

    def search_all(self, queries: Embeddings, k: int, allowed: AllowedRows | None) -> Neighbours:
        """Decode the allowed rows, some 65,000 at a time, and compare in float32.

        A selector, though of all, keeps FAISS from BLAS, whose blocks let equal vectors differ in the last bit.
        """
        rows = np.arange(self._index.ntotal) if allowed is None else allowed.numbers
        best = Neighbours(np.full((len(queries), k), -1), np.full((len(queries), k), -np.inf, dtype=np.float32))
        for start in range(0, len(rows), _DECODED_ROWS):
            part = rows[start : start + _DECODED_ROWS]
            vectors = faiss.IndexFlatIP(self._index.d)
            vectors.add(self._index.reconstruct_batch(part))
            result = _run(vectors, queries, min(k, len(part)), faiss.SearchParameters(sel=faiss.IDSelectorAll()))
            best = merge([best, Neighbours(part[result.ids], result.scores)], k)
        return best


def structure_of(index: Any) -> Structure:  # noqa: ANN401 - a faiss.Index
    """Return the way to search a FAISS index, given as its own class (`faiss.downcast_index`).

    Raises:
        RuntimeError: FAISS can neither filter nor decode this kind of index.
    """
    if isinstance(index, (faiss.IndexFlat, faiss.IndexScalarQuantizer)):
        return Flat(index)
    if isinstance(index, faiss.IndexIVF):
        return Inverted(index)
    if isinstance(index, faiss.IndexHNSW):
        return Graph(index)
    return Decoded(index)


def _run(index: Any, queries: Embeddings, k: int, parameters: Any = None) -> Neighbours:  # noqa: ANN401
    """Search, and take nothing from an index that contradicts itself, as one from a changed file can.

    Raises:
        IndexDamagedError: FAISS gives up, or names rows that there are not.
    """
    try:
        scores, rows = index.search(queries, k, params=parameters)
    except RuntimeError as error:
        raise _contradiction(str(error)) from error
    if rows.size and not -1 <= rows.min() <= rows.max() < index.ntotal:
        raise _contradiction(f"there is no row {rows.max()} among {index.ntotal}")
    return Neighbours(rows, scores)


def _contradiction(what: str) -> IndexDamagedError:
    return IndexDamagedError(f"The FAISS index contradicts itself: {what}.", hint="Run `retriever repair`.")
