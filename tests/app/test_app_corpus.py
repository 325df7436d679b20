import json

import pytest
from app_checks import click, drop, finish, shown, whole
from app_fakes import OWN_COLUMNS, REVIEWS, KeywordEncoder, load_encoder

from retriever.core.errors import EncoderError
from retriever.workspace import Index
from retriever_app.pages.corpus import job as intake


def test_a_dropped_file_becomes_an_index(indexes, app):
    session = app("corpus")
    assert "Nothing leaves this machine unless you let" in shown(session)
    drop(session, "my reviews.csv", OWN_COLUMNS.encode())
    chosen = {box.label: box.value for box in session.selectbox}
    assert chosen == {
        "Review text": "Review Text", "Product": "ASIN", "Category": "", "Stars": "Rating", "Date": "Review Date",
        "Id": "",
    }  # fmt: skip
    first = session.dataframe[0].value.iloc[0].to_dict()
    assert first == {
        "Review text": "The kettle broke. Again and again.", "Product": "Kettle", "Stars": 1, "Date": "2024-01-10"
    }  # fmt: skip
    finish(click(session, "Index"), "my reviews")
    assert "6 reviews added" in shown(session)
    assert not list((indexes / intake.UPLOADS_FOLDER).glob("*"))
    assert session.title[0].value == "my reviews"
    with Index(indexes / "my reviews", encoder=KeywordEncoder()) as index:
        found = index.search("toy", where="Rating = 1 and `Review Date` > '2024-01-31'", k=3).hits
    assert [hit.document.text for hit in found] == ["The toy broke. Again and again."]


def test_a_button_leads_from_the_file_to_groups_of_answers(make, app):
    rows = [{**one, "id": f"{one['id']} {copy}", "stars": 1 + copy % 5} for one in REVIEWS for copy in range(12)]
    make(rows=rows)
    session = click(app("corpus"), "What do they complain about?")
    asked = session.text_input(key="Grouping.instruction").value
    assert asked == "What does the customer complain about?"
    assert session.pills(key="Filters.stars").value == [1, 2]


@pytest.mark.parametrize(
    ("encoding", "guessed"),
    [
        ("utf-8", "utf-8"),
        ("cp1252", "windows-1252"),
        ("utf-16", "utf-8"),
        ("utf-16-le", "utf-8"),
        ("utf-8-sig", "utf-8"),
    ],
)
def test_other_encodings_are_read(tmp_path, encoding, guessed):
    data = "text,stars\nCafé très cher et pas très bon,2\n".encode(encoding)
    assert intake.guess_encoding("a.csv", data) == guessed
    kept = intake.keep(tmp_path, "a.csv", data, guessed)
    assert [dict(row) for row in intake.preview(kept).rows] == [{"text": "Café très cher et pas très bon", "stars": 2}]


def test_columns_that_were_corrected_are_read_as_chosen_and_the_reading_is_shown(indexes, app):
    rows = "text;grade;moment\nA kettle that leaks;4 of 5;1717113600\nA toy that broke;two;soon\n"
    session = app("corpus")
    drop(session, "a.csv", rows.encode("utf-16"))
    assert "a.csv: read as UTF-16; ids made from the rows" in shown(session).replace("\\", "")
    next(box for box in session.selectbox if box.label == "Stars").set_value("grade").run()
    next(box for box in session.selectbox if box.label == "Date").set_value("moment").run()
    finish(click(session, "Index"), "a")
    with Index(indexes / "a", encoder=KeywordEncoder()) as index:
        (hit,) = index.search("kettle", k=1, where="grade = 4 and moment = '2024-05-31'").hits
        assert hit.document.text == "A kettle that leaks"


def test_columns_are_shown_as_the_file_heads_them_and_fields_inside_objects_by_their_names(tmp_path):
    kept = intake.keep(tmp_path, "a.csv", b"review.text,review.stars\nThe kettle leaks,2\n")
    assert intake.preview(kept).rows == [{"review.text": "The kettle leaks", "review.stars": 2}]
    kept = intake.keep(tmp_path, "a.jsonl", b'{"text": "toy", "by": {"name": "A", "b.c": 1}, "none": {}}\n')
    assert intake.preview(kept).rows == [{"text": "toy", "by.name": "A", 'by."b.c"': 1}]


