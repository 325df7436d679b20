import json
from collections import Counter
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def rows(name):
    return [json.loads(line) for line in (EXAMPLES / name).read_text(encoding="utf-8").splitlines()]


def test_reviews_are_many_different_and_complete():
    reviews = rows("reviews.jsonl")
    assert len(reviews) >= 200
    assert len({review["id"] for review in reviews}) == len({review["text"] for review in reviews}) == len(reviews)
    assert len({review["product"] for review in reviews}) >= 10
    assert len({review["category"] for review in reviews}) == 4
    assert all(10 <= len(review["text"].split()) <= 150 for review in reviews)
    assert all(set(review) == {"id", "text", "product", "category", "stars", "date"} for review in reviews)
    assert set(Counter(review["stars"] for review in reviews)) == {1, 2, 3, 4, 5}


def test_questions_are_about_the_reviews_and_answers_are_short():
    texts = {review["text"] for review in rows("reviews.jsonl")}
    questions = rows("qa.jsonl")
    assert len(questions) >= 150
    assert all(row["text"] in texts and row["question"] and 1 <= len(row["answer"].split()) <= 6 for row in questions)
    assert len({(row["text"], row["question"]) for row in questions}) == len(questions)
