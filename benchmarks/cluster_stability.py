"""Do clusters hold when the same texts are embedded again, in batches of another size, whose rounding differs?

    python benchmarks/cluster_stability.py CORPUS.jsonl --output benchmarks/results/cluster_stability.json

Texts of the examples and of a corpus are embedded under three questions each, once as usual and then in batches of
other sizes. Both are clustered at the number of clusters that `choose_k` finds for the first, and at 8; the adjusted
Rand index says how far they agree.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import read_texts, write
from sklearn.metrics import adjusted_rand_score

from retriever import load_encoder
from retriever.clusters.arithmetic.choice import choose_k
from retriever.clusters.arithmetic.kmeans import spherical_kmeans
from retriever.core.protocols import Encoder
from retriever.core.types import Embeddings

EXAMPLES = Path(__file__).parents[1] / "examples" / "reviews.jsonl"
QUESTIONS = (
    "What kind of product is this review about?",
    "How does the customer feel about it?",
    "Who was it bought for?",
)
SIZES = (3, 5, 17, 29)
K = 8
CHOSEN = "chosen"
ROUNDED = 3


def main() -> None:
    """Parse the options, embed and cluster everything, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    encoder = load_encoder("pretrained:default")
    views = list(measured(encoder, options))
    report = {"fingerprint": encoder.fingerprint, "means": means(views), "views": views}
    write("cluster_stability", options, report)


def measured(encoder: Encoder, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield what was found for every corpus under every question."""
    for corpus in (EXAMPLES, options.corpus):
        texts = read_texts(corpus, options.texts)
        for question in QUESTIONS:
            usual = encoder.encode(texts, instruction=question)
            again = [encoder.encode(texts, instruction=question, batch_size=size) for size in SIZES]
            found: dict[str, Any] = {"corpus": corpus.name, "texts": len(texts), "question": question}
            found["k"] = [choose_k(vectors).k for vectors in (usual, *again)]
            for name, k in ((CHOSEN, found["k"][0]), (str(K), K)):
                found[name] = agreement(usual, again, k)
            print(found, flush=True)
            yield found


def agreement(usual: Embeddings, again: Sequence[Embeddings], k: int) -> list[float]:
    """Return the adjusted Rand index of every other clustering with the usual one."""
    first, *others = (spherical_kmeans(vectors, k).labels for vectors in (usual, *again))
    return [round(float(adjusted_rand_score(first, labels)), ROUNDED) for labels in others]


def means(views: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return for both numbers of clusters the lowest and the mean agreement over all views."""
    report = {}
    for name in (CHOSEN, str(K)):
        found = np.array([view[name] for view in views])
        report[name] = {"lowest": float(found.min()), "mean": round(float(found.mean()), ROUNDED)}
    return report


if __name__ == "__main__":
    main()
