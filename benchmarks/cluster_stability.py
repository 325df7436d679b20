"""Do clusters hold when the same texts are embedded in another number format, which stands for another processor?

    python benchmarks/cluster_stability.py CORPUS.jsonl --output benchmarks/results/cluster_stability.json

Texts of the examples and of a corpus are embedded under a few questions, in bfloat16 and in float32. Both are clustered
at the number of clusters that `choose_k` finds for the first, and at fixed numbers; the adjusted Rand index says how
far they agree. How far the vectors moved is told as a share of their distance from the mean.
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
    "How does the customer feel about it?",
    "What kind of product is this review about?",
    "What broke?",
    "Who is it for?",
)
FIXED = (2, 3, 5, 8)
CHOSEN = "chosen"
ROUNDED = 3


def main() -> None:
    """Parse the options, embed and cluster everything, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--texts", type=int, default=224)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    encoders = [load_encoder("pretrained:default", dtype=dtype) for dtype in ("bfloat16", "float32")]
    views = list(measured(encoders, options))
    report = {"fingerprint": encoders[0].fingerprint, "means": means(views), "views": views}
    write("cluster_stability", options, report)


def measured(encoders: Sequence[Encoder], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield how far the two encoders' clusters agree for every corpus under every question."""
    for corpus in (EXAMPLES, options.corpus):
        texts = read_texts(corpus, options.texts)
        pairs = zip(*(encoder.encode_many(texts, QUESTIONS) for encoder in encoders), strict=True)
        for question, (usual, again) in zip(QUESTIONS, pairs, strict=True):
            first, second = choose_k(usual), choose_k(again)
            view: dict[str, Any] = {"corpus": corpus.name, "texts": len(texts), "question": question}
            view |= {"k": [first.k, second.k], "holds": first.holds, "moved": moved(usual, again)}
            view |= {str(k): agreement(usual, again, k) for k in FIXED}
            view[CHOSEN] = agreement(usual, again, first.k)
            print(view, flush=True)
            yield view


def moved(usual: Embeddings, again: Embeddings) -> float:
    """Return the mean distance of the two vectors of a text, as a share of its distance from the mean of all."""
    reach = np.linalg.norm(usual - usual.mean(axis=0), axis=1)
    distances = np.linalg.norm(usual - again, axis=1)
    return round(float((distances / np.maximum(reach, 1e-6)).mean()), ROUNDED)


def agreement(usual: Embeddings, again: Embeddings, k: int) -> float:
    """Return the adjusted Rand index of the two clusterings."""
    labels = [spherical_kmeans(vectors, k).labels for vectors in (usual, again)]
    return round(float(adjusted_rand_score(*labels)), ROUNDED)


def means(views: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the lowest and the mean agreement over all views, and at the chosen k over those that hold."""
    groups = {name: [view[name] for view in views] for name in (CHOSEN, *map(str, FIXED))}
    groups["chosen, where it holds"] = [view[CHOSEN] for view in views if view["holds"]]
    return {
        name: {"lowest": min(values), "mean": round(float(np.mean(values)), ROUNDED)}
        for name, values in groups.items()
        if values
    }


if __name__ == "__main__":
    main()
