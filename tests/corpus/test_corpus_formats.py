import csv
import datetime
import io
import json
from decimal import Decimal
from itertools import product

import pyarrow as pa
import pytest
from pyarrow import parquet

from retriever.core.errors import InputError
from retriever.core.types import BadRow, Document
from retriever.corpus import json_files
from retriever.corpus.fields import ID_FIELDS, TEXT_FIELDS
from retriever.corpus.readers import read_documents


def test_jsonl_gives_id_text_and_the_rest_as_metadata(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "1", "text": "héllo", "labels": {"stars": 5}, "tags": ["a"], "none": null}\n', "utf-8")
    metadata = {"labels": {"stars": 5}, "tags": ["a"], "none": None}
    assert list(read_documents([path])) == [Document("1", "héllo", metadata)]


def test_usual_field_names_are_found(tmp_path):
    path = tmp_path / "a.ndjson"
    for id_field, text_field in product(ID_FIELDS, TEXT_FIELDS):
        path.write_text(json.dumps({text_field: "t", id_field: "x"}))
        assert list(read_documents([path])) == [Document("x", "t", {})]


def test_named_fields_win_over_usual_ones(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "1", "sku": 7, "text": "short", "notes": "long"}')
    (document,) = read_documents([path], id_field="sku", text_field="notes")
    assert document == Document("7", "long", {"id": "1", "text": "short"})


def test_title_becomes_the_first_line_and_stays(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"_id": "1", "title": "Kettle", "text": "Hot."}\n{"_id": "2", "title": " ", "text": "Cold."}')
    assert list(read_documents([path])) == [
        Document("1", "Kettle\nHot.", {"title": "Kettle"}),
        Document("2", "Cold.", {"title": " "}),
    ]


def test_bom_crlf_and_blank_lines_are_silent_and_lines_are_counted(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id": 1, "text": "a"}\r\n\r\n  \r\n{"id": 2, "text": "b"}\r\nx\r\n')
    first, second, bad = read_documents([path])
    assert (first, second) == (Document("1", "a"), Document("2", "b"))
    assert isinstance(bad, BadRow)
    assert (bad.line, bad.raw) == (5, "x")


def test_csv_with_bom_crlf_quotes_and_line_breaks(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'\xef\xbb\xbfid,text\r\n1,"a ""b"",\r\nc"\r\n\r\n2,d\r\n3,\r\n')
    first, second, bad = read_documents([path])
    assert first == Document("1", 'a "b",\r\nc')
    assert second == Document("2", "d")
    assert (bad.line, bad.id, bad.reason) == (6, "3", "the text in 'text' is empty: null")


def test_csv_without_name_or_cells_in_a_column(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("\n, id ,text\n0,1,a\n,,\n1,2,b\n")
    assert list(read_documents([path])) == [Document("1", "a"), Document("2", "b")]


def test_csv_holds_texts_far_above_the_csv_modules_limit(tmp_path):
    path = tmp_path / "a.tsv"
    text = "word " * 100_000
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter="\t").writerows([["id", "text"], ["1", text]])
    assert list(read_documents([path])) == [Document("1", text)]


def test_parquet_converts_what_json_lacks(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table(
        {
            "id": pa.array([1, 2]),
            "text": pa.array([b"a", b"b"], pa.binary()),
            "when": pa.array([1_700_000_000_000_000_001, None], pa.timestamp("ns")),
            "day": pa.array([datetime.date(2025, 1, 2), None]),
            "price": pa.array([Decimal("1.50"), Decimal("2.00")]),
            "score": pa.array([float("nan"), 0.5]),
            "nested": pa.array([{"tags": ["x"]}, None]),
            "image": pa.array([b"\xff", b"\x00"], pa.binary()),
        }
    )
    parquet.write_table(table, path)
    first, second = read_documents([path])
    expected = {"when": "2023-11-14T22:13:20", "day": "2025-01-02", "price": 1.5, "nested": {"tags": ["x"]}}
    assert first == Document("1", "a", expected)
    assert second == Document("2", "b", {"price": 2, "score": 0.5})


def test_stdin_is_jsonl(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"id": "1", "text": "a"}\n')))
    assert list(read_documents(["-"])) == [Document("1", "a")]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"id": "1", "text": "a"}\nnope\n')))
    _, bad = read_documents(["-"])
    assert (bad.line, bad.raw) == (2, "nope")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(InputError, match="has no rows"):
        read_documents(["-"])


def test_ids_are_distinct_across_files_and_the_first_stands(tmp_path):
    one, two = tmp_path / "one.jsonl", tmp_path / "two.csv"
    one.write_text('{"id": "a", "text": "first"}\n')
    two.write_text("id,text\nb,other\na,second\n")
    first, other, bad = read_documents([one, two])
    assert [first.text, other.text] == ["first", "other"]
    assert (bad.file, bad.line, bad.id, bad.raw) == (str(two), 3, "a", "a,second")
    assert bad.reason == f"the id 'a' is taken by {one}:1; ids must differ within one input"


def test_ids_are_derived_from_rows_and_survive_reordering(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,stars\ngood,5\ngood,4\ngood,5\n")
    before = {(document.text, document.metadata["stars"], document.id) for document in read_documents([path])}
    assert len(before) == 3
    path.write_text("text,stars\nnew,1\ngood,5\ngood,5\ngood,4\n")
    after = {(document.text, document.metadata["stars"], document.id) for document in read_documents([path])}
    assert before < after


def test_no_id_is_derived_in_a_file_that_has_ids(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1, "text": "a"}\n{"text": "b"}\n')
    _, bad = read_documents([path])
    assert bad.reason == "no id, though the rows before have one; the row has 'text'; name the field with --id-field"


def test_a_long_line_is_skipped_without_being_held(tmp_path, monkeypatch):
    monkeypatch.setattr(json_files, "LONGEST_LINE", 50)
    path = tmp_path / "a.jsonl"
    row = b'{"id": 1, "text": "a"}'
    path.write_bytes(row + b"\n" + b"y" * 1000 + b"\n" + row.replace(b"1", b"2") + b"\n" + b"z" * 1000)
    first, bad, second, last = read_documents([path])
    assert (first, second) == (Document("1", "a"), Document("2", "a"))
    assert (bad.line, bad.raw, last.line) == (2, "y" * 50, 4)
    assert bad.reason == "the value is longer than 50 characters; write one object a line"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", 'text,stars\n"x,\n\ny",1\ny,2\n'),
        ("a.csv", "text,stars\nx,1\ny,2\n3,4,5\n"),
        ("a.tsv", "text\tstars\nx\t1\ny\t2"),
        ("a.jsonl", '{"text": "x"}\nnope\n{"text": "y"}'),
        ("a.json", '{"text": ["x", "y"]}'),
    ],
)
def test_rows_that_have_values_are_counted(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert read_documents([tmp_path / name]).count == 2
