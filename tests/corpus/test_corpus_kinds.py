"""Columns are typed as a whole: numbers only where every value reads back, ratings and dates as people write them."""

import gzip
import io
import json
import zipfile

import pytest

from retriever.core.errors import InputError
from retriever.core.types import BadRow, Document
from retriever.corpus import json_text
from retriever.corpus.fields import Columns
from retriever.corpus.readers import read_documents, read_given
from retriever.corpus.rows import ReadingOptions


def read(tmp_path, data, name="a.csv", **settings):
    """Read a file of that content; return its documents' metadata, and the note without the file's name."""
    path = tmp_path / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    rows = read_documents([path], **settings)
    documents = [row for row in rows if isinstance(row, Document)]
    (note,) = rows.notes or [""]
    return documents, note.removeprefix(f"{path}: ")


def column(tmp_path, *cells, name="x", **settings):
    """Return the values of a column of a table, and its note."""
    rows = "".join(f"{number},a text,{cell}\n" for number, cell in enumerate(cells))
    documents, note = read(tmp_path, f"id,text,{name}\n{rows}", **settings)
    return [document.metadata.get(name) for document in documents], note


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1", "-2", "0"], [1, -2, 0]),
        (["1", "", " 3 "], [1, None, 3]),
        (["0.5", "2", "-1.25"], [0.5, 2, -1.25]),
        (["1700000000000000001", "99999999999999999999999"], [1700000000000000001, 99999999999999999999999]),
        (["1", "NaN", "3"], [1, None, 3]),
        (["2.1", "2.10"], ["2.1", "2.10"]),
        (["2.1", "2.10.1"], ["2.1", "2.10.1"]),
        (["1", "01234"], ["1", "01234"]),
        (["1", "1e5"], ["1", "1e5"]),
        (["1", "+1"], ["1", "+1"]),
        (["1", "-0"], ["1", "-0"]),
        (["1", ".5"], ["1", ".5"]),
        (["1", "two"], ["1", "two"]),
        (["NaN", "nan"], ["NaN", "nan"]),
        (["0.1234567890123456789"], ["0.1234567890123456789"]),
        (['"1,000"', "5"], ["1,000", "5"]),
        (['"12,50"', "5"], ["12,50", "5"]),
        (["true", "false", ""], [True, False, None]),
        (["TRUE", "TRUE"], [True, True]),
        (["true", "yes"], ["true", "yes"]),
        (["true", "False"], ["true", "False"]),
    ],
)
def test_a_column_is_typed_as_a_whole(tmp_path, cells, values):
    found, _ = column(tmp_path, *cells)
    assert found == values
    assert list(map(type, found)) == list(map(type, values))


def test_the_last_of_many_values_decides(tmp_path):
    values, note = column(tmp_path, *["2.1"] * 5000, "2.10")
    assert set(values) == {"2.1", "2.10"}
    assert note == "'x' is text, as '2.10' is not a number's plain form"


def test_numbers_in_quotes_are_text_where_others_have_none(tmp_path):
    rows = 'id,text,zip,stars\n1,"good",12345,"5"\n2,"bad",54321,"1"\n'
    (first, _), note = read(tmp_path, rows)
    assert first.metadata == {"zip": 12345, "stars": "5"}
    assert note == "'stars' is text, as its quotes say; 'zip' read as a number"


def test_quotes_around_everything_tell_nothing(tmp_path):
    (first, _), _ = read(tmp_path, '"id","text","stars","zip"\n"1","good","5","12345"\n"2","bad","1","01234"\n')
    assert first.metadata == {"stars": 5, "zip": "12345"}


def test_raw_keeps_what_is_in_the_file(tmp_path):
    data = "id,text,stars,date\n1.0,good,4 out of 5 stars,3. Mai 2024\n2.0,bad,2,\n"
    documents, note = read(tmp_path, data, options=ReadingOptions(raw=True))
    assert documents == [
        Document("1.0", "good", {"stars": "4 out of 5 stars", "date": "3. Mai 2024"}),
        Document("2.0", "bad", {"stars": "2"}),
    ]
    assert note == ""


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["4 out of 5 stars", "2 out of 5 stars"], [4, 2]),
        (["★★★★☆", "★☆☆☆☆"], [4, 1]),
        (['"4,5"', "4"], [4.5, 4]),
        (["4/5", "2/5"], [4, 2]),
        (["vier Sterne", "zwei Sterne"], [4, 2]),
        (["4.50", "3.00"], [4.5, 3]),
        (["5 stars", "4 stars", "3", "1", "none given"], [5, 4, 3, 1, "none given"]),
        (["good", "4 stars"], ["good", "4 stars"]),
        (["4", "80"], [4, 80]),
    ],
)
@pytest.mark.parametrize("name", ["stars", "Rating", "Bewertung", "star_rating"])
def test_ratings(tmp_path, cells, values, name):
    found, note = column(tmp_path, *cells, name=name)
    assert found == values
    assert (f"{name!r} read as stars" in note) == (found != cells and "number" not in note)


