import pytest

from retriever.corpus.fields import Columns, recognise
from retriever.corpus.rows import Notes
from retriever.corpus.values import iso_date, says_stars, star_value, written_date


def wide(number):
    """Write a number in the digits of Chinese and Japanese fonts."""
    return "".join(chr(0xFF10 + int(digit)) for digit in str(number))


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


def test_a_column_that_most_rows_lack_goes_after_others_of_its_role():
    rows = [{"comment": f"{LONG} Really.", "description": LONG}, *[{"comment": None, "description": LONG}] * 2]
    assert recognise(rows).text == "description"
    assert recognise([{**row, "description": ""} for row in rows]).text == "comment"


def test_a_few_values_of_another_kind_do_no_harm():
    rows = [{"stars": 4}, {"stars": 5}, {"stars": 1}, {"stars": 2}, {"stars": "n/a"}, {"stars": None}]
    assert recognise(rows).stars == "stars"
    assert recognise([]) == Columns()


@pytest.mark.parametrize(
    ("value", "day"),
    [
        ("2024-05-31", "2024-05-31"), ("2024-05-31T23:10:00Z", "2024-05-31"), ("2024/05/31", "2024-05-31"),
        ("31 May 2024", "2024-05-31"), ("May 31, 2024", "2024-05-31"), ("31.05.2024", "2024-05-31"),
        (1717113600, "2024-05-31"), (1717113600000, "2024-05-31"), ("05/31/2024", "2024-05-31"), ("01/02/2024", None),
        ("yesterday", None), (5, None), (True, None), (None, None), ("2024-13-01", None), (10**20, None),
        (10**400, None), (float("inf"), None),
    ],
)  # fmt: skip
def test_dates_become_iso_dates(value, day):
    assert iso_date(value) == day


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("3. Mai 2024", "2024-05-03"), ("12. März 2024, 14:30 Uhr", "2024-03-12T14:30:00"), ("3.5.24", "2024-05-03"),
        ("3 de mayo de 2024", "2024-05-03"), ("1er août 2024", "2024-08-01"), ("03-May-2024", "2024-05-03"),
        (f"{wide(2024)}-{wide(5)}-{wide(3)}", "2024-05-03"), ("2024年5月3日", "2024-05-03"), ("2024-5-3", "2024-05-03"),
        ("May 3rd, 2024 at 5:04 pm", "2024-05-03T17:04:00"),
        ("Fri, 3 May 2024 10:00:00 +0200", "2024-05-03T10:00:00+02:00"),
        ("Reviewed in the United States on May 3, 2024", "2024-05-03"), ("12:30", None), ("Mai 2024", "2024-05"),
        ("2024-05-31T23:10:00Z", "2024-05-31T23:10:00Z"), ("05/31/2024 10:15 AM", "2024-05-31T10:15:00"),
        ("31.04.2024", None), ("5/3/2024 25:00", None), ("2.10.1", None), ("Foo 3, 2024", None), ("", None),
    ],
)  # fmt: skip
def test_dates_are_read_as_people_write_them(text, date):
    written = written_date(text)
    assert (written and written.iso()) == date


def test_the_order_of_day_and_month_is_left_to_the_column():
    written = written_date("03/04/2024")
    assert (written.iso(day_first=True), written.iso(day_first=False)) == ("2024-04-03", "2024-03-04")
    assert written.day_first is None
    assert written_date("13/04/2024").day_first is True
    assert written_date("04/13/2024").day_first is False


@pytest.mark.parametrize(
    ("value", "stars", "says"),
    [
        (4, 4, False), (4.5, 4.5, False), (4.0, 4, False), ("4", 4, False), (" 4.5 ", 4.5, False), ("3/5", 3, False),
        ("4 out of 5 stars", 4, True), ("5 Stars", 5, True), ("★★★★☆", 4, True), ("⭐⭐⭐", 3, True),
        ("☆☆☆☆☆", 0, True), ("4,0 von 5 Sternen", 4, True), ("4-star", 4, True), ("4 étoiles sur 5", 4, True),
        ("Rated 4 out of 5", 4, True), ("Bewertet mit 4 von 5 Sternen", 4, True), ("4.0/5.0", 4, False),
        ("4,5", 4.5, False), ("vier Sterne", 4, False), ("five stars", 5, False), ("two", 2, False),
        (wide(4), 4, False), (0, 0, False), (11, None, False), (-1, None, False), (True, None, False),
        ("good", None, False), ("4 people", None, False), (None, None, False), ([4], None, False), ("", None, False),
        ("4 starters", None, False),
    ],
)  # fmt: skip
def test_stars_are_read_as_people_write_them(value, stars, says):
    assert (star_value(value), says_stars(value)) == (stars, says)
    assert type(star_value(value)) is type(stars)


def test_notes_are_one_line_per_file():
    notes = Notes("a.csv")
    assert str(notes) == ""
    notes.add("id from 'ID'")
    notes.add("")
    notes.add("id from 'ID'")
    notes.add("2 header rows skipped")
    assert str(notes) == "a.csv: id from 'ID'; 2 header rows skipped"
