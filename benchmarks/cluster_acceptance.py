r"""Do clusters follow the instruction, and do their names say what is in them?

    python benchmarks/cluster_acceptance.py DATA --output benchmarks/results/cluster_acceptance.json \\
        --page docs/clusters.md

Test reviews that no training file holds, equally many of every category and polarity, are clustered by category under
one instruction and by polarity under the other. A name is right when a keyword is the cluster's most frequent label or
one of its synonyms in cluster_synonyms.json. all-MiniLM-L6-v2 with k-means and words of the texts is the floor.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import write

from retriever import load_encoder
from retriever.clusters.clustering import Cluster, Clustering
from retriever.core.protocols import Encoder
from retriever.core.types import Document
from retriever.evaluation.labelled import LABELLED, LabelledText, balanced_sample, load_texts
from retriever.evaluation.metrics import cluster_v_measures, clustering_score, clustering_seeds, v_measure
from retriever.evaluation.rows import read_rows
from retriever.evaluation.wordings import find_wordings
from retriever.training.rows import normalise_text
from retriever.workspace import Index

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "recipes"))

from mixture import SOURCES

SYNONYMS = Path(__file__).with_name("cluster_synonyms.json")
LEFT_OUT = "neutral"
FLOOR = "minilm"
WANTED = 0.8
"""Share of clusters whose names are to be right."""

Synonyms = Mapping[str, Mapping[str, Sequence[str]]]


@dataclass(frozen=True, slots=True)
class Question:
    """A task for clusters: a label of the texts, and the instruction that asks for it."""

    criterion: str
    place: int
    instruction: str


def main() -> None:
    """Parse the options, measure, and write JSON and a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoder", default="pretrained:default")
    parser.add_argument("--limit", type=int, help="most texts; all that are balanced without it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    texts = reviews(options.data, seed=options.seed, limit=options.limit)
    synonyms = json.loads(SYNONYMS.read_text(encoding="utf-8"))
    report = {
        "corpus": corpus_facts(texts),
        "encoders": [
            measured(options.encoder, load_encoder(options.encoder), texts, synonyms, seed=options.seed),
            measured(FLOOR, load_encoder(FLOOR), texts, synonyms, seed=options.seed, instructed=False),
        ],
    }
    if options.page:
        options.page.write_text(page(report), encoding="utf-8")
    write("cluster_acceptance", options, report)


def reviews(data: Path, *, seed: int, limit: int | None = None) -> list[LabelledText]:
    """Return test reviews, equally many of every category and polarity, none of which stands in a training part."""
    seen = trained_texts(data)
    kept = [
        text
        for text in load_texts(data, LABELLED["reviews"])
        if LEFT_OUT not in text.labels and normalise_text(text.text) not in seen
    ]
    cells = Counter(text.labels for text in kept)
    even = min(cells.values())
    if limit is not None:
        even = max(1, min(even, limit // len(cells)))
    return balanced_sample(kept, even * len(cells), seed=seed)


def trained_texts(data: Path) -> set[str]:
    """Return, normalised, every text of the recipe's files that is no test row, whether it was drawn or not."""
    files = sorted({source.file for source in SOURCES})
    rows = (row for file in files for row in read_rows(data, file))
    return {normalise_text(row.get("text", str)) for row in rows if row.split != "test"}


def corpus_facts(texts: Sequence[LabelledText]) -> dict[str, Any]:
    """Return what is clustered, in numbers."""
    cells = Counter(" ".join(text.labels) for text in texts)
    return {"source": "reviews", "texts": len(texts), "cells": dict(sorted(cells.items()))}


def questions() -> list[Question]:
    """Return what the reviews are asked, with the instructions of the evaluation suites."""
    source = LABELLED["reviews"]
    return [
        Question(criterion, place, find_wordings(source.name, criterion).instruction)
        for place, criterion in enumerate(source.criteria)
    ]


def measured(
    name: str,
    encoder: Encoder,
    texts: Sequence[LabelledText],
    synonyms: Synonyms,
    *,
    seed: int,
    instructed: bool = True,
) -> dict[str, Any]:
    """Return how well an encoder's clusters find the labels again, and every cluster with its name.

    Args:
        name: of the encoder, in the report.
        encoder: the encoder.
        texts: what is clustered.
        synonyms: by criterion and label, the words that name it.
        seed: of the suite's k-means and the intervals.
        instructed: whether the encoder is given the instructions; without, one view answers all questions.
    """
    documents = [Document(f"r{row:05}", text.text) for row, text in enumerate(texts)]
    criteria = questions()
    results = []
    with tempfile.TemporaryDirectory() as folder, Index(Path(folder), encoder=encoder) as index:
        index.add(documents, instructions=[question.instruction for question in criteria] if instructed else [])
        for question in criteria:
            labels = [text.labels[question.place] for text in texts]
            clusters = index.cluster(question.instruction if instructed else "", k=len(set(labels)))
            results.append(_judged(question, clusters, labels, synonyms[question.criterion], seed))
    named = [cluster["named"] for result in results for cluster in result["clusters"]]
    return {
        "encoder": name,
        "fingerprint": encoder.fingerprint,
        "instructed": instructed,
        "questions": results,
        "named_share": round(sum(named) / len(named), 4),
    }


def _judged(
    question: Question, clustering: Clustering, labels: Sequence[str], synonyms: Mapping[str, Sequence[str]], seed: int
) -> dict[str, Any]:
    """Return what a clustering of rows with labels is worth; its documents stand in the rows' order."""
    runs = cluster_v_measures(clustering.material.vectors, labels, clustering_seeds(seed))
    suite = clustering_score(question.criterion, runs, seed=seed)
    own = v_measure(np.unique(labels, return_inverse=True)[1].astype(np.int64), clustering.labels)
    clusters = []
    for cluster in clustering.clusters:
        counts = Counter(
            label for label, number in zip(labels, clustering.labels, strict=True) if number == cluster.number
        )
        clusters.append(_described(cluster, counts, synonyms))
    return {
        "criterion": question.criterion,
        "instruction": question.instruction,
        "v_measure": {key: round(getattr(suite, key), 2) for key in ("value", "low", "high")},
        "v_measure_of_these_clusters": round(100 * own, 2),
        "clusters": clusters,
    }


def _described(cluster: Cluster, counts: Counter[str], synonyms: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    label, most = min(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    words = list(cluster.keywords or cluster.text_keywords)
    return {
        "name": cluster.label,
        "size": cluster.size,
        "label": label,
        "share": round(most / cluster.size, 4),
        "named": names_label(words, [label, *synonyms[label]]),
        "keywords": words,
        "text_keywords": list(cluster.text_keywords),
    }


def names_label(words: Sequence[str], synonyms: Sequence[str]) -> bool:
    """Return whether a word, or it without a plural's s, is among the synonyms."""
    return any(word in synonyms or word.removesuffix("s") in synonyms for word in words)


def page(found: Mapping[str, Any]) -> str:
    """Return the report as Markdown: the scores, and every cluster's name, misses included."""
    corpus, encoders = found["corpus"], found["encoders"]
    scored = [f"V-measure, {question['criterion']}" for question in encoders[0]["questions"]]
    lines = [
        "# Clusters and their names",
        "",
        "Written by `benchmarks/cluster_acceptance.py`; not edited by hand.",
        "",
        f"{corpus['texts']} test reviews, equally many of every category and polarity ({LEFT_OUT} left out), none of "
        "them in a training part of any file. As many clusters are asked for as there are labels. V-measures are those "
        "of the evaluation suites (mean of five seeds, 95 % interval), times 100. A name is right when one of the "
        "cluster's keywords is its most frequent label or a synonym from `benchmarks/cluster_synonyms.json`, which was "
        f"written before the first run; {WANTED:.0%} were to be right.",
        "",
        f"| encoder | {' | '.join(scored)} | names right |",
        "|---|" + "---|" * (len(scored) + 1),
    ]
    lines += [_score_row(encoder) for encoder in encoders]
    for encoder in encoders:
        for question in encoder["questions"]:
            lines += ["", f"## {encoder['encoder']}, by {question['criterion']}", ""]
            lines += [f"> {question['instruction']}", ""] if encoder["instructed"] else ["Without instruction.", ""]
            lines += ["| cluster | documents | most frequent label | right | keywords |", "|---|---|---|---|---|"]
            lines += [_cluster_row(cluster) for cluster in question["clusters"]]
    return "\n".join(lines) + "\n"


def _score_row(encoder: Mapping[str, Any]) -> str:
    scores = (
        "{value:.1f} [{low:.1f}, {high:.1f}]".format(**question["v_measure"]) for question in encoder["questions"]
    )
    return f"| {encoder['encoder']} | {' | '.join(scores)} | {encoder['named_share']:.0%} |"


def _cluster_row(cluster: Mapping[str, Any]) -> str:
    words = ", ".join(cluster["keywords"]).replace("|", "\\|")
    right = "yes" if cluster["named"] else "no"
    label = f"{cluster['label']} ({cluster['share']:.0%})"
    return f"| {cluster['name']} | {cluster['size']} | {label} | {right} | {words} |"


if __name__ == "__main__":
    main()