def test_what_says_stars_is_a_rating_in_any_column_and_fractions_are_not(tmp_path):
    assert column(tmp_path, "4 stars", "3 stars", name="helpfulness")[0] == [4, 3]
    assert column(tmp_path, "4/5", "3/5", name="pages")[0] == ["4/5", "3/5"]


@pytest.mark.parametrize(
    ("cells", "values", "said"),
    [
        (["31/01/2024", "02/03/2024"], ["2024-01-31", "2024-03-02"], "'x' read as date (day first)"),
        (["01/31/2024", "02/03/2024"], ["2024-01-31", "2024-02-03"], "'x' read as date (month first)"),
        (["3.5.2024", "13.5.2024"], ["2024-05-03", "2024-05-13"], "'x' read as date"),
        (["3.5.2024", "04/05/2024"], ["2024-05-03", "2024-05-04"], "'x' read as date (day first)"),
        (["3. Mai 2024", "May 4, 2024"], ["2024-05-03", "2024-05-04"], "'x' read as date"),
        (
            ["01/02/2024", "03/04/2024"],
            ["01/02/2024", "03/04/2024"],
            "'x': day or month first is not clear, so that dates like '01/02/2024' stay as they are",
        ),
        (
            ["31/01/2024", "01/31/2024", "02/03/2024"],
            ["2024-01-31", "2024-01-31", "02/03/2024"],
            "'x': day or month first is not clear, so that dates like '02/03/2024' stay as they are",
        ),
        (["2024-05-03", "2024-05-04T10:00:00Z"], ["2024-05-03", "2024-05-04T10:00:00Z"], ""),
        (["2024-05-03"] * 4 + ["soon"], ["2024-05-03"] * 4 + ["soon"], ""),
        (["May 3, 2024"] * 4 + ["soon"], ["2024-05-03"] * 4 + ["soon"], "'x' read as date"),
        (["2.10.24", "2.11.24"], ["2.10.24", "2.11.24"], ""),  # versions
        (["2024.1.2", "2024.1.13"], ["2024.1.2", "2024.1.13"], ""),
        (["1717113600", "1717113601"], [1717113600, 1717113601], "'x' read as a number"),
    ],
)
def test_dates(tmp_path, cells, values, said):
    found, note = column(tmp_path, *(f'"{cell}"' if "," in cell else cell for cell in cells))
    assert found == values
    assert note.startswith(said) if said else "date" not in note


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1717113600", "1717150000"], ["2024-05-31", "2024-05-31T10:06:40Z"]),
        (["1717113600000", "May 3, 2024"], ["2024-05-31", "2024-05-03"]),
        (["2.10.24", "2.11.24"], ["2024-10-02", "2024-11-02"]),
        (["5", "17"], [5, 17]),
    ],
)
@pytest.mark.parametrize("name", ["date", "created_at", "Datum"])
def test_dates_in_columns_that_are_called_so(tmp_path, cells, values, name):
    assert column(tmp_path, *(f'"{cell}"' if "," in cell else cell for cell in cells), name=name)[0] == values


def test_a_column_tells_the_order_for_another(tmp_path):
    (first, _), _ = read(tmp_path, "id,text,begun,ended\n1,a,01/02/2024,01/31/2024\n2,b,03/04/2024,03/05/2024\n")
    assert first.metadata == {"begun": "2024-01-02", "ended": "2024-01-31"}


def test_the_order_is_that_of_all_values_of_json_too(tmp_path):
    rows = [{"id": row, "text": "a", "at": {"day": "01/02/2024"}} for row in range(2500)]
    rows.append({"id": "last", "text": "a", "at": {"day": "01/13/2024"}})
    documents, note = read(tmp_path, "\n".join(map(json.dumps, rows)), "a.jsonl")
    assert [documents[0].metadata, documents[-1].metadata] == [
        {"at": {"day": "2024-01-02"}},
        {"at": {"day": "2024-01-13"}},
    ]
    assert note == "'at.day' read as date (month first)"


