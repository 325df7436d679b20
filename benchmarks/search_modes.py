"""Which search mode serves best: nDCG@10 of dense, lexical and hybrid search on labelled queries.

    python benchmarks/search_modes.py CORPUS.jsonl QUERIES.jsonl --output benchmarks/results/search_modes.json

Queries are rows with ``id``, ``text`` and ``relevant``, a list of corpus ids. `auto` in
`retriever.services.searching` is set to what wins here for the default encoder.
"""

import argparse
import json
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path

from common import write

from retriever import load_encoder
from retriever.corpus.readers import read_documents
from retriever.services.results import SearchResult
from retriever.services.searching import SearchRequest
from retriever.services.workspace import Index

MODES = ("dense", "lexical", "hybrid")
DEPTH = 10


def ndcg(result: SearchResult, relevant: Sequence[str]) -> float:
    """Return nDCG@10 with binary relevance."""
    gains = [1 / math.log2(rank + 1) for rank, hit in enumerate(result.hits, 1) if hit.document.id in relevant]
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(len(relevant), DEPTH) + 1))
    return sum(gains) / ideal


def main() -> None:
    """Parse the options, measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("queries", type=Path)
    parser.add_argument("--encoder", action="append", default=[])
    parser.add_argument("--limit", type=int, default=500)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    with options.queries.open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file][: options.limit]
    scores: dict[str, dict[str, float]] = {}
    for name in options.encoder or ["default"]:
        encoder = load_encoder(name)
        with tempfile.TemporaryDirectory() as folder, Index(Path(folder) / "index", encoder=encoder) as index:
            index.add(read_documents([options.corpus]))
            scores[name] = {}
            for mode in MODES:
                results = index.search_many(SearchRequest([row["text"] for row in rows], k=DEPTH, mode=mode))
                found = [ndcg(result, row["relevant"]) for result, row in zip(results, rows, strict=True)]
                scores[name][mode] = round(100 * sum(found) / len(found), 2)
    write("search_modes", options, {"queries": len(rows), "ndcg_at_10": scores})


if __name__ == "__main__":
    main()
