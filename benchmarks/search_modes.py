"""Which search serves best without an instruction: by vectors, by words, by both, or by a rule that picks one of them.

    python benchmarks/search_modes.py DATA --output benchmarks/results/search_modes.json

Five labelled corpora of different kind are searched: passages by the questions they answer (MS MARCO), restaurant and
product reviews by what an analyst would ask for in words of his own (`own_words.json`), sections of stories by
questions on them (FairytaleQA), customers' questions by others with the same intent (BANKING77). A rule picks a mode
for every query. The one to ship loses least where it loses most against the best single mode of a corpus; among those
that lose hardly more, the simplest. `retriever.index.search.ranker` follows it, and a test compares the two.
Hybrid search is measured under several weights of the words, of which `SearchOptions` has one.

The same corpora with texts of any length say what the windows of long texts are worth (`retriever.corpus.windows`):
each is searched once by the vectors of whole texts alone, and once by those of their windows too.
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
from common import write

from retriever import load_encoder
from retriever.core.protocols import Encoder
from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.results import SearchResult
from retriever.core.types import Document
from retriever.evaluation.labelled import LABELLED, balanced_sample, load_texts
from retriever.evaluation.retrieval_metrics import ranking_measures
from retriever.evaluation.rows import read_rows, sample, split_of
from retriever.evaluation.scores import Score, difference, mean_score
from retriever.evaluation.suites import DataFile
from retriever.index.sources.encoders import DEFAULT_BASE
from retriever.index.sources.read import Plain
from retriever.store.word_index import match_expression
from retriever.workspace import Index

K = 10
TEXTS = 300
MOST_WORDS = 130  # of a text, where rules are compared
RARE = 0.05  # a word in at most this share of the texts is rare
SLACK = 1.0  # points of nDCG@10 that a simpler rule may lose more
WEIGHTS = (0.1, 0.15, 0.2, 0.25, 0.3)
MEASURES = {"ndcg_at_10": "nDCG@10", "precision_at_10": "P@10"}

Single = Literal["dense", "lexical", "hybrid"]
SINGLE: tuple[Single, ...] = ("dense", "lexical", "hybrid")


@dataclass(frozen=True, slots=True)
class Labelled:
    """A corpus with labelled queries.

    Attributes:
        texts: by id.
        queries: by id.
        relevant: per query, the ids of its texts.
    """

    texts: Mapping[str, str]
    queries: Mapping[str, str]
    relevant: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Words:
    """Facts of a query that a rule may know before the search: which of the corpus's texts hold each of its words."""

    holders: Sequence[frozenset[str]]
    texts: int

    @cached_property
    def any(self) -> int:
        """Texts that hold any of the words."""
        return len(frozenset[str]().union(*self.holders))

    @cached_property
    def all(self) -> int:
        """Texts that hold all of them."""
        return len(frozenset.intersection(*self.holders)) if self.holders else 0

    @property
    def rare(self) -> bool:
        """Whether one of the words is there, and rare."""
        return any(0 < len(ids) <= RARE * self.texts for ids in self.holders)


RULES: Mapping[str, Callable[[Words], Single]] = {
    "dense": lambda words: "dense",
    "lexical": lambda words: "lexical",
    "hybrid": lambda words: "hybrid",
    "words while any are found": lambda words: "lexical" if words.any >= K else "hybrid",
    "words where all are found": lambda words: "lexical" if words.all >= K else "hybrid",
    "words have a vote where one is rare": lambda words: "hybrid" if words.rare else "dense",
}
"""The simplest first; the fourth is what `auto` did before this was measured."""


def corpora(data: Path, most: float = MOST_WORDS) -> Iterator[tuple[str, Labelled]]:
    """Yield every corpus with its name, of texts of at most so many words."""
    own = json.loads((Path(__file__).parent / "own_words.json").read_text())
    yield "passages", passages(data, most)
    yield "restaurants", by_labels(restaurants(data), own["restaurants"])
    yield "products", by_labels(products(data, most), own["products"])
    yield "stories", stories(data, most)
    yield "questions", questions(data)


def passages(data: Path, most: float) -> Labelled:
    """Return passages, every second of them with the question it answers."""
    texts = {row.get("id", str): row.get("text", str) for row in read_rows(data, DataFile.PASSAGES)}
    chosen = sample([key for key in texts if len(texts[key].split()) <= most], TEXTS, seed=0)
    queries = {}
    for row in read_rows(data, DataFile.WEB_QUERIES):
        ids = row.get("relevant", list)
        if held := [key for key in ids if key in chosen[::2]]:
            queries[row.get("id", str)] = (row.get("text", str), held)
    return Labelled({key: texts[key] for key in chosen}, *_parted(queries))


