"""Whatever a file holds, reading it gives documents, rows with a reason, or an error that names the file."""

import gzip
import io
import json
from datetime import date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from fuzzing import HOSTILE_JSON, MIB, VALUES, damaged, damages, limited
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from retriever.core.errors import InputError
from retriever.core.types import BadRow, Document
from retriever.corpus.readers import read_documents

ROWS = [{"id": row, "text": f"review {row}", "stars": row % 5, "tags": ["a", None]} for row in range(20)]
JSONL = "\n".join(map(json.dumps, ROWS)).encode()
CSV = b'id,text,stars\n1,"quoted, text",2\n2,plain,4.5\n3,"two\nlines",true\n'
LINES = st.one_of(
    VALUES.map(json.dumps).map(str.encode),
    VALUES.map(lambda value: json.dumps({"id": 1, "text": "good", "x": value}).encode()),
    VALUES.map(lambda value: json.dumps({"id": value, "text": value}).encode()),
    HOSTILE_JSON,
    st.binary(max_size=40),
)
CELLS = st.text(st.sampled_from('a1,;"\n\r\0\té.-e \ud7ff'), max_size=12)


def read(path):
    """Read a file; return its good documents, having looked at what every row became."""
    try:
        rows = list(read_documents([path]))
    except InputError as error:
        assert path.name in str(error)
        return []
    for row in rows:
        if isinstance(row, BadRow):
            assert row.file == str(path)
            assert row.line >= 1
            assert row.reason
            row.raw.encode()
        else:
            row.text.encode()
            json.dumps(row.metadata, allow_nan=False)
    return [row for row in rows if isinstance(row, Document)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@given(st.lists(LINES, max_size=4))
@settings(deadline=None)
def test_any_lines_of_json(folder, lines):
    path = folder / "a.jsonl"
    written = b"\n".join([*lines, b'{"id": "last", "text": "whole"}'])
    path.write_bytes(written)
    expected = set() if written.startswith((b"\xff\xfe", b"\xfe\xff")) else {"last"}  # UTF-16 is refused as a whole
    assume(not written.startswith((b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"PAR1")))  # taken for zip, gzip, Parquet
    assert {document.id for document in read(path)} & {"last"} == expected
    path.with_suffix(".jsonl.gz").write_bytes(gzip.compress(path.read_bytes(), 1))
    assert {document.id for document in read(path.with_suffix(".jsonl.gz"))} & {"last"} == expected


@given(st.lists(LINES, max_size=4))
@settings(deadline=None)
def test_any_lines_behind_an_array(folder, lines):
    path = folder / "f.jsonl"
    path.write_bytes(b"\n".join([b'[{"id": "first", "text": "whole"},', *lines, b'{"id": "last", "text": "whole"}']))
    assert {document.id for document in read(path)} >= {"first", "last"}


@given(damages(JSONL), damages(gzip.compress(JSONL, mtime=0)))
@settings(deadline=None)
def test_damaged_json_lines(folder, plain, zipped):
    for name, data in (("b.jsonl", plain), ("b.jsonl.gz", zipped)):
        (folder / name).write_bytes(data)
        read(folder / name)


@given(st.lists(st.lists(CELLS, min_size=1, max_size=4), max_size=5), damages(CSV))
@settings(deadline=None)
def test_any_table(folder, rows, damage):
    text = "\n".join(",".join(row) for row in [["id", "text", "x"], *rows])
    for name, data in (("c.csv", text.encode()), ("c.tsv", text.replace(",", "\t").encode()), ("d.csv", damage)):
        (folder / name).write_bytes(data)
        read(folder / name)


COLUMNS = {
    "date": (pa.date32(), st.integers(-(2**31), 2**31 - 1)),
    "second": (pa.timestamp("s"), st.integers(-(2**40), 2**40)),
    "zoned": (pa.timestamp("ns", "Europe/Berlin"), st.integers(-(2**62), 2**62)),
    "unknown zone": (pa.timestamp("us", "Nowhere/Land"), st.integers(0, 2**40)),
    "span": (pa.duration("s"), st.integers(-(2**50), 2**50)),
    "decimal": (pa.decimal128(38, 2), st.decimals("-1e30", "1e30", places=2)),
    "real": (pa.float64(), st.floats()),
    "bytes": (pa.binary(), st.binary(max_size=4)),
    "map": (
        pa.map_(pa.string(), pa.int64()),
        st.dictionaries(st.text("ab"), st.integers(0, 9)).map(lambda d: [*d.items()]),
    ),
    "twice": (pa.struct([("a", pa.int8()), ("a", pa.int8())]), st.none()),
    "list": (pa.list_(pa.string()), st.lists(st.text(max_size=3), max_size=3)),
}


@given(st.data(), st.sampled_from(sorted(COLUMNS)))
@settings(deadline=None)
def test_any_column_of_parquet(folder, data, name):
    kind, values = COLUMNS[name]
    column = pa.array(data.draw(st.lists(st.none() | values, min_size=1, max_size=4)), kind)
    table = pa.table({"id": [str(row) for row in range(len(column))], "text": ["x"] * len(column), name: column})
    parquet.write_table(table, folder / "e.parquet")
    read(folder / "e.parquet")


def test_a_time_that_python_cannot_hold_is_kept_as_text(tmp_path):
    times = pa.array([0, 2**40, None], pa.timestamp("s"))
    parquet.write_table(pa.table({"id": ["a", "b", "c"], "text": ["x"] * 3, "at": times}), tmp_path / "a.parquet")
    assert list(read_documents([tmp_path / "a.parquet"])) == [
        Document("a", "x", {"at": "1970-01-01T00:00:00"}),
        Document("b", "x", {"at": "36812-02-20 00:36:16"}),
        Document("c", "x"),
    ]


def parquet_bytes():
    columns = {
        "id": [str(row) for row in range(40)],
        "text": [f"review number {row}" for row in range(40)],
        "when": [datetime(2024, 5, 1) + timedelta(days=row) for row in range(40)],
        "day": [date(2024, 5, 1)] * 40,
        "price": [Decimal("1.50")] * 40,
        "tags": [["a", "b"]] * 40,
        "labels": [{"stars": row} for row in range(40)],
    }
    file = io.BytesIO()
    parquet.write_table(pa.table(columns), file, row_group_size=16)
    return file.getvalue()


def read_damaged_parquet(path, copies):
    """Return how many of some damaged copies could be read in part; run in a child."""
    whole, read_in_part = parquet_bytes(), 0
    for seed in range(copies):
        path.write_bytes(damaged(whole, seed))
        read_in_part += bool(read(path))
    return read_in_part


def test_damaged_parquet(tmp_path, record_property):
    copies = 3 * settings.default.max_examples
    record_property("files", copies)
    assert (
        # Arrow's allocator reserves addresses by the GiB, so that less than two can fail before anything is read.
        limited(read_damaged_parquet, tmp_path / "a.parquet", copies, memory=2048 * MIB, seconds=60 + copies // 2) > 0
    )


def hostile_lines():
    """Return lines that take far more room than time to write."""
    return {
        "long": b'{"id": "x", "text": "' + b"a" * 10_000_000 + b'"}',
        "longer": b'{"id": "x", "text": "' + b"a" * 17_000_000 + b'"}',
        "lists": b'{"id": "x", "text": "a", "x": [' + b"[]," * 1_000_000 + b"[]]}",
        "deep": b"[" * 3_000_000,
        "digits": b'{"id": "x", "text": "a", "x": ' + b"9" * 2_000_000 + b"}",
        "names": b'{"id": "x", "text": "a"' + b"".join(b',"%x":1' % row for row in range(60_000)) + b"}",
        "escapes": b'{"id": "x", "text": "' + b"\\u0000" * 500_000 + b'"}',
    }


def read_hostile_lines(folder):
    """Return what is said of each hostile line, with a good one behind it; run in a child."""
    said = {}
    for name, line in hostile_lines().items():
        path = folder / f"{name}.jsonl"
        path.write_bytes(line + b'\n{"id": "last", "text": "whole"}')
        del line
        first, last = read_documents([path])
        assert last.id == "last"
        said[name] = first.reason if isinstance(first, BadRow) else "good"
        path.unlink()
    return said


def test_no_line_takes_the_memory_or_the_time(tmp_path):
    said = limited(read_hostile_lines, tmp_path, memory=1024 * MIB, seconds=180)
    assert said == {
        "long": "the text has 10,000,000 characters, more than 1,000,000; split it into documents",
        "longer": "the value is longer than 16,000,000 characters; write one object a line",
        "lists": "good",
        "deep": "the JSON nests too deeply",
        "digits": "good",
        "names": "good",
        "escapes": "the text in 'text' is empty: its characters are invisible",
    }


def zip_bomb(path, line, mebibytes):
    with gzip.open(path, "wb", 9) as file:
        block = line * (MIB // len(line))
        for _ in range(mebibytes):
            file.write(block)


@pytest.mark.parametrize("line", [b"a", b'{"text": "a"}\n', b"\n"], ids=["one line", "equal lines", "empty lines"])
def test_a_zip_bomb_is_refused(tmp_path, line, monkeypatch):
    monkeypatch.setattr("retriever.corpus.sources._LEAST_UNZIPPED", MIB)
    path = tmp_path / "bomb.jsonl.gz"
    zip_bomb(path, line, 2)
    for encoding in (None, "utf-8"):
        with pytest.raises(InputError, match=r"bomb\.jsonl\.gz unzips to more than 200 times its size"):
            for _ in read_documents([path], encoding=encoding):
                pass


def test_a_zipped_corpus_of_like_rows_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("retriever.corpus.sources._LEAST_UNZIPPED", 1 << 16)
    path = tmp_path / "a.jsonl.gz"
    rows = (json.dumps({"id": row, "text": f"review {row * row} is short"}) + "\n" for row in range(20_000))
    with gzip.open(path, "wt") as file:
        file.writelines(rows)
    assert sum(1 for _ in read_documents([path])) == 20_000
