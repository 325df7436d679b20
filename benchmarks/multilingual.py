"""How well reviews are found in languages other than English, and across languages, by either base encoder.

    python benchmarks/multilingual.py --output benchmarks/results/multilingual.json

Sixty reviews of ``examples/reviews.jsonl`` and twenty queries, each in six languages (`benchmarks/data/README.md`).
Which reviews answer a query was judged once, on the English ones. Each language is an index of its own, searched with
queries in that language by vectors, by words and by both; words also as an index of English texts has them. Then the
vectors are searched with the English queries, and their clusters compared with the categories of the products.
"""

import argparse
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from common import documents_of, write
from sklearn.metrics import normalized_mutual_info_score

from retriever.core.protocols import Encoder
from retriever.core.requests import SearchRequest
from retriever.core.types import Document
from retriever.evaluation.retrieval_metrics import ranking_measures
from retriever.evaluation.scores import mean_score
from retriever.index.indexing import IndexingOptions
from retriever.index.sources.encoders import load_base
from retriever.workspace import Index

DATA = Path(__file__).parent / "data"
LANGUAGES = ("en", "de", "fr", "es", "pt", "ja")
BASES = ("minilm", "multilingual")
K = 10
MODES = ("dense", "lexical", "hybrid")
EXAMPLES = Path(__file__).parents[1] / "examples" / "reviews.jsonl"
CATEGORIES = {str(document.id): str(document.metadata["category"]) for document in documents_of(EXAMPLES)}

Row = Mapping[str, Any]


def read(name: str) -> list[Row]:
    """Return the rows of a data file."""
    with gzip.open(DATA / f"multilingual_{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def score(index: Index, queries: Sequence[Row], asked: str, mode: str) -> dict[str, float]:
    """Return nDCG@10 of the queries as they are asked in a language, in hundredths, with the interval of its mean."""
    requests = [SearchRequest(query[asked], k=K, mode=mode) for query in queries]  # type: ignore[arg-type]
    rankings = {
        query["id"]: [(hit.document.id, -float(place)) for place, hit in enumerate(result.hits)]
        for query, result in zip(queries, index.search_many(requests), strict=True)
    }
    relevant = {query["id"]: dict.fromkeys(query["relevant"], 1) for query in queries}
    values = ranking_measures(rankings, relevant, ["nDCG@10"])["nDCG@10"]
    mean = mean_score("multilingual", "nDCG@10", values, seed=0, scale=100.0)
    return {name: round(getattr(mean, name), 1) for name in ("value", "low", "high")}


def measured(encoder: Encoder, language: str, spoken: str, queries: Sequence[Row], texts: Sequence[Row]) -> Row:
    """Return the scores of an index of the texts in a language, whose words are searched as ``spoken`` ones.

    Of its clusters, as many as categories, it is the normalised mutual information with these, in hundredths.
    """
    with TemporaryDirectory() as folder, Index(Path(folder) / "index", encoder=encoder) as index:
        documents = [Document(text["id"], text[language]) for text in texts]
        index.add(documents, options=IndexingOptions(language=spoken))
        scores = {mode: score(index, queries, language, mode) for mode in MODES}
        scores["dense, English queries"] = score(index, queries, "en", "dense")
        assigned = index.cluster(k=len(set(CATEGORIES.values()))).assignments
        by_category = zip(*((CATEGORIES[id], cluster) for id, cluster in assigned.items()), strict=True)
        return {**scores, "clusters": round(100 * float(normalized_mutual_info_score(*by_category)), 1)}


def main() -> None:
    """Measure every language with every base encoder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    texts, queries = read("texts"), read("queries")
    report: dict[str, Any] = {"texts": len(texts), "queries": len(queries), "bases": {}}
    for name in BASES:
        encoder = load_base(name, device="cpu")
        scores = {language: measured(encoder, language, language, queries, texts) for language in LANGUAGES}
        report["bases"][name] = {"fingerprint": encoder.fingerprint, "languages": scores}
    as_english = {language: measured(encoder, language, "en", queries, texts)["lexical"] for language in LANGUAGES[1:]}
    write("multilingual", options, {**report, "words_as_english": as_english})


if __name__ == "__main__":
    main()
