import gzip
import json

import pyarrow as pa
import pytest
from pyarrow import parquet

from retriever.core.errors import InputError
from retriever.core.types import BadRow, Document
from retriever.corpus.fields import without
from retriever.corpus.readers import read_documents

GOOD = b'{"id": "good", "text": "fine"}'
NESTED = b'{"id": 1, "text": "a", "x": ' + b"[" * 32 + b"]" * 32 + b"}"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{'id': 1}", "not JSON: Expecting property name enclosed in double quotes at column 2"),
        (b'nope {"id": 1}', "not JSON: Expecting value at column 1"),
        (b"[1]", "not a JSON object but a list; write one object a line"),
        (b"true", "not a JSON object but a boolean; write one object a line"),
        (b"3", "not a JSON object but a number; write one object a line"),
        (
            b'{"id": 1, "txt": "a"}',
            "no text: no usual text field; the row has 'id', 'txt'; name the field with --text-field",
        ),
        (b'{"id": 1, "text": 5}', "the text in 'text' is a number, not a string"),
        (b'{"id": 1, "text": null}', "the text in 'text' is empty: null"),
        (b'{"id": 1, "text": ["a"]}', "the text in 'text' is a list, not a string"),
        (b'{"id": 1, "text": " \\n"}', "the text in 'text' is empty"),
        (b'{"id": "", "text": "a"}', "the id in 'id' is empty"),
        (b'{"id": true, "text": "a"}', "the id in 'id' is a boolean, not a string or number"),
        (b'{"id": {"x": 1}, "text": "a"}', "the id in 'id' is an object, not a string or number"),
        (b'{"id": 1, "text": NaN}', "the text in 'text' is empty: null"),
        (b"[" * 100_000, "the JSON nests too deeply"),
        (
            b'{"id": 1, "text": "caf\xe9"}',
            "not UTF-8: byte 0xe9 at position 23; correct it, or name the file's encoding",
        ),
    ],
)
def test_a_bad_line_is_reported_and_the_rest_is_read(tmp_path, line, reason):
    path = tmp_path / "a.jsonl"
    path.write_bytes(GOOD + b"\n" + line + b"\n" + GOOD.replace(b"good", b"also"))
    first, bad, last = read_documents([path])
    assert [first.id, last.id] == ["good", "also"]
    assert isinstance(bad, BadRow)
    assert (bad.file, bad.line, bad.reason) == (str(path), 2, reason)