def test_halves_of_characters_in_a_file_are_shown_as_they_will_be_stored(app):
    session = app("corpus")
    drop(session, "a.jsonl", b'{"id": "1", "text": "Broke after a week \\ud83d"}\n{"id": "2", "text": "Works fine"}\n')
    assert whole(session).dataframe[0].value.iloc[0]["Review text"] == "Broke after a week \ufffd"
    assert "halves of characters replaced" in shown(session)


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("a.csv", b"stars,date\n1,2024-01-01\n", "Choose the column that holds the text"),
        ("a.csv", b"", "has no rows"),
        ("a.csv", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\xe9", "a.csv holds no text: it may be a picture"),
        ("a.parquet", b"PAR1 not at all", "cannot be read as Parquet"),
        (
            "a.csv",
            b'text;stars\nA fine lamp that shines;5\n"closed" too; early;1\n',
            "1 row cannot be read; the first, in line 3: not CSV",
        ),
    ],
)
def test_what_cannot_be_read_is_said_and_the_page_lives_on(app, name, data, says):
    session = app("corpus")
    drop(session, name, data)
    assert says in shown(session).replace("\\", "")
    assert "--" not in shown(session)
    drop(session, "good.csv", OWN_COLUMNS.encode())
    assert len(session.dataframe) == 1


def test_a_file_in_another_encoding_is_said_and_shown_to_be_judged(app):
    session = app("corpus")
    data = "text,stars\nCafé très cher et pas très bon,2\n".encode("mac-roman")
    drop(session, "a.csv", data)
    assert "Choose the encoding with which the letters below look right." in shown(session)
    assert session.selectbox[0].value == "mac-roman"
    session.selectbox[0].set_value("windows-1252").run()
    assert whole(session).dataframe[0].value.iloc[0]["Review text"].startswith("CafŽ tr")
    session.selectbox[0].set_value("mac-roman").run()
    assert whole(session).dataframe[0].value.iloc[0]["Review text"] == "Café très cher et pas très bon"


def test_a_model_that_is_missing_ends_the_indexing_with_a_sentence(app, monkeypatch):
    def missing(*args, **options):
        raise EncoderError("The backbone is not installed.", hint="Install it.")

    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", missing)
    session = app("corpus")
    drop(session, "a.csv", OWN_COLUMNS.encode())
    finish(click(session, "Index"), "a")
    assert "The backbone is not installed." in shown(session)
    assert "Install it." in shown(session)
    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", load_encoder)
    finish(click(session, "Continue"), "a")
    assert "6 reviews added" in shown(session)


def test_names_of_files_lead_nowhere(tmp_path):
    kept = intake.keep(tmp_path, "../../etc/pass\\..\\wd<b>.csv", b"text\nx\n")
    assert kept.name == "wd_b_.csv"
    assert kept.parents[1] == tmp_path / intake.UPLOADS_FOLDER
    assert intake.keep(tmp_path, "..", b"").name == "reviews"


def test_the_summary_counts(make, app):
    make(rows=[*REVIEWS, {**REVIEWS[0], "id": "again"}])
    session = app("corpus")
    lines = shown(session).split("\n")
    assert {"7", "1", "3", "2024-01-10", "2024-06-10"} <= set(lines)
    assert f"{(1 + 5 + 2 + 4 + 1 + 3 + 1) / 7:.1f}" in lines


def test_the_example_takes_the_place_of_a_dropped_file(indexes, app):
    session = app("corpus")
    drop(session, "a.csv", OWN_COLUMNS.encode())
    click(session, "Try the example")
    assert any(button.label == "Index 224 reviews" for button in session.button)
    whole(session.run())
    assert any(button.label == "Index 224 reviews" for button in session.button)
    assert [file.name for file in (indexes / intake.UPLOADS_FOLDER).glob("*/*")] == ["example.jsonl"]
    drop(session, "a.csv", OWN_COLUMNS.encode())
    assert any(button.label == "Index 6 reviews" for button in session.button)


def test_ids_that_are_there_already_are_said_before_they_are_indexed(make, app):
    make()
    new = [{"id": f"n{number}", "text": "Another kettle, another day.", "stars": 1} for number in range(3)]
    rows = [*({**review, "stars": 3} for review in REVIEWS[:2]), *new]
    session = app("corpus")
    drop(session, "more.jsonl", "\n".join(map(json.dumps, rows)).encode())
    assert "already" not in shown(session)
    session.text_input[0].set_value("reviews").run()
    said = shown(whole(session)).replace("\\", "")
    assert "2 of the first 5 ids are in 'reviews' already." in said
    assert "replace those there" in said
    finish(click(session, "Index"), "reviews")
    assert "3 reviews added, 2 updated" in shown(session)


def test_skipped_rows_name_no_folder(indexes, app):
    rows = '{"id": 1, "text": "a kettle"}\n{"id": 1, "text": "a toy"}\n'
    session = app("corpus")
    drop(session, "twice.jsonl", rows.encode())
    finish(click(session, "Index"), "twice")
    skipped = session.dataframe[-1].value.iloc[0]
    assert (skipped["why"], skipped["file"]) == (
        "the id '1' is taken by twice.jsonl:1; ids must differ within one input", "twice.jsonl"
    )  # fmt: skip
