"""Measure what our search costs over raw FAISS, in turn in one process, and what filters and inverted lists do.

    python benchmarks/vector_search.py --vectors 1000000 --output benchmarks/results/vector_search.json

Every ratio is the median over rounds of our time by FAISS's time within a round, so that a busy machine slows both.
The vectors are made from a seed; clustered ones flatter inverted lists, so recall is told beside every time.
"""

import argparse
import gc
import resource
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from common import peak_rss_mib, time_alternating, write
from numpy.typing import NDArray

from retriever.core.similarity import normalise
from retriever.core.types import Embeddings, Ids
from retriever.vectors.backend import ViewVectors
from retriever.vectors.faiss.building import Built, build_index, sample_queries
from retriever.vectors.faiss.index import FaissIndex

K = 10
BATCH = 256
SINGLES = 200


def make_vectors(
    count: int, dim: int, clusters: int, seed: int, *, spread: float = 0.8, chunk: int = 50_000
) -> Iterator[Embeddings]:
    """Yield normalised float32 rows, (up to chunk, dim) at a time, around random centres.

    Args:
        count: rows in all.
        dim: their length.
        clusters: number of centres.
        seed: equal seeds give equal rows, whatever the chunk.
        spread: length of the noise beside a centre of length 1.
        chunk: rows at a time.
    """
    centres = normalise(np.random.default_rng(seed).standard_normal((clusters, dim), dtype=np.float32))
    for start in range(0, count, chunk):
        rng = np.random.default_rng((seed, start))
        size = min(chunk, count - start)
        noise = normalise(rng.standard_normal((size, dim), dtype=np.float32))
        yield normalise(centres[rng.integers(0, clusters, size)] + np.float32(spread) * noise)


def compare(ours: Callable[[], object], raw: Callable[[], object], rounds: int, *, searches: int) -> dict[str, float]:
    """Return medians in milliseconds a search, and the median ratio of ours to raw FAISS.

    Args:
        ours: runs our side once.
        raw: runs FAISS once.
        rounds: how often both are timed.
        searches: calls of ``search`` in one run.
    """
    seconds = time_alternating({"ours": ours, "faiss": raw}, rounds)
    each = 1000 / searches
    return {
        "ours_ms": statistics.median(seconds["ours"]) * each,
        "faiss_ms": statistics.median(seconds["faiss"]) * each,
        "over_ms": statistics.median(a - b for a, b in zip(seconds["ours"], seconds["faiss"], strict=True)) * each,
        "ratio": statistics.median(a / b for a, b in zip(seconds["ours"], seconds["faiss"], strict=True)),
        "rounds": rounds,
    }


def recall_of(found: Ids, truth: Ids) -> float:
    """Return the share of the true ids that were found, (q, k) each."""
    return float((truth[:, :, None] == found[:, None, :]).any(axis=2).mean())


def compare_plain(index: FaissIndex, queries: Embeddings, rounds: int) -> dict[str, Any]:
    """Compare unfiltered searches with those of the FAISS index inside, in batches and one by one."""
    raw = faiss.downcast_index(index.container.index)
    singles = [queries[row : row + 1] for row in range(min(SINGLES, len(queries)))]
    if index.probes == 0:
        singles = singles[:5]
    return {
        "batch": {
            "queries": len(queries),
            **compare(lambda: index.search(queries, K), lambda: raw.search(queries, K), rounds, searches=1),
        },
        "single": compare(
            lambda: [index.search(query, K) for query in singles],
            lambda: [raw.search(query, K) for query in singles],
            max(rounds, 7),
            searches=len(singles),
        ),
    }


def time_filtered(index: FaissIndex, exact: FaissIndex, queries: Embeddings, share: float, seed: int) -> dict[str, Any]:
    """Time searches allowed to see a random share of the vectors, and measure their recall."""
    rng = np.random.default_rng(seed)
    allowed = index.ids[rng.random(index.size) < share]
    few = queries[:64]
    truth = exact.search(few, K, allowed=allowed).ids
    ids = index.search(few, K, allowed=allowed).ids
    calls = {
        "single": lambda: [index.search(query[None], K, allowed=allowed) for query in queries[:10]],
        "batch": lambda: index.search(few, K, allowed=allowed),
    }
    seconds = {name: statistics.median(times) for name, times in time_alternating(calls, 3).items()}
    return {
        "allowed": len(allowed),
        "single_ms": seconds["single"] * 100,
        "batch_ms": seconds["batch"] * 1000,
        "batch_queries": len(few),
        "recall": recall_of(ids, truth),
    }


def describe(built: Built) -> dict[str, Any]:
    """Return what is known of a build."""
    return {
        "factory": built.factory,
        "probes": built.index.probes,
        "recall_at_build": built.recall,
        "bytes_per_vector": faiss.serialize_index(built.index.container).size / built.index.size,
        "note": built.note,
        "rss_mib": rss_mib(),
    }


def rss_mib() -> float:
    """Return the resident memory of this process now, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def measure(count: int, dim: int, clusters: int, seed: int, rounds: int) -> dict[str, Any]:
    """Build an exact and an inverted index over the same vectors and return every figure."""
    ids: NDArray[np.int64] = np.arange(count, dtype=np.int64) * 2 + 1
    exact = build_index(ViewVectors(ids, dim, make_vectors(count, dim, clusters, seed)), factory="SQfp16")
    queries = sample_queries(exact.index, size=BATCH, seed=seed + 1)
    report: dict[str, Any] = {"exact": describe(exact)}
    report["exact"] |= compare_plain(exact.index, queries, rounds)
    report["exact"]["filtered"] = filtered(exact.index, exact.index, queries, seed)
    lists = 2 ** round(np.log2(4 * np.sqrt(count)))
    inverted = build_index(
        ViewVectors(ids, dim, make_vectors(count, dim, clusters, seed)), factory=f"IVF{lists},SQfp16"
    )
    gc.collect()
    report["inverted"] = describe(inverted)
    report["inverted"] |= compare_plain(inverted.index, queries, max(rounds, 9))
    report["inverted"]["recall"] = recall_of(inverted.index.search(queries, K).ids, exact.index.search(queries, K).ids)
    report["inverted"]["filtered"] = filtered(inverted.index, exact.index, queries, seed)
    return report


def filtered(index: FaissIndex, exact: FaissIndex, queries: Embeddings, seed: int) -> dict[str, Any]:
    """Return the figures of filters that keep one in a hundred and one in two."""
    return {str(share): time_filtered(index, exact, queries, share, seed) for share in (0.01, 0.5)}


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the options, measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=576)
    parser.add_argument("--clusters", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(argv)
    report = {
        "k": K,
        "faiss_options": faiss.get_compile_options().strip(),
        **measure(options.vectors, options.dim, options.clusters, options.seed, options.rounds),
        "peak_rss_mib": peak_rss_mib(),
    }
    write("vector_search", options, report)


if __name__ == "__main__":
    main()
