import json
from pathlib import Path

import pytest

from retriever.clusters.contradictions import against_ratings, contradictions, mixed, mood
from retriever.core.types import Document

REVIEWS = Path(__file__).parents[2] / "examples/reviews.jsonl"


@pytest.fixture(scope="module")
def reviews():
    rows = map(json.loads, REVIEWS.read_text().splitlines())
    return [Document(row.pop("id"), row.pop("text"), row) for row in rows]


def by(documents, value):
    """Return the names of groups by a value, and the places of the documents."""
    names = dict(enumerate(sorted({value(document) for document in documents})))
    numbers = {name: number for number, name in names.items()}
    return names, {document.id: (numbers[value(document)],) for document in documents}


def felt(document):
    stars = document.metadata["stars"]
    return "angry" if stars <= 2 else "happy" if stars >= 4 else "mixed feelings"


@pytest.mark.parametrize(
    ("name", "side"),
    [
        ("angry", -1),
        ("Disappointed / poor", -1),
        ("happy / great", 1),
        ("not happy", 0),
        ("good / bad", 0),
        ("kitchen", 0),
        ("madeira", 0),
    ],
)
def test_the_mood_of_a_name(name, side):
    assert mood(name) == side


def test_ratings_against_a_mood_are_counted():
    ratings = [5] * 8 + [4] * 5 + [1] * 18 + [None] * 4
    assert against_ratings("angry", ratings) == "13 of 31 gave 4 stars or more: read them first."
    assert against_ratings("happy", [1, 2, 1, 5, 5]) == "3 of 5 gave 2 stars or fewer: read them first."
    assert against_ratings("angry", [8, 9, 10, 1], 10) == "3 of 4 gave 8 stars or more: read them first."


@pytest.mark.parametrize(
    ("name", "ratings"),
    [("kitchen", [5, 5, 5]), ("angry", [5, 5, 1]), ("angry", [5] * 3 + [1] * 10), ("happy", [4] * 9), ("sad", [])],
)
def test_ratings_that_agree_or_are_few_say_nothing(name, ratings):
    assert against_ratings(name, ratings) == ""


def test_a_group_of_which_no_value_has_half_is_mixed_and_what_its_name_says_comes_first():
    values = ["outdoor"] * 5 + ["toy"] * 4 + ["kitchen"] * 3
    said = "By category they are mixed: kitchen 3, outdoor 5, toy 4, of 12; none has half."
    assert mixed("kitchen / home", "category", values) == said
    assert mixed("kitchen", "category", ["kitchen"] * 6 + ["toy"] * 3 + ["outdoor"] * 3) == ""
    assert mixed("kitchen", "category", ["toy", "outdoor", "kitchen"]) == ""


@pytest.mark.parametrize("value", [lambda each: each.metadata["category"], lambda each: each.metadata["product"], felt])
def test_true_groups_of_the_example_reviews_raise_no_alarm(reviews, value):
    assert contradictions(*_asked(reviews, value), "stars") == {}


def test_false_groups_of_the_example_reviews_do(reviews):
    kinds = {"kitchen": "home / kitchen", "outdoor": "home / kitchen", "electronics": "home / kitchen"}
    names, documents, places = _asked(reviews, lambda each: kinds.get(each.metadata["category"], "toys"))
    found = contradictions(names, documents, places, "stars")
    assert [names[number] for number in found] == ["home / kitchen"]
    assert "By category they are mixed: kitchen" in found[0]
    turned = _asked(reviews, lambda each: "happy" if each.metadata["stars"] <= 2 else "angry")
    assert len(contradictions(*turned, "stars")) == 2


def test_groups_of_texts_in_several_languages_are_not_mixed_and_one_in_a_single_language_may_be():
    def group(name, places, languages, products):
        rows = zip(languages, products, strict=True)
        return [
            (Document(f"{name}-{row}", "", {"language": spoken, "product": product}), places)
            for row, (spoken, product) in enumerate(rows)
        ]

    leaks = group("leaks", (0,), ["de", "fr", "es"] * 8, ["kettle"] * 24)
    german = group("german", (1,), ["de"] * 24, ["lamp", "bag", "toy"] * 8)
    documents, places = [each for each, _ in leaks + german], {each.id: place for each, place in leaks + german}
    said = contradictions({0: "undicht", 1: "gut"}, documents, places)
    assert said == {1: "By product they are mixed: bag 8, lamp 8, toy 8, of 24; none has half."}


def test_documents_without_metadata_or_groups_say_nothing():
    bare = [Document("a", "x"), Document("b", "y")]
    assert contradictions({0: "angry"}, bare, {"a": (0,)}, "stars") == {}
    assert contradictions({0: "angry"}, [], {}) == {}


def _asked(documents, value):
    names, places = by(documents, value)
    return names, documents, places
