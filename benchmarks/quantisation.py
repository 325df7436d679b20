"""What quantised vectors lose and save: recall@10, bytes and times of what FAISS offers, at a million vectors.

    python benchmarks/quantisation.py CORPUS.jsonl --vectors 1000000 --output benchmarks/results/quantisation.json

The vectors are real ones of the plain reader, drawn out to as many as are asked for: each is one text's vector moved
by the difference of two others, so that noise lies in the directions in which texts differ. Queries are vectors of
texts that are not among them. Truth is an exact search in single precision. Times are the least of several rounds, of
one thread and one query at a time. With --kept, a run that was stopped goes on where it was: the same command again.
"""

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import faiss
import numpy as np
from common import read_texts, time_alternating, write

from retriever.core.similarity import normalise
from retriever.core.types import Embeddings, Ids

K = 10
MOVED = 0.6
"""Length by which a text's vector is moved, in differences of two texts; at 0 all copies of a text are the same."""

FORMS = {
    "fp16": ("SQfp16", 0),
    "SQ8": ("SQ8", 0),
    "RaBitQ": ("RR{dim},RaBitQ", 0),
    "RaBitQ, 10 k again by fp16": ("RR{dim},RaBitQ", 10),
    "RaBitQ, 30 k again by fp16": ("RR{dim},RaBitQ", 30),
    "SQ8, 4 k again by fp16": ("SQ8", 4),
}
"""FAISS factory strings, and how many times k are compared again with the fp16 vectors, which stay on the disk."""


def drawn_out(base: Embeddings, count: int, seed: int, *, chunk: int = 50_000) -> Iterator[Embeddings]:
    """Yield so many vectors like those of ``base`` (n, dim), (up to chunk, dim) at a time; equal for equal seeds."""
    for start in range(0, count, chunk):
        rng = np.random.default_rng((seed, start))
        size = min(chunk, count - start)
        first, one, other = rng.integers(0, len(base), (3, size))
        yield normalise(base[first] + np.float32(MOVED) * (base[one] - base[other]))


def truth(base: Embeddings, queries: Embeddings, count: int, seed: int) -> Ids:
    """Return the K nearest of each query (q, K), all compared in single precision."""
    scores = np.full((len(queries), K), -np.inf, dtype=np.float32)
    ids = np.full((len(queries), K), -1)
    start = 0
    for rows in drawn_out(base, count, seed):
        every = np.concatenate([scores, queries @ rows.T], axis=1)
        numbers = np.concatenate(
            [ids, np.broadcast_to(np.arange(start, start + len(rows)), (len(queries), len(rows)))], 1
        )
        best = np.argsort(-every, axis=1, kind="stable")[:, :K]
        scores, ids = np.take_along_axis(every, best, 1), np.take_along_axis(numbers, best, 1)
        start += len(rows)
    return ids


def built(factory: str, base: Embeddings, count: int, seed: int) -> faiss.Index:
    """Return a FAISS index of the drawn-out vectors."""
    index = faiss.index_factory(base.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
    if not index.is_trained:
        index.train(np.concatenate([*drawn_out(base, min(count, 50_000), seed)]))
    for rows in drawn_out(base, count, seed):
        index.add(rows)
    return index


def size(index: faiss.Index) -> float:
    """Return the bytes a vector takes."""
    return len(faiss.serialize_index(index)) / index.ntotal


def found_by(index: faiss.Index, exact: faiss.Index, queries: Embeddings, again: int) -> Ids:
    """Return the K nearest of each query (q, K); with ``again``, so many times K are compared with the exact index."""
    _, ids = index.search(queries, K * max(1, again))
    if not again:
        return np.asarray(ids)
    best = []
    for query, candidates in zip(queries, ids, strict=True):
        rows = exact.reconstruct_batch(candidates[candidates >= 0])
        best.append(candidates[candidates >= 0][np.argsort(-(rows @ query), kind="stable")[:K]])
    return np.array(best)


def recall(found: Ids, wanted: Ids) -> float:
    """Return the share of the true ids that were found, (q, K) each."""
    return round(float((wanted[:, :, None] == found[:, None, :]).any(axis=2).mean()), 4)


def measure(base: Embeddings, queries: Embeddings, options: argparse.Namespace, kept: Path | None) -> dict[str, Any]:
    """Return recall, bytes a vector and milliseconds a query of every form; what is kept is not measured again."""
    count, dim, seed = options.vectors, base.shape[1], options.seed
    report: dict[str, Any] = json.loads(kept.read_text()) if kept and kept.exists() else {}
    if all(name in report for name in FORMS):
        return {name: report[name] for name in FORMS}
    wanted = np.array(report["truth"]) if "truth" in report else truth(base, queries, count, seed)
    report["truth"] = wanted.tolist()
    exact = built("SQfp16", base, count, seed)
    singles = [query[None] for query in queries[: options.timed]]
    index, known = exact, "SQfp16"
    for name, (pattern, again) in FORMS.items():
        if name in report:
            continue
        factory = pattern.format(dim=dim)
        if factory != known:
            index = exact if factory == "SQfp16" else built(factory, base, count, seed)
            known = factory
        calls = {name: lambda: [found_by(index, exact, one, again) for one in singles]}  # noqa: B023 - called at once
        seconds = min(time_alternating(calls, options.rounds)[name]) / len(singles)
        report[name] = {
            "factory": factory,
            "recall": recall(found_by(index, exact, queries, again), wanted),
            "bytes_in_memory": round(size(index), 1),
            "bytes_on_disk": 2 * dim if again else 0,
            "ms": round(1000 * seconds, 3),
        }
        print(name, report[name], flush=True)
        if kept:
            kept.write_text(json.dumps(report))
    return {name: report[name] for name in FORMS}


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the options, measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="JSONL with texts.")
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--texts", type=int, default=3_000, help="Texts that are read for it.")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--timed", type=int, default=20, help="Queries that are timed.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--kept", type=Path, help="Folder to keep vectors and figures in, for a run that goes on.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(argv)
    faiss.omp_set_num_threads(1)
    file = options.kept / "vectors.npy" if options.kept else None
    if file and file.exists():
        vectors = np.load(file, allow_pickle=False)
    else:
        from retriever.index.readers import load_plain

        texts = read_texts(options.corpus, options.texts + options.queries)
        vectors = load_plain(options.encoder).encode(texts)
        if file:
            file.parent.mkdir(parents=True, exist_ok=True)
            np.save(file, vectors)
    base, queries = vectors[: -options.queries], vectors[-options.queries :]
    forms = measure(base, queries, options, options.kept / "forms.json" if options.kept else None)
    write("quantisation", options, {"k": K, "dim": base.shape[1], "forms": forms})


if __name__ == "__main__":
    main()
