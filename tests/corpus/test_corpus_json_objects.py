"""Files that are one JSON object: the records it holds are the rows."""

import json

import pandas as pd
import pytest

from retriever.core.errors import InputError
from retriever.core.types import Document
from retriever.corpus import json_files
from retriever.corpus.readers import read_documents

ROWS = [
    {"text": "The handle wobbles", "stars": 2},
    {"text": "It pours well", "stars": 5},
    {"text": "Leaks", "stars": 1},
]
COLUMNS = {"text": [row["text"] for row in ROWS], "stars": [row["stars"] for row in ROWS]}
NAMED = {"a": ROWS[0], "b": ROWS[1], "c": ROWS[2]}


def read(tmp_path, data, name="a.json", **settings):
    path = tmp_path / name
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    reading = read_documents([path], **settings)
    rows = list(reading)
    return rows, [note.removeprefix(f"{path}: ") for note in reading.notes]


def documents(*ids):
    return [Document(key, row["text"], {"stars": row["stars"]}) for key, row in zip(ids, ROWS, strict=True)]


@pytest.mark.parametrize("before", ["\ufeff", "\n", "\ufeff \r\n"])
@pytest.mark.parametrize("data", [NAMED, {"reviews": ROWS}, COLUMNS])
def test_byte_order_marks_and_white_space_may_stand_before_the_object(tmp_path, data, before):
    rows, _ = read(tmp_path, before + json.dumps(data))
    assert [row.text for row in rows] == COLUMNS["text"]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
@pytest.mark.parametrize("data", [NAMED, {"reviews": NAMED}, {"version": 3, **NAMED}])
def test_records_under_keys_have_these_as_ids(tmp_path, data, name, indent):
    rows, notes = read(tmp_path, json.dumps(data, indent=indent), name)
    assert rows == documents("a", "b", "c")
    assert "with their keys as ids" in notes[0]


def test_records_with_ids_of_their_own_keep_them(tmp_path):
    rows, _ = read(tmp_path, {"x": {"id": 7, "text": "Leaks"}, "y": {"_id": 8, "text": "Fine"}})
    assert rows == [Document("7", "Leaks"), Document("8", "Fine", {})]


@pytest.mark.parametrize("orient", ["columns", "index", "split", "records", "table"])
@pytest.mark.parametrize("index", [None, ["a", "b", "c"]])
def test_every_orientation_of_pandas_is_a_row_a_document(tmp_path, orient, index):
    rows, _ = read(tmp_path, pd.DataFrame(ROWS, index=index).to_json(orient=orient))
    assert [row.text for row in rows] == [row["text"] for row in ROWS]
    assert [row.metadata["stars"] for row in rows] == [2, 5, 1]
    if orient != "records":
        assert [row.id for row in rows] == (index or ["0", "1", "2"])


@pytest.mark.parametrize("index", [None, ["x", "y", "z"]])
@pytest.mark.parametrize("names", [("text", "stars"), ("comment", "n"), ("remark", "grade")])
def test_columns_are_told_from_records(tmp_path, names, index):
    table = pd.DataFrame({names[0]: COLUMNS["text"], names[1]: COLUMNS["stars"]}, index=index)
    for orient in ("columns", "index"):
        rows, _ = read(tmp_path, table.to_json(orient=orient), text_field=names[0])
        assert [(row.text, row.metadata) for row in rows] == [(row["text"], {names[1]: row["stars"]}) for row in ROWS]


def test_columns_of_lists(tmp_path):
    rows, notes = read(tmp_path, COLUMNS)
    assert [(row.text, row.metadata["stars"]) for row in rows] == [(row["text"], row["stars"]) for row in ROWS]
    assert notes == ["one object: its members are columns; ids made from the rows"]


@pytest.mark.parametrize(
    "data",
    [
        {"page": 1, "reviews": ROWS},
        {"product": "Kettle", "meta": {"made": "2024-05-01"}, "reviews": ROWS},
        {"response": {"count": 3, "docs": ROWS}},
    ],
)
def test_the_rows_of_an_envelope_are_its_list(tmp_path, data):
    rows, notes = read(tmp_path, data)
    assert [(row.text, row.metadata["stars"]) for row in rows] == [(row["text"], row["stars"]) for row in ROWS]
    assert notes[0].startswith("one object: the rows are the list in ")


@pytest.mark.parametrize("data", [COLUMNS["text"][:2], {"reviews": COLUMNS["text"][:2], "page": 1}])
def test_a_list_of_texts_is_a_document_each(tmp_path, data):
    rows, _ = read(tmp_path, data)
    assert [row.text for row in rows] == COLUMNS["text"][:2]


