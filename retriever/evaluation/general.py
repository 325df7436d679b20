"""A small general-purpose set: has an encoder become worse at plain search and likeness while it was fine-tuned?

The texts stand in ``general.jsonl`` and were written for this project: short documents on everyday matters, most with a
query in other words, among others on the same matter or with the same words in another sense; and pairs of sentences,
graded from 0 (nothing in common) to 5 (the same meaning). The set is small and has one rater: it tells a model that
has forgotten how to search from one that has not, and says little about small differences.

Tokens: 350 texts of some 13 tokens and 30 for the default instruction with the template, about 15,000 in all.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from retriever.core.protocols import Encoder
from retriever.core.types import Embeddings
from retriever.evaluation.metrics import cosines, spearman
from retriever.evaluation.retrieval_metrics import ranking_measures
from retriever.evaluation.scores import PERCENT, Rows, Score, combine, mean_score, score
from retriever.evaluation.suites import ScoredIds

TASK = "general"
MEASURE = "nDCG@10"

_NOTE = "default instruction"


@dataclass(frozen=True, slots=True)
class SentencePair:
    """Two sentences and how alike they are, 0 to 5."""

    first: str
    second: str
    likeness: float


@dataclass(frozen=True, slots=True)
class GeneralSet:
    """The texts.

    Attributes:
        documents: by id.
        queries: by the id of the one document that answers it; some documents have none.
    """

    documents: Mapping[str, str]
    queries: Mapping[str, str]
    pairs: tuple[SentencePair, ...]


@dataclass(frozen=True, slots=True)
class GeneralScore:
    """The scores of an encoder on the set, in percent.

    They are nDCG@10 of the queries over all documents, the Spearman correlation of cosines with the grades, and, as the
    headline, the mean of the two.
    """

    retrieval: Score
    similarity: Score
    mean: Score


def general_score(encoder: Encoder, *, seed: int = 0) -> GeneralScore:
    """Score an encoder at plain search and likeness under its default instruction.

    Every text is embedded once. Two encoders scored with one seed share their resamples, so `scores.difference` gives
    a paired interval.
    """
    texts = load_general()
    documents, queries = list(texts.documents.values()), list(texts.queries.values())
    firsts, seconds = [pair.first for pair in texts.pairs], [pair.second for pair in texts.pairs]
    vectors = encoder.encode([*documents, *queries, *firsts, *seconds])
    ends = np.cumsum([len(documents), len(queries), len(firsts)])
    searched, asked = np.split(vectors, ends)[:2]
    asked = encoder.encode_queries(queries) if encoder.spec.prompts else asked
    retrieval = _retrieval(texts, searched, asked, seed=seed)
    similarity = _similarity(texts, *np.split(vectors, ends)[2:], seed=seed)
    mean = combine(TASK, "mean", [retrieval, similarity], lambda values: values.mean(axis=0), headline=True, note=_NOTE)
    return GeneralScore(retrieval, similarity, mean)


@cache
def load_general() -> GeneralSet:
    """Return the packaged set."""
    lines = resources.files(__package__).joinpath("general.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    documents = [row for row in rows if "id" in row]
    return GeneralSet(
        {row["id"]: row["text"] for row in documents},
        {row["id"]: row["query"] for row in documents if "query" in row},
        tuple(SentencePair(row["a"], row["b"], float(row["score"])) for row in rows if "a" in row),
    )


def _retrieval(texts: GeneralSet, documents: Embeddings, queries: Embeddings, *, seed: int) -> Score:
    scores = queries @ documents.T  # (queries, documents)
    rankings: dict[str, ScoredIds] = {
        query: list(zip(texts.documents, row.tolist(), strict=True))
        for query, row in zip(texts.queries, scores, strict=True)
    }
    relevant = {query: {query: 1} for query in texts.queries}
    values = ranking_measures(rankings, relevant, [MEASURE])[MEASURE]
    note = f"{_NOTE}, {len(texts.documents)} documents"
    return mean_score(TASK, MEASURE, values, seed=seed, scale=PERCENT, note=note)


def _similarity(texts: GeneralSet, firsts: Embeddings, seconds: Embeddings, *, seed: int) -> Score:
    similarities = cosines(firsts, seconds)  # (pairs,)
    wanted = np.array([pair.likeness for pair in texts.pairs])

    def correlation(rows: Rows) -> float:
        return PERCENT * spearman(similarities[rows], wanted[rows])

    return score(TASK, "Spearman", len(wanted), correlation, seed=seed, note=_NOTE)