def test_fields_that_only_later_rows_of_json_have_are_typed_too(tmp_path):
    rows = [{"id": row, "text": "a", "n": row} for row in range(1500)]
    rows += [{"id": "x", "text": "a", "n": "N/A", "date": "May 3, 2024"}, {"id": "y", "text": "b", "n": 7}]
    documents, note = read(tmp_path, "\n".join(map(json.dumps, rows)), "a.jsonl")
    assert [document.metadata for document in documents[-3:]] == [
        {"n": 1499}, {"n": None, "date": "2024-05-03"}, {"n": 7},
    ]  # fmt: skip
    assert note == "'date' read as date; 'N/A' in 'n' read as missing"


def test_a_person_says_what_columns_hold(tmp_path):
    columns = Columns(text="text", stars="grade", date="moment")
    data = "id,text,grade,moment\n1,a,4 of 5,1717113600\n2,b,two,soon\n"
    (first, second), _ = read(tmp_path, data, options=ReadingOptions(columns=columns))
    assert first.metadata == {"grade": 4, "moment": "2024-05-31"}
    assert second.metadata == {"grade": 2, "moment": "soon"}


def test_documents_of_a_program_are_read_like_those_of_files():
    given = [
        Document("a", "x", {"stars": "4 out of 5 stars", "date": "May 3, 2024", "size": "4/5"}),
        BadRow("f", 1, None, "why", "raw"),
        Document("b", "y", {"stars": "2 out of 5 stars", "date": None}),
    ]
    documents = read_given(iter(given))
    assert list(documents) == [
        Document("a", "x", {"stars": 4, "date": "2024-05-03", "size": "4/5"}),
        given[1],
        Document("b", "y", {"stars": 2, "date": None}),
    ]
    assert documents.notes == ["documents: 'stars' read as stars; 'date' read as date"]
    plain = [Document("c", "z", {"stars": 4, "date": "2024-05-03"})]
    assert next(read_given(plain)) == plain[0]


def test_titles_that_sound_like_ratings_stay(tmp_path):
    rows = [{"id": row, "text": "It works", "Title": "5 stars", "summary": "Five stars"} for row in range(3)]
    (first, *_), note = read(tmp_path, "\n".join(map(json.dumps, rows)), "a.jsonl")
    assert (first.metadata, note) == ({"Title": "5 stars", "summary": "Five stars"}, "")


def test_nan_and_infinities_are_null(tmp_path):
    (first, second), _ = read(
        tmp_path, '{"id": 1, "text": "a", "x": NaN}\n{"id": 2, "text": "b", "x": [-Infinity, 1]}\n', "a.jsonl"
    )
    assert (first.metadata, second.metadata) == ({"x": None}, {"x": [None, 1]})


@pytest.mark.parametrize(
    ("ids", "found"),
    [
        (["1.0", "2.0"], ["1", "2"]),
        (["1", "2.0"], ["1", "2"]),
        (["1.0", "1.1"], ["1.0", "1.1"]),
        (["007", "1.0"], ["007", "1"]),
        (["a1.0", "b"], ["a1.0", "b"]),
    ],
)
def test_ids_that_are_whole_numbers_lose_their_decimals(tmp_path, ids, found):
    documents, note = read(tmp_path, "id,text\n" + "".join(f"{one},text\n" for one in ids))
    assert [document.id for document in documents] == found
    assert ("whole numbers" in note) == (ids != found)
    lines = [json.dumps({"id": float(one), "text": "a"}) for one in ("1.0", "2.5")]
    assert [document.id for document in read(tmp_path, "\n".join(lines), "b.jsonl")[0]] == ["1", "2.5"]


def test_a_row_without_a_field_that_others_have_is_read_as_it_is(tmp_path):
    rows = [{"id": 1, "text": "a", "date": "May 3, 2024", "m": {"day": "May 3, 2024"}}, {"id": 2, "text": "b", "m": {}}]
    documents, _ = read(tmp_path, "\n".join(map(json.dumps, rows)), "a.jsonl")
    assert [document.metadata for document in documents] == [
        {"date": "2024-05-03", "m": {"day": "2024-05-03"}},
        {"m": {}},
    ]