def test_texts_under_keys(tmp_path):
    rows, _ = read(tmp_path, {"r1": "The handle wobbles", "r2": "It pours well", "r3": "Leaks at night"})
    assert [(row.id, row.text) for row in rows] == [
        ("r1", "The handle wobbles"), ("r2", "It pours well"), ("r3", "Leaks at night"),
    ]  # fmt: skip


def test_of_several_lists_the_one_with_texts_is_taken(tmp_path):
    rows, _ = read(tmp_path, {"users": {"u1": {"name": "Ann"}, "u2": {"name": "Bob"}}, "reviews": NAMED})
    assert rows == documents("a", "b", "c")
    rows, _ = read(tmp_path, {"shops": [{"city": "Kiel"}, {"city": "Bonn"}], "reviews": ROWS})
    assert [row.text for row in rows] == COLUMNS["text"]


def test_an_object_with_several_lists_is_refused_by_their_names(tmp_path):
    with pytest.raises(InputError, match=r"a\.json.*several lists: 'good', 'bad'\. Write each to a file of its own"):
        read(tmp_path, {"good": ROWS, "bad": ROWS})


@pytest.mark.parametrize(
    "data",
    [
        {"id": "1", "text": "Leaks", "tags": ["a", "b"], "replies": [{"text": "Sorry"}, {"text": "Us too"}]},
        {"id": "1", "text": "Leaks", "labels": {"stars": 5}},
    ],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_an_object_with_a_text_of_its_own_is_one_document(tmp_path, data, indent):
    rows, _ = read(tmp_path, json.dumps(data, indent=indent))
    assert rows == [Document("1", "Leaks", {name: value for name, value in data.items() if name not in ("id", "text")})]


def test_several_objects_are_rows_whatever_they_hold(tmp_path):
    lines = "\n".join(json.dumps({"text": "Leaks", "shops": {"x": {"n": 1}, "y": {"n": 2}}}) for _ in range(2))
    assert len(read(tmp_path, lines, "a.jsonl")[0]) == 2
    lines = "\n".join(json.dumps({"review": {"text": row["text"]}, "shop": {"n": 1}}) for row in ROWS)
    rows, _ = read(tmp_path, lines, "a.jsonl", text_field="review.text")
    assert [(row.text, row.metadata) for row in rows] == [(row["text"], {"shop": {"n": 1}}) for row in ROWS]


@pytest.mark.parametrize("orient", ["columns", "index", "split"])
def test_objects_longer_than_a_block_are_read_in_part(tmp_path, orient):
    table = pd.DataFrame(
        {"text": [f"Pours well {row}" for row in range(9000)], "stars": [row % 5 for row in range(9000)]}
    )
    rows, _ = read(tmp_path, table.to_json(orient=orient))
    assert [row.id for row in rows] == [str(row) for row in range(9000)]
    assert rows[8999] == Document("8999", "Pours well 8999", {"stars": 4})


def test_an_object_that_is_no_json_is_refused_by_the_line_where_it_fails(tmp_path):
    data = '{\n"a": {"text": "Leaks"},\n"b": {"text": nope},\n"c": {"text": "Fine"}\n}'
    with pytest.raises(InputError, match=r"a\.json: no row can be read; line 1: not JSON: Expecting value in line 3"):
        read(tmp_path, data)


@pytest.mark.parametrize("limit", [40, 100])
def test_an_object_that_is_too_large_to_be_held_is_refused_with_the_form_that_is_not(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(json_files, "LARGEST_OBJECT", limit)
    with pytest.raises(InputError, match=rf"longer than {limit} characters; write one object a line"):
        read(tmp_path, {"reviews": ROWS})


@pytest.mark.parametrize("orient", ["columns", "index"])
def test_cells_that_hold_others_stay_whole(tmp_path, orient):
    table = {"text": {"0": "Leaks", "1": "Fine"}, "tags": {"0": ["a"], "1": []}}
    table["seen"] = {"0": {"n": 1}, "1": {"n": 2}}
    if orient == "index":
        table = {row: {name: cells[row] for name, cells in table.items()} for row in ("0", "1")}
    assert read(tmp_path, table)[0] == [
        Document("0", "Leaks", {"tags": ["a"], "seen": {"n": 1}}),
        Document("1", "Fine", {"tags": [], "seen": {"n": 2}}),
    ]  # fmt: skip


def test_columns_with_different_rows_are_refused(tmp_path):
    with pytest.raises(InputError, match="the column 'stars' has other rows than the one before it"):
        read(tmp_path, {"text": {"0": "Leaks", "1": "Fine"}, "stars": {"0": 1, "2": 5}})


def test_extended_json_of_mongodb_is_plain(tmp_path):
    row = {
        "_id": {"$oid": "66a0b1"}, "text": "Leaks", "n": {"$numberInt": "2"},
        "big": {"$numberLong": "9007199254740993"},
        "price": {"$numberDouble": "2.5"}, "at": {"$date": {"$numberLong": "1717150000000"}},
        "none": {"$undefined": True},
        "$odd": {"$x": 1}, "seen": [{"$date": "2024-05-01T10:00:00Z"}],
    }  # fmt: skip
    (document,), _ = read(tmp_path, row, "a.jsonl")
    assert document == Document(
        "66a0b1", "Leaks",
        {"n": 2, "big": 9007199254740993, "price": 2.5, "at": "2024-05-31T10:06:40Z", "none": None, "$odd": {"$x": 1},
         "seen": ["2024-05-01T10:00:00Z"]},
    )  # fmt: skip


def test_values_of_firestore_are_plain(tmp_path):
    fields = {"text": {"stringValue": "Leaks"}, "n": {"integerValue": "2"}, "price": {"doubleValue": 2.5}}
    fields |= {
        "at": {"timestampValue": "2024-05-01T10:00:00Z"},
        "ok": {"booleanValue": True},
        "no": {"nullValue": None},
    }
    (document,), _ = read(tmp_path, {"documents": [{"name": "a/b", "fields": fields}]})
    held = {"n": 2, "price": 2.5, "at": "2024-05-01T10:00:00Z", "ok": True, "no": None}
    assert (document.text, document.metadata) == ("Leaks", {"name": "a/b", "fields": held})


def test_binary_values_of_mongodb_are_uuids_or_left_out(tmp_path):
    uuid = {"$binary": {"base64": "AAECAwQFBgcICQoLDA0ODw==", "subType": "04"}}
    row = {
        "_id": uuid, "text": "Leaks", "image": {"$binary": {"base64": "AAEC", "subType": "00"}},
        "bad": {"$binary": {"base64": "A", "subType": "04"}}, "at": {"$timestamp": {"t": 1717150000, "i": 1}},
    }  # fmt: skip
    (document,), notes = read(tmp_path, row, "a.jsonl")
    assert document.id == "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert document.metadata == {"bad": row["bad"], "at": "2024-05-31T10:06:40Z"}
    assert "'image' left out, as it holds bytes" in notes[0]


def test_bytes_of_an_object_that_are_not_utf_8_cost_their_row_alone(tmp_path):
    path, halves = tmp_path / "a.json", "\ud83d\ude00".encode("utf-8", "surrogatepass")
    path.write_bytes(b'{"data": [{"text": "caf\xe9"}, {"text": "fine ' + halves + b'"}, {"text": "Leaks \\ud83d"}]}')
    bad, *good = read_documents([path])
    assert (bad.line, bad.reason[:23]) == (1, "not UTF-8: byte 0xe9 at")
    assert [document.text for document in good] == ["fine \U0001f600", "Leaks \ufffd"]


@pytest.mark.parametrize(
    "whole",
    [
        {"schema": {"primaryKey": ["at"]}, "data": [{"at": "1", "text": "Leaks"}, 5]},
        {"schema": {"primaryKey": [{"at": 1}]}, "data": [{"id": "1", "text": "Leaks"}, 5]},
        {"columns": ["id", "text"], "data": [["1", "Leaks"], 5], "index": 7},
    ],
    ids=["a row that is none", "a key that is none", "an index that is none"],
)
def test_parts_of_an_object_that_are_no_rows_or_keys_end_no_reading(tmp_path, whole):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(whole))
    good, bad = read_documents([path])
    assert (good.id, good.text) == ("1", "Leaks")
    assert bad.reason == "not a JSON object but a number"


def test_a_column_that_is_none_is_named(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"text": ["Leaks"], **{f"column {number}": [1] for number in range(40)}, "count": 1}))
    with pytest.raises(InputError, match="the column 'count' has other rows"):
        list(read_documents([path]))


def test_rows_of_white_space_before_a_table_end_no_reading(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps([*[[None]] * 120, [" "], ["id", "text"], [1, "Leaks"]]))
    with pytest.raises(InputError, match="no row can be read"):
        read_documents([path])


@pytest.mark.parametrize("before", ["\ufeff", "\n ", ","])
def test_an_object_may_begin_behind_a_mark_or_white_space(tmp_path, before):
    path = tmp_path / "a.json"
    path.write_text(before + json.dumps({"data": ROWS}))
    assert [document.text for document in read_documents([path])] == COLUMNS["text"]
