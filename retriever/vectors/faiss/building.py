"""Builds FAISS indexes: picks the kind by size, trains it, and measures what it finds before anyone relies on it.

The vectors first go into an exact half-precision index. A quicker index is trained and filled from that one, and its
recall@10 is measured against it; where it cannot reach the recall asked for, the exact index is the result. Equal
vectors give an equal file for all kinds but graphs, which FAISS builds on several threads at once.
"""

import math
from dataclasses import dataclass
from typing import Any

from retriever.core.errors import UsageError
from retriever.core.types import Embeddings
from retriever.vectors.backend import ViewVectors
from retriever.vectors.exact import NEAREST, SAMPLE, least_effort, overlap, queries_near, sample_rows
from retriever.vectors.faiss import faiss
from retriever.vectors.faiss.index import EXACT_BYTES, FaissIndex, has_gpu
from retriever.vectors.faiss.structures import Graph
from retriever.vectors.files import checked_batches

EXACT = "SQfp16"
_EXACT_VECTORS = 200_000  # on CPU, one exact query over 200,000 x 576 takes about 16 ms
_POINTS_PER_LIST = 48  # training vectors; FAISS asks for at least 39
_TRAINING_BYTES = 1 << 30
_LEAST_TRAINING = 1 << 16
_FIRST_PROBES = 8
_FIRST_CANDIDATES = 32
_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class Built:
    """A new index and what is known of it.

    Attributes:
        index: ready to search.
        factory: the FAISS factory string of what was built, which may not be the one asked for.
        recall: share of the exact ten nearest that a search finds, measured; 1 for the exact index.
        note: why it is not what was asked for, or nothing.
    """

    index: FaissIndex
    factory: str
    recall: float
    note: str = ""


def build_index(
    vectors: ViewVectors, *, factory: str = "auto", min_recall: float = 0.95, device: str = "auto"
) -> Built:
    """Build an index over vectors that arrive in batches.

    Args:
        vectors: they are read once.
        factory: a FAISS factory string, or ``auto`` for exact search while that is quick and inverted lists beyond.
        min_recall: recall@10 that an index other than the exact one has to reach.
        device: where it will be searched; a GPU searches far more vectors exactly. Building is done on the CPU.

    Raises:
        UsageError: FAISS does not know the factory string, ids or vectors are not as described, or one is not finite.
    """
    check_options(vectors.dim, min_recall=min_recall)
    container = _container(EXACT, vectors.dim)
    for batch in checked_batches(vectors):
        container.add_with_ids(batch.embeddings, batch.ids)
    exact = FaissIndex(container)
    chosen = choose_factory(exact.size, exact.dim, device=device) if factory == "auto" else factory
    return Built(exact, EXACT, 1.0) if chosen == EXACT else _approximate(exact, chosen, min_recall)


def check_options(dim: int, *, factory: str = "auto", min_recall: float = 0.95) -> None:
    """Raise UsageError for a factory string that FAISS does not know for vectors of ``dim``, or a recall not 0 to 1."""
    if not 0 <= min_recall <= 1:
        raise UsageError(f"min_recall is {min_recall}.", hint="Give a share between 0 and 1.")
    if factory != "auto":
        _container(factory, dim)


def choose_factory(size: int, dim: int, *, device: str = "auto") -> str:
    """Return the factory string for a number of vectors: exact, or about 4 sqrt(size) inverted lists."""
    on_gpu = device != "cpu" and has_gpu() and 4 * size * dim <= EXACT_BYTES
    if size <= _EXACT_VECTORS or on_gpu:
        return EXACT
    return f"IVF{2 ** round(math.log2(4 * math.sqrt(size)))},{EXACT}"


def sample_queries(exact: FaissIndex, *, size: int = SAMPLE, seed: int = 0) -> Embeddings:
    """Return (q, dim) queries near stored vectors: some of these, moved by noise to a cosine of about 0.8."""
    rows = sample_rows(exact.size, most=size, seed=seed)
    return queries_near(exact.container.index.reconstruct_batch(rows), seed=seed)