@pytest.mark.parametrize(
    "data",
    [
        '[{"id": 1, "text": "a"}, {"id": 2, "text": "b"}]',
        '[\n {\n  "id": 1,\n  "text": "a"\n },\n {\n  "id": 2, "text": "b"}\n]\n',
        '[{"id": 1, "text": "a"},\n{"id": 2, "text": "b"}\n]',
        '{\n"id": 1,\n"text": "a"\n}\n{\n"id": 2,\n"text": "b"\n}\n',
        '\ufeff[{"id": 1, "text": "a"}]\n[{"id": 2, "text": "b"}]',
    ],
)
@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "-"])
def test_json_is_read_as_what_it_is(tmp_path, monkeypatch, data, name):
    if name == "-":
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data.encode())))
        documents = list(read_documents(["-"]))
    else:
        documents, _ = read(tmp_path, data, name)
    assert documents == [Document("1", "a"), Document("2", "b")]


def test_a_long_array_is_read_in_blocks_and_its_lines_are_counted(tmp_path):
    rows = [{"id": row, "text": "word " * 40} for row in range(3000)]
    data = "[" + ",\n".join(map(json.dumps, rows)) + ",\n3\n]"
    path = tmp_path / "a.json"
    path.write_text(data)
    *documents, bad = read_documents([path])
    assert [document.line for document in documents] == list(range(1, 3001))
    assert (bad.line, bad.reason) == (3001, "not a JSON object but a number")


FIRST, SECOND = '{"id": 1, "text": "a"}', '{"id": 2, "text": "b"}'
BROKEN = {
    "line": (f"[{FIRST},\n nope\n{SECOND}]", 2, "Expecting value in line 2", "nope"),
    "lines": (f'[{FIRST},\n{{"id": 3,\nno\n{SECOND}', 2, "in double quotes in line 3", '{"id": 3,'),
    "deeper": (
        f'[\n {FIRST},\n {{\n  "replies": [\n   {{"id": 3, "text": "c"}}\n   nope\n   {{"id": 4, "text": "d"}}\n  ]\n'
        ' }, {\n  "id": 2,\n  "text": "b"\n }\n]',
        3,
        "Expecting ',' delimiter in line 6",
        "{",
    ),
    "end": (f'[{FIRST},\n{SECOND},\n{{"id": 3, "te', 3, "Unterminated string", '{"id": 3, "te'),
    "deep": (f"[{FIRST},\n{'[' * 100_000}\n{SECOND}", 2, "nests too deeply", "[" * 2000),
    "behind": (f"[{FIRST} nope,\n{SECOND}]", 1, "Expecting value in line 1", "nope,"),
}


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
@pytest.mark.parametrize(("data", "line", "reason", "raw"), BROKEN.values(), ids=BROKEN)
def test_a_value_that_is_no_json_is_a_bad_row_and_the_rest_is_read(tmp_path, name, data, line, reason, raw):
    (tmp_path / name).write_text(data)
    rows = list(read_documents([tmp_path / name]))
    (bad,) = [row for row in rows if isinstance(row, BadRow)]
    assert [row for row in rows if row is not bad] == [Document("1", "a"), Document("2", "b")]
    assert (bad.line, bad.raw) == (line, raw)
    assert reason in bad.reason


