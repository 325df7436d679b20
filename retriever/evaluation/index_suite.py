"""The suite `index`: what FAISS indexes find of the exact nearest vectors, and how fast.

No encoder is involved: vectors lie in clusters around random centres, and queries near vectors. Only kinds of index are
compared; what an encoder's own vectors give can differ, and `measure_factories` takes any.
"""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from retriever.core.errors import UsageError
from retriever.core.similarity import normalise
from retriever.core.types import Embeddings, Ids
from retriever.evaluation.scores import Floats, Score, mean_score, score
from retriever.evaluation.suites import Bench
from retriever.vectors.faiss._faiss import faiss
from retriever.vectors.faiss.building import build_index, measure_recall, sample_queries
from retriever.vectors.faiss.index import FaissIndex

VECTORS = 20_000
DIM = 128
QUERIES = 500
CLUSTERS = 200
SPREAD = 1.0
"""Length of what sets a vector apart from its centre: two of a cluster have a cosine of about 0.5."""

NOISE = 0.75  # length of what sets a query apart from the vector it is near: a cosine of 0.8

_TOLERANCE = 1e-6  # cosines this close are equal in single precision
_QUERIES_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class FactoryMeasure:
    """One kind of index, measured.

    Attributes:
        factory: the FAISS factory string.
        recall: (q,) share of the exact k nearest that every query found.
        seconds: (q,) time of every query, searched alone on one thread.
        probes: inverted lists or graph candidates a search visits; 0 where the index has no such choice.
        bytes_per_vector: size in a file, ids and all.
    """

    factory: str
    recall: Floats
    seconds: Floats
    probes: int
    bytes_per_vector: float


def synthetic(bench: Bench) -> Iterator[Score]:
    """Yield recall@10, times 100, and queries a second of several kinds of index over synthetic vectors.

    A limit is that of the vectors.
    """
    size = VECTORS if bench.limit is None else min(bench.limit, VECTORS)
    vectors = clustered_vectors(size, DIM, clusters=min(CLUSTERS, size), seed=bench.seed)
    queries = queries_near(vectors, QUERIES, seed=bench.seed)
    for measured in measure_factories(vectors, queries, bench.factories or default_factories(size), seed=bench.seed):
        note = f"{size} x {DIM} vectors, {measured.probes} probes, {measured.bytes_per_vector:.0f} bytes a vector"
        yield from factory_scores(measured, k=10, seed=bench.seed, note=note)


def default_factories(size: int) -> tuple[str, ...]:
    """Return factory strings worth comparing on a number of vectors: exact, half precision, lists, a graph."""
    lists = 2 ** max(0, round(math.log2(4 * math.sqrt(size))) - 1)
    return ("Flat", "SQfp16", f"IVF{lists},Flat", "HNSW32")


def factory_scores(measured: FactoryMeasure, *, k: int, seed: int, note: str = "") -> Iterator[Score]:
    """Yield the recall, times 100, and the queries a second of one kind of index, resampled over its queries."""
    yield mean_score(measured.factory, f"recall@{k}", measured.recall, seed=seed, scale=100, headline=True, note=note)
    yield score(
        measured.factory,
        "queries/s",
        len(measured.seconds),
        lambda rows: float(len(rows) / measured.seconds[rows].sum()),
        seed=seed,
        note="one query at a time on one thread",
    )


def measure_factories(
    vectors: Embeddings,
    queries: Embeddings,
    factories: Sequence[str],
    *,
    k: int = 10,
    min_recall: float = 0.95,
    seed: int = 0,
) -> Iterator[FactoryMeasure]:
    """Build one index after the other and yield what each finds, against the exact cosines in single precision.

    Vectors (n, dim) and queries (q, dim) have length 1. Probes double until `min_recall` of the ten nearest is reached
    on other queries than those measured, or until there are no more. Indexes are filled from vectors in half precision,
    as `build_index` does, so that an exact one may miss a near tie. A hit counts when its exact cosine is that of the
    k-th nearest or better, so that equal vectors may stand for each other.

    Raises:
        UsageError: FAISS does not know a factory string, or cannot build the index from so few vectors.
    """
    worst = _kth_cosines(vectors, queries, k)
    ids = np.arange(len(vectors), dtype=np.int64)
    exact = build_index(ids, [vectors], vectors.shape[1], factory="SQfp16").index
    for factory in factories:
        built = build_index(ids, [vectors], vectors.shape[1], factory=factory, min_recall=0.0, seed=seed)
        if built.factory != factory:
            raise UsageError(built.note, hint="Give more vectors or another factory string.")
        _set_probes(built.index, exact, min_recall, seed)
        with _one_thread():
            found, seconds = _search_one_by_one(built.index, queries, k)
        cosines = np.einsum("qkd,qd->qk", vectors[found], queries)  # (q, k)
        hits = (cosines >= worst[:, None] - _TOLERANCE) & (found >= 0)
        yield FactoryMeasure(
            factory=factory,
            recall=hits.sum(axis=1) / min(k, len(vectors)),
            seconds=seconds,
            probes=built.index.probes,
            bytes_per_vector=built.bytes_per_vector,
        )


def clustered_vectors(size: int, dim: int, *, clusters: int, seed: int) -> Embeddings:
    """Return (size, dim) rows of length 1 around random centres."""
    generator = np.random.default_rng(seed)
    centres = normalise(generator.standard_normal((clusters, dim)))
    offsets = normalise(generator.standard_normal((size, dim)))
    return normalise(centres[generator.integers(0, clusters, size)] + np.float32(SPREAD) * offsets)


def queries_near(vectors: Embeddings, size: int, *, seed: int) -> Embeddings:
    """Return (size, dim) rows of length 1, each near one of the vectors, drawn with replacement."""
    generator = np.random.default_rng([seed, size])
    chosen = vectors[generator.integers(0, len(vectors), size)]
    return normalise(chosen + np.float32(NOISE) * normalise(generator.standard_normal(chosen.shape)))


def _kth_cosines(vectors: Embeddings, queries: Embeddings, k: int) -> Floats:
    """Return (q,) the exact cosine of every query with its k-th nearest vector, or the last where there are fewer."""
    place = len(vectors) - min(k, len(vectors))
    blocks = (queries[at : at + _QUERIES_AT_ONCE] for at in range(0, len(queries), _QUERIES_AT_ONCE))
    return np.concatenate([np.partition(block @ vectors.T, place, axis=1)[:, place] for block in blocks]).astype(float)


def _set_probes(index: FaissIndex, exact: FaissIndex, min_recall: float, seed: int) -> None:
    queries = sample_queries(exact, seed=seed)
    while index.probes < index.structure.most_probes and measure_recall(index, exact, queries) < min_recall:
        index.probes *= 2


@contextmanager
def _one_thread() -> Iterator[None]:
    """Keep FAISS to one thread: over one query, threads that wait for each other take many times longer when busy."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _search_one_by_one(index: FaissIndex, queries: Embeddings, k: int) -> tuple[Ids, Floats]:
    """Return the ids found (q, k) and the seconds of every query (q,), after one to warm up."""
    index.search(queries[:1], k)
    found, seconds = [], []
    for row in range(len(queries)):
        started = time.perf_counter()
        found.append(index.search(queries[row : row + 1], k).ids)
        seconds.append(time.perf_counter() - started)
    return np.concatenate(found), np.array(seconds)