def restaurants(data: Path) -> dict[str, tuple[str, set[tuple[str, ...]]]]:
    """Return sentences on restaurants by id, each with all pairs of aspect and polarity that it holds."""
    rows = sample(read_rows(data, DataFile.RESTAURANTS), TEXTS, seed=0)
    return {
        row.get("id", str): (
            row.get("text", str),
            {(aspect["aspect"], aspect["polarity"]) for aspect in row.values["aspects"]},
        )
        for row in rows
    }


def products(data: Path, most: float) -> dict[str, tuple[str, set[tuple[str, ...]]]]:
    """Return held-out product reviews by number, as many of every kind of product and mood, with these two labels."""
    texts = [text for text in load_texts(data, LABELLED["reviews"]) if len(text.text.split()) <= most]
    return {f"{row:03}": (text.text, {text.labels}) for row, text in enumerate(balanced_sample(texts, TEXTS, seed=0))}


def by_labels(texts: Mapping[str, tuple[str, set[tuple[str, ...]]]], own: Sequence[Mapping[str, Any]]) -> Labelled:
    """Return the texts with queries for a label or a pair of labels; an empty label stands for any."""
    queries = {}
    for number, entry in enumerate(own):
        ids = [
            id
            for id, (_, labels) in texts.items()
            if any(all(want in ("", has) for want, has in zip(entry["labels"], held, strict=True)) for held in labels)
        ]
        queries |= {f"{number:02}-{place}": (query, ids) for place, query in enumerate(entry["queries"]) if ids}
    return Labelled({id: text for id, (text, _) in texts.items()}, *_parted(queries))


def stories(data: Path, most: float) -> Labelled:
    """Return sections of held-out stories, each with its first question."""
    by_text = {}
    for row in read_rows(data, DataFile.STORIES):
        text = row.get("text", str)
        if split_of(row.get("meta.story", str)) == "test" and len(text.split()) <= most:
            by_text.setdefault(text, row.get("question", str))
    chosen = sample(list(by_text), TEXTS, seed=0)
    texts = {f"{number:03}": text for number, text in enumerate(chosen)}
    return Labelled(texts, {id: by_text[text] for id, text in texts.items()}, {id: [id] for id in texts})


def questions(data: Path) -> Labelled:
    """Return customers' questions, four of every intent, searched by two others of it."""
    intents: dict[str, dict[str, str]] = {}
    for row in read_rows(data, DataFile.INTENTS):
        if row.split == "test":
            intents.setdefault(row.get("labels.intent", str), {})[row.get("id", str)] = row.get("text", str)
    texts: dict[str, str] = {}
    queries = {}
    for held in intents.values():
        first, others = list(held)[:4], list(held)[4:6]
        texts |= {id: held[id] for id in first}
        queries |= {id: (held[id], first) for id in others}
    return Labelled(texts, *_parted(queries))


def _parted(queries: Mapping[str, tuple[str, Sequence[str]]]) -> tuple[dict[str, str], dict[str, Sequence[str]]]:
    """Return queries, and their relevant texts, by id."""
    return {id: query for id, (query, _) in queries.items()}, {id: ids for id, (_, ids) in queries.items()}


def measure(encoder: Encoder, corpus: Labelled) -> dict[str, Any]:
    """Return the scores of every rule on one corpus, and hybrid search against the best single mode."""
    texts = list(corpus.queries.values())
    with TemporaryDirectory() as folder, Index(Path(folder) / "index", encoder=encoder) as index:
        index.add(Document(id, text) for id, text in corpus.texts.items())
        single = {mode: index.search_many([SearchRequest(text, k=K, mode=mode) for text in texts]) for mode in SINGLE}
        known = [words(index, corpus, text) for text in texts]
        hybrid = {weight: searched(index, texts, weight) for weight in WEIGHTS}
    scores: dict[str, dict[str, Score]] = {}
    picks: dict[str, float] = {}
    for name, rule in RULES.items():
        modes = [rule(own) for own in known]
        scores[name] = scored(corpus, [single[mode][row] for row, mode in enumerate(modes)])
        picks[name] = round(100 * float(np.mean([mode == "lexical" for mode in modes])), 1)
    best = max(SINGLE, key=lambda mode: scores[mode]["ndcg_at_10"].value)
    against = difference(scores["hybrid"]["ndcg_at_10"], scores[best]["ndcg_at_10"])
    return {
        "texts": len(corpus.texts),
        "queries": len(texts),
        **{key: {name: round(score[key].value, 1) for name, score in scores.items()} for key in MEASURES},
        "words_alone_percent": picks,
        "hybrid_by_word_weight": {
            str(weight): round(scored(corpus, results)["ndcg_at_10"].value, 1) for weight, results in hybrid.items()
        },
        "best_single": best,
        "hybrid_less_best": [round(value, 1) for value in (against.value, against.low, against.high)],
    }