def test_values_that_are_broken_are_not_kept_in_memory(tmp_path, monkeypatch):
    held, fill = [], json_text.JsonText._fill
    monkeypatch.setattr(json_text.JsonText, "_fill", lambda values: fill(values) or held.append(len(values._text)))
    count, path = 20_000, tmp_path / "a.json"
    path.write_text("[" + '{"id": 1 "text"},\n' * count + "x" * 5_000_000 + f"\n{SECOND}]")
    *bad, last = read_documents([path])
    assert last == Document("2", "b")
    assert [row.line for row in bad] == list(range(1, count + 1))  # the last with what follows it
    assert max(held) < 400_000


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            member = zipfile.ZipInfo(".".join(name.rsplit("_", 1)))  # of 1980: no test is named by the clock
            archive.writestr(member, data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


CSV = "id,text\n1,a\n2,b\n"


@pytest.mark.parametrize(
    ("name", "data", "note"),
    [
        ("a.csv", gzip.compress(CSV.encode(), mtime=0), "unzipped, as it is a gzip file"),
        ("a.csv", zipped(b_csv=CSV), "unzipped, as it is a zip file"),
        ("a.zip", zipped(b_csv=CSV), ""),
        ("a.zip", zipped(b_jsonl='{"id": 1, "text": "a"}\n{"id": 2, "text": "b"}'), ""),
        (
            "a.jsonl",
            gzip.compress(b'{"id": 1, "text": "a"}\n{"id": 2, "text": "b"}', mtime=0),
            "unzipped, as it is a gzip file",
        ),
        ("a.csv.gz", CSV.encode(), ""),
        ("A.CSV.GZ", gzip.compress(CSV.encode(), mtime=0), ""),
        ("a.csv", gzip.compress(CSV.encode("utf-16"), mtime=0), "unzipped, as it is a gzip file; read as UTF-16"),
    ],
)
def test_compressed_files_are_known_by_their_content(tmp_path, name, data, note):
    assert read(tmp_path, data, name) == ([Document("1", "a"), Document("2", "b")], note)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (zipped(a_csv=CSV, b_csv=CSV), "is a zip file that holds 2 files: 'a.csv', 'b.csv'. Unzip it"),
        (zipped(), "is a zip file that holds 0 files"),
        (zipped(**{"[Content_Types]_xml": "", "word/document_xml": ""}), "is a document of Office.* texts as CSV"),
        (zipped(**{"[Content_Types]_xml": "", "xl/workbook_xml": ""}), "cannot be read as a spreadsheet"),
        (zipped(a_csv=CSV)[:-30], "is a damaged zip file"),
        (gzip.compress(CSV.encode(), mtime=0)[:-12], "is cut off in the middle"),
    ],
)
def test_compressed_files_that_are_no_corpus_say_why(tmp_path, data, says):
    path = tmp_path / "a.csv"
    path.write_bytes(data)
    with pytest.raises(InputError, match=says):
        list(read_documents([path]))


def test_a_path_of_keys_names_a_field_inside_objects(tmp_path):
    rows = '{"ticket": {"no": 7, "fields": {"body": "no refund", "lang": "en"}}, "n": 1}\n'
    documents, _ = read(tmp_path, rows, "a.jsonl", id_field="ticket.no", text_field="ticket.fields.body")
    assert documents == [Document("7", "no refund", {"ticket": {"fields": {"lang": "en"}}, "n": 1})]
    rows = '{"id": 1, "a.b": "exact", "a": {"b": "inside"}}\n'
    documents, _ = read(tmp_path, rows, "a.jsonl", text_field="a.b")
    assert documents == [Document("1", "exact", {"a": {"b": "inside"}})]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (f"{FIRST},\n{SECOND},\n", [1, 2]),
        (f"{FIRST}{SECOND}\n", [1, 1]),
        (f"\x1e{FIRST}\n\x1e{SECOND}\n", [1, 2]),
        (f"[{FIRST}]\n[{SECOND}]\n", [1, 2]),
        (f"[[{FIRST}],\n[{SECOND}]]", [1, 2]),
    ],
    ids=["a comma behind each", "two a line", "text sequences", "an array a line", "an array of arrays"],
)
def test_objects_may_stand_beside_each_other_or_in_arrays(tmp_path, data, lines):
    path = tmp_path / "a.jsonl"
    path.write_text(data)
    rows = list(read_documents([path]))
    assert rows == [Document("1", "a"), Document("2", "b")]
    assert [row.line for row in rows] == lines


@pytest.mark.parametrize("separator", [",", "\n"])
def test_lists_of_cells_are_a_table(tmp_path, separator):
    lists = [
        '["id", "text", "stars", "tags"]',
        '[1, "Leaks", 2, ["a"]]',
        '[2, "Pours, \\n well", 5, null]',
        "7",
    ]
    path = tmp_path / "a.json"
    path.write_text(f"[{','.join(lists)}]" if separator == "," else "\n".join(lists))
    *rows, bad = read_documents([path])
    assert rows == [
        Document("1", "Leaks", {"stars": 2, "tags": '["a"]'}), Document("2", "Pours, \n well", {"stars": 5}),
    ]  # fmt: skip
    assert (bad.line, bad.reason) == (4, "not a list but a number")


def test_lists_of_cells_without_a_header_lose_none(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('[["The handle wobbles a lot", 2], ["It pours without a drip", 5], ["Leaks at the lid again", 1]]')
    reading = read_documents([path])
    assert [row.metadata["column 2"] for row in reading] == [2, 5, 1]
    assert "no header" in reading.notes[0]
