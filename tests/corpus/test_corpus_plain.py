"""Values that cannot be stored as they are: none of them costs its row."""

import datetime
import json
import subprocess
import sys
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import parquet

from retriever.core.types import Document
from retriever.corpus.readers import read_documents, read_given
from retriever.corpus.rows import ReadingOptions

REPLACED = "NUL and halves of characters replaced by U+FFFD"


def read(path, **options):
    reading = read_documents([path], options=ReadingOptions(**options))
    rows = list(reading)
    return rows, [note.removeprefix(f"{path}: ") for note in reading.notes]


@pytest.mark.parametrize("raw", [False, True])
def test_halves_of_characters_and_nul_are_replaced(tmp_path, raw):
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "x\\ud83d", "text": "Leaks \\udc00", "m": {"k\\u0000": ["\\ud800", "\\ud83d\\ude00"]}}')
    (document,), notes = read(path, raw=raw)
    assert document == Document("x\ufffd", "Leaks \ufffd", {"m": {"k\ufffd": ["\ufffd", "\U0001f600"]}})
    assert notes[-1].endswith(REPLACED)


def test_nul_in_a_table_is_replaced(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"id,text,x\n1\0,Le\0aks,a\0\n" + b"2,It pours without a drip,b\n" * 5)
    (document, *_), _ = read(path)
    assert document == Document("1\ufffd", "Le\ufffdaks", {"x": "a\ufffd"})


@pytest.mark.parametrize(("name", "line"), [("a.csv", b"1,%s"), ("a.jsonl", b'{"id": 1, "text": "%s"}')])
def test_halves_of_characters_that_are_bytes_are_put_together_or_replaced(tmp_path, name, line):
    path = tmp_path / name
    head = b"id,text\n" if name == "a.csv" else b""
    path.write_bytes(head + line % b"\xed\xa0\xbd\xed\xb8\x80 and \xed\xa0\xbd")
    (document,), _ = read(path)
    assert document == Document("1", "\U0001f600 and \ufffd")


def test_documents_of_a_program_are_made_plain_too():
    key = uuid.UUID(int=5)
    given = Document(
        "a\ud800", "Le\0aks", {"at": datetime.datetime(2024, 5, 1, 10), "key": key, "raw": b"x", "n": float("inf")}
    )
    reading = read_given([given])
    (document,) = reading
    assert document == Document("a\ufffd", "Le\ufffdaks", {"at": "2024-05-01T10:00:00", "key": str(key), "n": None})
    assert REPLACED in reading.notes[0]
    assert "'raw' left out, as it holds bytes" in reading.notes[0]


def test_what_json_cannot_hold_becomes_null_and_is_reported(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1, "text": "Leaks", "x": 1e999, "y": ' + "9" * 5000 + ', "z": ' + "8" * 300 + "}")
    (document,), notes = read(path)
    assert document == Document("1", "Leaks", {"x": None, "y": None, "z": int("8" * 300)})
    assert notes == ["'x': numbers that are too large are null"]


def test_ids_of_parquet_may_be_bytes_of_text_or_of_a_uuid(tmp_path):
    key = uuid.UUID("0b9d1d1a-7f3e-4c55-9c1b-6f1de2a0c4d7")
    parquet.write_table(pa.table({"id": [b"sixteen letters!", key.bytes], "text": ["a", "b"]}), tmp_path / "a.parquet")
    rows, _ = read(tmp_path / "a.parquet")
    assert [row.id for row in rows] == ["sixteen letters!", str(key)]


def test_parquet_keeps_rows_whatever_a_column_holds(tmp_path):
    table = pa.table(
        {
            "id": pa.array([uuid.UUID(int=row).bytes for row in range(2)], pa.uuid()),
            "text": ["Leaks", "Pours"],
            "Text": ["a", "b"],
            "image": [{"bytes": b"\x89", "path": "0.png", "marks": [b"x"]}, None],
            "at": pa.array([1_700_000_000_000_000_001, None], pa.timestamp("ns", "Europe/Berlin")),
            "events": pa.array(
                [[{"at": 1_700_000_000_000_000_001}], []], pa.list_(pa.struct([("at", pa.timestamp("ns"))]))
            ),
            "price": [Decimal("1.50"), Decimal("2.00")],
            "big": pa.array([2**64 - 1, None], pa.uint64()),
        }
    )
    path = tmp_path / "a[1]*.parquet"
    parquet.write_table(table, tmp_path / "a[1]b.parquet")  # which the other's name would match as a pattern
    parquet.write_table(table, tmp_path / "a1b.parquet")
    parquet.write_table(table.append_column("big", table["big"]), path)
    rows, notes = read(path)
    assert rows == [
        Document(
            "00000000-0000-0000-0000-000000000000",
            "Leaks",
            {
                "Text": "a",
                "image": {"path": "0.png", "marks": []},
                "at": "2023-11-14T22:13:20+00:00",
                "events": [{"at": "2023-11-14T22:13:20"}],
                "price": 1.5,
                "big": 2**64 - 1,
                "big (2)": 2**64 - 1,
            },
        ),
        Document("00000000-0000-0000-0000-000000000001", "Pours", {"Text": "b", "events": [], "price": 2}),
    ]
    assert "'big' appears more than once: numbered from (2) on" in notes[0]
    assert "'image.bytes' left out, as it holds bytes" in notes[0]


def test_reading_text_files_loads_no_library_of_other_formats(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,text\n1,Leaks\n")
    code = (
        "import sys; from retriever.corpus.readers import read_documents; list(read_documents([sys.argv[1]])); "
        "print(sorted({'duckdb', 'python_calamine', 'pyarrow', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.replace("'", '"')) == []