def scored(corpus: Labelled, results: Sequence[SearchResult]) -> dict[str, Score]:
    """Return the score by every measure of one answer a query."""
    rankings = {
        id: [(hit.document.id, hit.fused) for hit in result.hits]
        for id, result in zip(corpus.queries, results, strict=True)
    }
    judged = {id: dict.fromkeys(corpus.relevant[id], 1) for id in corpus.queries}
    values = ranking_measures(rankings, judged, list(MEASURES.values()))
    return {key: mean_score(key, measure, values[measure], seed=0, scale=100) for key, measure in MEASURES.items()}


def windows_worth(encoder: Encoder, corpus: Labelled) -> dict[str, Any]:
    """Return nDCG@10 and precision@10 by vectors and by both, of whole texts alone and of their windows too."""
    scores: dict[str, dict[str, dict[str, float]]] = {}
    vectors = 0
    for name, windowed in (("whole", False), ("windows", True)):
        with (
            TemporaryDirectory() as folder,
            patch.object(Plain, "windowed", windowed),
            Index(Path(folder) / "index", encoder=encoder) as index,
        ):
            index.add(Document(id, text) for id, text in corpus.texts.items())
            vectors = index.views()[0].windows
            for mode in SINGLE:
                results = index.search_many([SearchRequest(text, k=K, mode=mode) for text in corpus.queries.values()])
                for key, score in scored(corpus, results).items():
                    scores.setdefault(key, {}).setdefault(name, {})[mode] = round(score.value, 1)
    return {
        "texts": len(corpus.texts),
        "queries": len(corpus.queries),
        "windows_a_text": round(vectors / len(corpus.texts), 2),
        **scores,
    }


def searched(index: Index, texts: Sequence[str], weight: float) -> list[SearchResult]:
    """Return the answers of hybrid search where a point of BM25 weighs as much."""
    with Index(
        index.path, encoder=index._opened.sources.encoders.question, search_options=SearchOptions(word_weight=weight)
    ) as other:
        return other.search_many([SearchRequest(text, k=K, mode="hybrid") for text in texts])


def words(index: Index, corpus: Labelled, query: str) -> Words:
    """Return which texts hold the words that a search for the query looks for."""
    telling = [word.strip('"') for word in match_expression(query).split(" OR ") if word]
    searches = [index.search(word, k=len(corpus.texts), mode="lexical").hits for word in telling]
    return Words([frozenset(hit.document.id for hit in hits) for hits in searches], len(corpus.texts))


def choose(found: Mapping[str, Mapping[str, Any]]) -> tuple[str, dict[str, float]]:
    """Return the rule to ship, and how far each is behind the best single mode where it is furthest behind.

    Args:
        found: by corpus, from `measure`.
    """
    worst = {
        rule: round(
            max(
                max(corpus["ndcg_at_10"][mode] for mode in SINGLE) - corpus["ndcg_at_10"][rule]
                for corpus in found.values()
            ),
            1,
        )
        for rule in RULES
    }
    return next(rule for rule in RULES if worst[rule] <= min(worst.values()) + SLACK), worst


def main() -> None:
    """Parse the options, measure every corpus, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoder", default=DEFAULT_BASE)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    encoder = load_encoder(options.encoder)
    measured = {name: measure(encoder, corpus) for name, corpus in corpora(options.data)}
    chosen, worst = choose(measured)
    report = {
        "command": f"python benchmarks/search_modes.py DATA --encoder {options.encoder}",
        "fingerprint": encoder.fingerprint,
        "chosen": chosen,
        "points_behind_at_worst": worst,
        "corpora": measured,
        "any_length": {name: windows_worth(encoder, corpus) for name, corpus in corpora(options.data, math.inf)},
    }
    write("search_modes", options, report)


if __name__ == "__main__":
    main()
