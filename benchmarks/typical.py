"""Does a search find texts of one label better when what is typical of a view is taken off the query?

    python benchmarks/typical.py DATA --output benchmarks/results/typical.json

Pools of labelled texts are searched under the question about their label, by texts of the pool and by the labels' own
names. Compared are the cosine alone and the search as it is (`retriever.index.search.centering`): the share of the
first ten hits that have the label, the query itself left out.
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import write

from retriever import load_encoder
from retriever.core.paths import cache_dir
from retriever.core.protocols import Encoder
from retriever.core.requests import SearchRequest
from retriever.core.types import Document
from retriever.evaluation.files import INTENTS
from retriever.evaluation.generic import INTENT_INSTRUCTION
from retriever.evaluation.labelled import LABELLED, balanced_sample, load_texts
from retriever.evaluation.rows import read_rows
from retriever.evaluation.run.embedding_cache import CachedEncoder, EmbeddingCache
from retriever.evaluation.wordings import find_wordings
from retriever.workspace import Index

POOL, QUERIES, HITS = 1000, 300, 10


@dataclass(frozen=True, slots=True)
class Pool:
    """Distinct texts with a label each, and the question about it."""

    name: str
    texts: Sequence[str]
    labels: Sequence[str]
    instruction: str


def main() -> None:
    """Parse the options, search every pool both ways, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoder", default="pretrained:default")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    with EmbeddingCache(cache_dir() / "evaluation") as cache:
        encoder = CachedEncoder(load_encoder(options.encoder), cache)
        found = {pool.name: measure(encoder, pool) for pool in pools(options.data)}
    means = {
        kind: {
            way: round(float(np.mean([one[kind][way] for one in found.values()])), 1) for way in ("cosine", "search")
        }
        for kind in ("texts", "names")
    }
    write("typical", options, {"pools": found, "mean": means})


def pools(data: Path) -> Iterator[Pool]:
    """Yield the labelled test texts of the suites `awareness` and `generic`, a pool for every kind of label."""
    for source in LABELLED.values():
        texts = balanced_sample(load_texts(data, source), POOL, seed=0)
        for place, criterion in enumerate(source.criteria):
            labels = [one.labels[place] for one in texts]
            instruction = find_wordings(source.name, criterion).instruction
            yield Pool(f"{source.name}, {criterion}", [one.text for one in texts], labels, instruction)
    rows = {row.get("text", str): row for row in read_rows(data, INTENTS) if row.get("split", str) == "test"}
    yield Pool("intents", list(rows), [row.get("labels.intent", str) for row in rows.values()], INTENT_INSTRUCTION)


def measure(encoder: Encoder, pool: Pool) -> dict[str, Any]:
    """Return precision in percent, by texts and by names as queries, of the cosine alone and of the search."""
    chosen = np.random.default_rng(0).permutation(len(pool.texts))[:QUERIES]
    names = sorted(set(pool.labels))
    asked = {
        "texts": ([pool.texts[row] for row in chosen], [pool.labels[row] for row in chosen]),
        "names": ([name.replace("_", " ") for name in names], names),
    }
    with tempfile.TemporaryDirectory() as folder, Index(Path(folder) / "index", encoder=encoder) as index:
        documents = [Document(f"{row:04}", text) for row, text in enumerate(pool.texts)]
        index.add(documents, instructions=[pool.instruction])
        return {kind: precisions(encoder, index, pool, *queries) for kind, queries in asked.items()}


def precisions(
    encoder: Encoder, index: Index, pool: Pool, queries: Sequence[str], wanted: Sequence[str]
) -> dict[str, float]:
    """Return how many in a hundred of the first hits have the label that each query is for."""
    labels = dict(zip(pool.texts, pool.labels, strict=True))
    vectors = encoder.encode(pool.texts, instruction=pool.instruction)
    cosines = encoder.encode(queries, instruction=pool.instruction) @ vectors.T
    searched = index.search_many(SearchRequest(queries, pool.instruction, HITS + 1, mode="dense"))
    ranked = {
        "cosine": [[pool.texts[row] for row in np.argsort(-one, kind="stable")[: HITS + 1]] for one in cosines],
        "search": [[hit.document.text for hit in one.hits] for one in searched],
    }
    return {way: round(100 * _precision(queries, wanted, hits, labels), 1) for way, hits in ranked.items()}


def _precision(
    queries: Sequence[str], wanted: Sequence[str], ranked: Sequence[Sequence[str]], labels: dict[str, str]
) -> float:
    shares = []
    for query, label, texts in zip(queries, wanted, ranked, strict=True):
        first = [text for text in texts if text != query][:HITS]
        shares.append(np.mean([labels[text] == label for text in first]))
    return float(np.mean(shares))


if __name__ == "__main__":
    main()
