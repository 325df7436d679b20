import pytest

from retriever.core.types import Document
from retriever.corpus.columns import Columns, iso_date, normalised, recognise, star_value

LONG = "It boils a full litre in two minutes."


def test_columns_are_told_by_their_names():
    rows = [
        {"Review Text": f"{LONG} {row}", "review_id": f"r{row}", "ASIN": "B1", "Rating": 4, "Review-Date": "2024-05-31"}
        for row in range(3)
    ]
    assert recognise(rows) == Columns("Review Text", "review_id", "ASIN", "", "Rating", "Review-Date")


def test_nested_names_count_by_their_last_part():
    row = {"text": LONG, "labels.stars": 3, "meta.product_name": "Kettle", "meta.category": "kitchen"}
    assert recognise([row]) == Columns(
        "text", product="meta.product_name", category="meta.category", stars="labels.stars"
    )


def test_without_a_known_name_the_longest_column_is_the_text():
    rows = [{"short": "some words are in here", "what they wrote": LONG, "n": 1}]
    assert recognise(rows).text == "what they wrote"


def test_a_long_product_name_is_no_text():
    row = {"product": "Brellick Swift 1.7L Electric Kettle", "stars": 4}
    assert recognise([row]) == Columns(product="product", stars="stars")


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("stars", ["good", "bad"]),
        ("rating", [48, 97]),
        ("date", ["today", "last week"]),
        ("id", ["a", "a"]),
        ("text", [1, 2]),
    ],
)
def test_a_name_is_not_enough(column, values):
    assert recognise([{column: value} for value in values]) == Columns()


def test_a_few_values_of_another_kind_do_no_harm():
    rows = [{"stars": 4}, {"stars": 5}, {"stars": 1}, {"stars": 2}, {"stars": "n/a"}, {"stars": None}]
    assert recognise(rows).stars == "stars"
    assert recognise([]) == Columns()


@pytest.mark.parametrize(
    ("value", "stars"),
    [
        (4, 4), (4.5, 4.5), (4.0, 4), ("4", 4), (" 4.5 ", 4.5), ("4 out of 5 stars", 4), ("3/5", 3), ("5 Stars", 5),
        (0, 0), (11, None), (-1, None), (True, None), ("good", None), ("4 people", None), (None, None), ([4], None),
    ],
)  # fmt: skip
def test_stars_become_numbers(value, stars):
    assert star_value(value) == stars
    assert type(star_value(value)) is type(stars)


@pytest.mark.parametrize(
    ("value", "day"),
    [
        ("2024-05-31", "2024-05-31"), ("2024-05-31T23:10:00Z", "2024-05-31"), ("2024/05/31", "2024-05-31"),
        ("31 May 2024", "2024-05-31"), ("May 31, 2024", "2024-05-31"), ("31.05.2024", "2024-05-31"),
        (1717113600, "2024-05-31"), (1717113600000, "2024-05-31"), ("05/31/2024", None), ("01/02/2024", None),
        ("yesterday", None), (5, None), (True, None), (None, None), ("2024-13-01", None), (10**20, None),
        (float("inf"), None),
    ],
)  # fmt: skip
def test_dates_become_iso_dates(value, day):
    assert iso_date(value) == day


def test_a_document_gets_plain_stars_and_dates():
    columns = Columns("text", stars="rating", date="when")
    document = Document("a", LONG, {"rating": "4 out of 5", "when": 1717113600, "size": "4/5"})
    assert normalised(document, columns).metadata == {"rating": 4, "when": "2024-05-31", "size": "4/5"}
    unread = Document("b", LONG, {"rating": "good", "when": None})
    assert normalised(unread, columns) is unread
