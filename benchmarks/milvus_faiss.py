"""Milvus beside FAISS in one run: what a build takes, what a search takes, what it finds, and what stays in memory.

    export PYTHONPATH=tests/contracts
    python benchmarks/milvus_faiss.py --rows 50000 --output benchmarks/results/milvus_faiss.json

A server is started from the wheel `milvus`, on this machine, so that both have the same cores. Times are medians over
single queries in turns, one query of each index after the other; a ratio is the median over queries of one time by the
other's. Memory is that of the server's process before and after; FAISS's is the size of its index.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import median_ratio, time_alternating, write
from milvus_server import MilvusServer, unpacked
from vector_search import make_vectors

from retriever.core.types import Embeddings, Ids
from retriever.vectors.backend import BuildOptions, ListedIndex, ViewVectors, open_backend
from retriever.vectors.exact import exact_nearest, overlap, picked, queries_near, sample_rows

K = 10
KINDS = (("faiss", "auto"), ("milvus", "FLAT"), ("milvus", "HNSW"), ("milvus", "IVF_SQ8"))
PEER = "faiss auto"


def resident(pid: int) -> int:
    """Return the bytes that a process holds in memory."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS"))


def build(folder: Path, server: MilvusServer, vectors: ViewVectors, kind: tuple[str, str]) -> tuple[ListedIndex, Any]:
    """Build an index of a kind; return it, and what that took."""
    name, factory = kind
    backend = open_backend(name, folder, "cpu")
    location = server.url if name == "milvus" else ""
    before, started = resident(server.pid), time.perf_counter()
    built = backend.build(1, vectors, BuildOptions(name, location, factory))
    seconds = time.perf_counter() - started
    size = resident(server.pid) - before if name == "milvus" else built.details["bytes_per_vector"] * len(vectors.ids)
    facts = {
        "built": built.details["factory"],
        "note": built.details["note"],
        "recall_on_build": round(built.recall, 4),
    }
    return backend.open(built.handle), {**facts, "build_seconds": round(seconds, 1), "memory_mb": round(size / 1e6, 1)}


def timed(indexes: dict[str, ListedIndex], queries: Embeddings, allowed: Ids | None) -> dict[str, Any]:
    """Return milliseconds a query of every index, in turns, and their ratio to FAISS's."""
    at = dict.fromkeys(indexes, 0)

    def search(name: str) -> None:
        query = queries[at[name] % len(queries)]
        at[name] += 1
        indexes[name].search(query[None], K, allowed=allowed)

    seconds = time_alternating({name: lambda name=name: search(name) for name in indexes}, len(queries))
    return {
        name: {
            "p50_ms": round(1000 * statistics.median(taken), 2),
            "p95_ms": round(1000 * float(np.quantile(taken, 0.95)), 2),
            "by_faiss": median_ratio(taken, seconds[PEER]),
        }
        for name, taken in seconds.items()
    }


def measure(options: argparse.Namespace, folder: Path, server: MilvusServer) -> dict[str, Any]:
    """Build every index, and search all of them."""
    batches = list(make_vectors(options.rows, options.dim, options.rows // 50, 7))
    vectors = ViewVectors(np.arange(options.rows), options.dim, batches)
    queries = queries_near(
        picked(batches, sample_rows(options.rows, most=options.queries, seed=1), options.dim), seed=1
    )
    truth = exact_nearest(vectors, queries, K)
    indexes: dict[str, ListedIndex] = {}
    figures: dict[str, Any] = {}
    for kind in KINDS:
        name = " ".join(kind)
        (folder / name).mkdir()
        indexes[name], figures[name] = build(folder / name, server, vectors, kind)
        figures[name]["recall"] = round(overlap(indexes[name].search(queries, K).ids, truth), 4)
    chance = np.random.default_rng(2)
    filters: dict[str, Ids | None] = {
        "no filter": None,
        "half allowed": vectors.ids[chance.random(options.rows) < 0.5],
        "1 % allowed": vectors.ids[chance.random(options.rows) < 0.01],
    }
    searches = {name: timed(indexes, queries, allowed) for name, allowed in filters.items()}
    return {"indexes": figures, "searches": searches}


def main() -> None:
    """Parse the options, measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = folder / "programs"
        programs.mkdir()
        server = MilvusServer(folder / "server", unpacked(programs))
        os.environ["MILVUS_TOKEN"] = server.token
        server.start()
        try:
            report = measure(options, folder, server)
        finally:
            server.stop()
    write("milvus_faiss", options, report)


if __name__ == "__main__":
    main()