def _approximate(exact: FaissIndex, factory: str, min_recall: float) -> Built:
    """Return an index of another kind; the exact one, with the reason, where that falls short."""
    container = _container(factory, exact.dim)
    if exact.size == 0:
        return Built(exact, EXACT, 1.0, f"{factory} cannot be trained without vectors; search is exact.")
    try:
        _prepare(container)
        _fill(container, exact)
        index = FaissIndex(container)
    except RuntimeError as error:
        note = f"{factory} cannot be built from {exact.size} vectors, so search is exact: {_cause(error)}"
        return Built(exact, EXACT, 1.0, note)
    recall = _raise_probes(index, exact, min_recall)
    if recall >= min_recall:
        return Built(index, factory, recall)
    reached = f"{factory} finds {recall:.3f} of the ten nearest at most, below the {min_recall:g} asked for"
    return Built(exact, EXACT, 1.0, f"{reached}; search is exact.")


def _container(factory: str, dim: int) -> Any:  # noqa: ANN401 - a faiss.IndexIDMap
    if factory.startswith("IDMap"):
        raise UsageError(f"The factory string {factory!r} maps ids.", hint="Leave out IDMap: it is always there.")
    try:
        return faiss.index_factory(dim, f"IDMap,{factory}", faiss.METRIC_INNER_PRODUCT)
    except RuntimeError as error:
        raise UsageError(
            f"FAISS cannot make a {dim}-dimensional index {factory!r} for cosine: {_cause(error)}.",
            hint='Use "auto" or a string of the FAISS index factory such as "IVF1024,SQfp16" or "HNSW32,SQ8".',
        ) from error


def _prepare(container: Any) -> None:  # noqa: ANN401
    """Let small samples train without warnings, and store the vectors themselves in lists of half-precision codes."""
    lists = faiss.try_extract_index_ivf(container.index)
    if lists is not None:
        lists.cp.min_points_per_centroid = 1  # the sample is sized here
        lists = faiss.downcast_index(lists)
        if isinstance(lists, faiss.IndexIVFScalarQuantizer) and lists.sq.qtype == faiss.ScalarQuantizer.QT_fp16:
            lists.by_residual = False  # the same codes, and so the same scores, as in the exact index
    for part in (lists, faiss.downcast_index(container.index)):
        if hasattr(part, "pq"):
            part.pq.cp.min_points_per_centroid = 1


def _fill(container: Any, exact: FaissIndex) -> None:  # noqa: ANN401
    """Train on a sample of the exact index and add all its vectors."""
    source = exact.container.index
    if not container.is_trained:
        lists = faiss.try_extract_index_ivf(container.index)
        wanted = max(_LEAST_TRAINING, 0 if lists is None else _POINTS_PER_LIST * lists.nlist)
        wanted = min(wanted, _TRAINING_BYTES // (4 * exact.dim), exact.size)
        container.train(source.reconstruct_batch(sample_rows(exact.size, most=wanted)))
    for start in range(0, exact.size, _ROWS_AT_ONCE):
        count = min(_ROWS_AT_ONCE, exact.size - start)
        container.add_with_ids(source.reconstruct_n(start, count), exact.ids[start : start + count])


def _raise_probes(index: FaissIndex, exact: FaissIndex, min_recall: float) -> float:
    """Double the probes until the recall asked for is reached, and return the recall of where that ended."""
    queries = sample_queries(exact)
    truth = exact.search(queries, NEAREST).ids
    first = _FIRST_CANDIDATES if isinstance(index.structure, Graph) else _FIRST_PROBES

    def recall(probes: int) -> float:
        index.probes = probes
        return overlap(index.search(queries, NEAREST).ids, truth)

    return least_effort(recall, first, index.structure.most_probes, min_recall)[1]


def _cause(error: RuntimeError) -> str:
    """Extract the message of a FAISS error, without the place in FAISS's sources that raised it."""
    return str(error).rpartition("failed: ")[2].rpartition("Error: ")[2].strip()
