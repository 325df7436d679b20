"""The multilingual encoder over reviews in five languages: search, groups and their words, report, teaching."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from retriever import load_encoder
from retriever.clusters.categories import Category
from retriever.clusters.comparing import compare_ranks
from retriever.clusters.groups import groups_of
from retriever.clusters.index_numbers import numbers_of
from retriever.clusters.report import make_report, model_names
from retriever.core.languages import language
from retriever.core.types import Document
from retriever.encoders.sources import is_installed
from retriever.index.indexing import IndexingOptions
from retriever.workspace import Index

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not is_installed("multilingual-e5-small"), reason="retriever models fetch multilingual"),
]

ROOT = Path(__file__).parents[2]
CODES = ("de", "fr", "es", "pt", "ja")
PRODUCT = {
    "de": "Um welches Produkt geht es?",
    "fr": "De quel produit s'agit-il ?",
    "es": "¿De qué producto se trata?",
    "pt": "De que produto se trata?",
    "ja": "どの商品についてですか",
}
NAMES = {
    "de": ["Kochmesser", "Ohrhörer", "Saugroboter", "Zelt", "Wanderstiefel"],
    "fr": ["couteau de chef", "écouteurs", "aspirateur robot", "tente", "chaussures de randonnée"],
    "es": ["cuchillo de chef", "auriculares", "robot aspirador", "tienda de campaña", "botas de montaña"],
    "pt": ["faca de chef", "fones de ouvido", "robô aspirador", "barraca", "botas de trilha"],
    "ja": ["包丁", "イヤホン", "ロボット掃除機", "テント", "登山靴"],
}
KINDS = ["Knife", "Earbuds", "Vacuum", "tent", "boots"]


def read(name):
    with gzip.open(ROOT / f"benchmarks/data/multilingual_{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


TEXTS, QUERIES = read("texts"), read("queries")
with (ROOT / "examples/reviews.jsonl").open(encoding="utf-8") as lines:
    EXAMPLES = {row["id"]: row for row in map(json.loads, lines)}


def documents(code):
    return [
        Document(row["id"], row[code], {name: EXAMPLES[row["id"]][name] for name in ("stars", "category", "date")})
        for row in TEXTS
    ]


@pytest.fixture(scope="module")
def encoder():
    return load_encoder("multilingual", device="cpu")


@pytest.fixture(scope="module", params=CODES)
def index(request, encoder, tmp_path_factory):
    """Give an index of the reviews in one language, which it heard by itself."""
    with Index(tmp_path_factory.mktemp(request.param) / "index", encoder=encoder) as made:
        made.add(documents(request.param), options=IndexingOptions(language="auto"))
        assert made.status().language == request.param
        yield made


def found(index, code, mode):
    """Return the share of queries that have a relevant review among the first five."""
    hits = [{hit.document.id for hit in index.search(query[code], k=5, mode=mode).hits} for query in QUERIES]
    return np.mean([not ids.isdisjoint(query["relevant"]) for ids, query in zip(hits, QUERIES, strict=True)])


def test_meanings_are_near_across_languages_and_others_far(encoder):
    battery = ["The battery died after two days.", "Der Akku war nach zwei Tagen leer.", "電池が二日で切れた。"]
    soup = ["The soup was salty and cold.", "Die Suppe war versalzen und kalt.", "スープは塩辛くて冷めていた。"]
    near, far = (encoder.encode(battery) @ encoder.encode(texts).T for texts in (battery, soup))
    others = ~np.eye(3, dtype=bool)  # in another language
    assert (near - far)[others].min() > 0.05
    assert encoder.spec.prompts.before_query() == "query: "


def test_numpy_and_torch_read_it_alike(encoder):
    texts = [f"passage: {row['ja']}" for row in TEXTS[:6]]
    rows = dict(pair for read, vectors in encoder.model.read_queries(texts) for pair in zip(read, vectors, strict=True))
    queries = np.stack([rows[row] / np.linalg.norm(rows[row]) for row in range(6)])
    assert (queries * encoder.encode([row["ja"] for row in TEXTS[:6]])).sum(axis=1).min() > 0.999


def test_reviews_are_found_in_their_language_and_by_english_queries(index):
    code = index.status().language
    assert found(index, code, "hybrid") >= 0.7
    assert found(index, code, "lexical") >= 0.5
    assert found(index, "en", "dense") >= 0.5


def test_groups_have_words_that_say_something_and_a_report(index):
    spoken = language(index.status().language)
    clustering = index.cluster(k=4)
    words = [word for cluster in clustering.clusters for word in cluster.text_keywords]
    assert words and not spoken.stop.intersection(words)
    counted = numbers_of(index, groups_of(clustering), ["category"])
    status = index.status()
    report = make_report(clustering, counted, model_names(status.encoder, status.plain))
    quotes = [quote for section in report.sections for quote in section.quotes]
    texts = {document.id: document.text for document in documents(status.language)}
    assert quotes and all(quote.text[:20] in texts[quote.id] for quote in quotes)


def test_reviews_go_to_given_names_under_a_question(index):
    code = index.status().language
    clustering = index.cluster(PRODUCT[code], into=[Category(name) for name in NAMES[code]])
    labels = {cluster.number: cluster.label for cluster in clustering.clusters}
    right = [
        EXAMPLES[id]["product"].endswith(KINDS[NAMES[code].index(labels[number])])
        for id, number in clustering.assignments.items()
        if number in labels and EXAMPLES[id]["product"].split()[-1] in KINDS
    ]
    assert len(right) >= 20 and np.mean(right) > 0.5  # by chance a fifth


def test_a_question_is_taught_and_two_are_compared(index):
    code = index.status().language
    question = PRODUCT[code]
    examples = [
        (row["id"], NAMES[code][KINDS.index(kind)])
        for row in TEXTS
        for kind in KINDS[1:4]
        if EXAMPLES[row["id"]]["product"].split()[-1] == kind
    ]
    lessons = index.teaching.teach(question, examples)
    assert lessons.after.value > 0.4  # by chance a third
    plain, asked = (index.search(QUERIES[2][code], k=5, instruction=each) for each in (None, question))
    assert {move.hit.document.id for move in compare_ranks(plain, asked).moved} == {*plain.ids, *asked.ids}
