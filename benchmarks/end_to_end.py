"""Measure the costs of a search beyond FAISS when it ends in documents: database, filters for deletes, metadata, words.

    python benchmarks/end_to_end.py --vectors 1000000 --output benchmarks/results/end_to_end.json

An encoder that only looks vectors up stands in for the model, so that nothing but retrieval is timed; its own time is
taken off. Raw FAISS is the very index our search uses, asked for as many neighbours.
"""

import argparse
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import peak_rss_mib, time_alternating, write
from vector_search import make_vectors

from retriever.core.protocols import Encoder, EncoderSpec
from retriever.core.requests import IndexType, SearchRequest
from retriever.core.types import Document, Embeddings, Encoded
from retriever.workspace import Index

K = 10
BATCH = 256
SINGLES = 64


class LookUpEncoder(Encoder):
    """Returns row n of an array for the text ``text n``, and noise around it for ``query n``."""

    def __init__(self, vectors: np.memmap[Any, Any]) -> None:
        self.vectors = vectors

    @property
    def spec(self) -> EncoderSpec:
        """A name for the array."""
        return EncoderSpec("look-up", self.vectors.shape[1])

    def encode_views(self, texts: Sequence[str], instructions: Sequence[str], **options: object) -> list[Encoded]:
        """Return the rows the texts name under every instruction, and a word each."""
        return [Encoded(self._rows(texts), [["word"] for _ in texts]) for _ in instructions]

    def _rows(self, texts: Sequence[str]) -> Embeddings:
        rows = np.array([int(text.split()[1]) for text in texts])
        vectors = self.vectors[rows].astype(np.float32)
        if texts[0].startswith("query"):
            noise = np.random.default_rng(rows).standard_normal(vectors.shape, dtype=np.float32)
            vectors += np.float32(0.5 / np.sqrt(self.dim)) * noise
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def documents(count: int) -> Iterator[Document]:
    """Yield one small document per vector."""
    for n in range(count):
        yield Document(f"d{n}", f"text {n}", {"stars": n % 5 + 1, "category": f"c{n % 7}"})


def compare(index: Index, rounds: int) -> dict[str, Any]:
    """Time whole searches and FAISS alone, in turn: a batch of 256 queries, and single ones."""
    searcher = index._opened.views.loaded(index._opened.store.views.all()[0])
    queries = [f"query {n * 37}" for n in range(BATCH)]
    vectors = index._opened.sources.encoders.question.encode(queries)
    searcher.search(vectors[:1], K)  # opens the index
    raw = searcher.index.container
    batch = time_alternating(
        {
            "ours": lambda: index.search_many([SearchRequest(query, k=K, mode="dense") for query in queries]),
            "faiss": lambda: raw.search(vectors, K + 1),
            "encoder": lambda: index._opened.sources.encoders.question.encode(queries),
        },
        rounds,
    )
    single = time_alternating(
        {
            "ours": lambda: [index.search(query, k=K, mode="dense") for query in queries[:SINGLES]],
            "faiss": lambda: [raw.search(vectors[n : n + 1], K + 1) for n in range(SINGLES)],
            "encoder": lambda: [index._opened.sources.encoders.question.encode([query]) for query in queries[:SINGLES]],
        },
        rounds,
    )
    nets = [ours - encoder for ours, encoder in zip(batch["ours"], batch["encoder"], strict=True)]
    overs = [
        1000 * (ours - encoder - faiss) / SINGLES
        for ours, encoder, faiss in zip(single["ours"], single["encoder"], single["faiss"], strict=True)
    ]
    return {
        "batch_faiss_ms": round(1000 * float(np.median(batch["faiss"])), 1),
        "batch_ours_ms": round(1000 * float(np.median(nets)), 1),
        "batch_overhead": round(float(np.median([n / f for n, f in zip(nets, batch["faiss"], strict=True)])) - 1, 3),
        "single_faiss_ms": round(1000 * float(np.median(single["faiss"])) / SINGLES, 3),
        "single_overhead_ms": round(float(np.median(overs)), 3),
    }


def main() -> None:
    """Parse the options, build, measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=576)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path("indexes/end-to-end"))
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True)
    vectors: Any = np.memmap(options.folder / "vectors.f16", np.float16, "w+", shape=(options.vectors, options.dim))
    start = 0
    for part in make_vectors(options.vectors, options.dim, 2_000, 0):
        vectors[start : start + len(part)] = part
        start += len(part)
    report: dict[str, Any] = {}
    with Index(options.folder / "index", encoder=LookUpEncoder(vectors)) as index:
        started = time.perf_counter()
        index.add(documents(options.vectors), index_type=IndexType("SQfp16"))
        report["index_seconds"] = round(time.perf_counter() - started, 1)
        report["exact"] = compare(index, options.rounds)
        started = time.perf_counter()
        index.upkeep.repair()
        report["repair_seconds"] = round(time.perf_counter() - started, 1)
        status = index.views()[0]
        inverted = compare(index, max(9, options.rounds))
        report["inverted"] = {"factory": status.factory, "recall_at_10": status.recall, **inverted}
        report["size_bytes"] = index.status().size_bytes
    shutil.rmtree(options.folder)
    write("end_to_end", options, {**report, "peak_rss_mib": peak_rss_mib()})


if __name__ == "__main__":
    main()