def test_what_nests_deeper_than_the_limit_is_null_and_the_row_is_kept(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(NESTED + b"\n" + NESTED.replace(b"1", b"2", 1).replace(b"[", b"", 1).replace(b"]", b"", 1))
    rows = read_documents([path])
    deep, good = rows
    assert json.dumps(deep.metadata["x"]) == "[" * 31 + "null" + "]" * 31
    assert json.dumps(good.metadata["x"]) == "[" * 31 + "]" * 31
    assert rows.notes == [f"{path}: '{'x' + '.0' * 31}': nested too deeply, is null"]


def test_a_huge_text_is_refused_and_only_its_beginning_kept(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(GOOD + b"\n" + json.dumps({"id": "x", "text": "a" * 10_000_000}).encode())
    _, bad = read_documents([path])
    assert (bad.id, len(bad.raw)) == ("x", 2000)
    assert bad.reason == "the text has 10,000,000 characters, more than 1,000,000; split it into documents"


def test_a_missing_named_id_is_never_derived(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n{"sku": 1, "text": "b"}')
    bad, _ = read_documents([path], id_field="sku")
    assert bad.reason == "no id: the field 'sku' is missing; the row has 'text'"


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.jsonl", b'{"id": 1}\n{"id": 2}\n', "line 1: no text: no usual text field; the row has 'id'"),
        ("a.jsonl", b"id,text\n1,good\n", "line 1: not JSON: Expecting value at column 1"),
        ("a.jsonl", b"[1, 2]", "line 1: not a JSON object but a number"),
        ("a.csv", b"id,text\n1,\n2,\n", "line 2: the text in 'text' is empty: null"),
        ("a.csv", b"id,text\n1,good,x\n2,bad,y\n", "line 2: the row has 3 cells, the header 2"),
    ],
)
def test_a_file_of_bad_rows_alone_is_refused_with_the_first_reason(tmp_path, name, data, reason):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        read_documents([path])
    assert caught.value.message.startswith(f"{path}: no row can be read; {reason}")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b"1,a,b", "the row has 3 cells, the header 2; put cells that hold the delimiter in quotes"),
        (b"1", "the row has 1 cells, the header 2; it ends early"),
        (b'1,"a"b,c', "not CSV: ',' expected after '\"'"),
        (b"1,caf\xe9", "not UTF-8: byte 0xe9 at position 6; correct it, or name the file's encoding"),
        (b",a", "the id in 'id' is empty: null"),
    ],
)
def test_a_bad_csv_row_is_reported_and_the_rest_is_read(tmp_path, row, reason):
    path = tmp_path / "a.csv"
    path.write_bytes("id,text\n0,ä\n".encode() + row + b"\n2,y\n")
    first, bad, last = read_documents([path])
    assert (first, last) == (Document("0", "ä"), Document("2", "y"))
    assert (bad.line, bad.reason) == (3, reason)
    assert bad.raw == row.decode("utf-8", "backslashreplace")


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.txt", b"hello", "a.txt has a format that is not known. Readable are .jsonl, .ndjson"),
        ("a.parquet.gz", b"hello", "a.parquet.gz cannot be read as Parquet: "),
        ("a.jsonl", b"", "a.jsonl has no rows. Was it written completely?"),
        ("a.jsonl", b"\n \n", "a.jsonl has no rows."),
        ("a.csv", b"", "a.csv has no rows."),
        ("a.csv", b"id,text\n", "a.csv has no rows."),
        ("a.csv", b"id,words\n1,a\n", "a.csv has no text column. Name one with --text-field: 'id', 'words'."),
        ("a.csv", b"id;text\n1,a\n", "a.csv: the header 'id;text' is not separated as the file's name says."),
        ("a.csv", b"id,t\xe9xt\n", "a.csv is not UTF-8: in windows-1252, line 1 reads 'id,téxt'."),
        (
            "a.csv",
            b'id,text\n1,"a, b\n2,c, d\n',
            "a.csv: the row that begins in line 2 has a quote that is never closed.",
        ),
        ("a.jsonl.gz", b"plain", "a.jsonl.gz: no row can be read; line 1: not JSON: Expecting value at column 1."),
        (
            "a.jsonl.gz",
            gzip.compress(GOOD, mtime=0)[:-4],
            "a.jsonl.gz is cut off in the middle. Copy or download it again.",
        ),
        ("a.parquet", b"PAR1", "a.parquet cannot be read as Parquet: "),
    ],
)
def test_a_bad_file_stops_at_once(tmp_path, name, data, message):
    good = tmp_path / "good.jsonl"
    good.write_bytes(GOOD)
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        read_documents([good, path])
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(InputError, match=r"There is no file .*nope\.jsonl\. Check the name"):
        read_documents([tmp_path / "nope.jsonl"])
    (tmp_path / "good.jsonl").write_bytes(GOOD)
    with pytest.raises(InputError, match="There is no file"):  # before the first document of the one that is there
        read_documents([tmp_path / "good.jsonl", tmp_path / "nope.jsonl"])
    with pytest.raises(InputError, match=r"is a folder\. Name its files, e\.g\. .*/\*\.jsonl\."):
        read_documents([tmp_path])
    with pytest.raises(InputError, match="No file was given"):
        read_documents([])


def test_named_columns_must_exist(tmp_path):
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"a": ["x"], "text": ["y"]}), path)
    with pytest.raises(InputError, match=r"has no column 'sku'\. --id-field takes one of: 'a', 'text'\."):
        read_documents([path], id_field="sku")
    with pytest.raises(InputError, match=r"has no column 'words'\. Name one with --text-field: 'a', 'text'\."):
        read_documents([path], text_field="words")


def test_damage_further_down_ends_the_iteration(tmp_path):
    path = tmp_path / "a.csv.gz"
    rows = "".join(f"{i},text number {i * i}\n" for i in range(20_000))
    path.write_bytes(gzip.compress(f"id,text\n{rows}".encode())[:-2000])
    documents = read_documents([path])
    assert next(documents) == Document("0", "text number 0")
    with pytest.raises(InputError, match="cut off in the middle"):
        list(documents)


def test_an_id_that_is_an_object_with_the_text_in_it_is_bad(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": {"text": "Leaks"}}\n{"id": {"text": "Pours well"}}\n')
    with pytest.raises(InputError, match="the id in 'id' is an object, not a string"):
        read_documents([path], id_field="id", text_field="id.text")
    assert without(without({"id": {"text": "Leaks"}, "stars": 2}, ("id",)), ("id", "text")) == {"stars": 2}
