"""Spreadsheets, made by openpyxl."""

import datetime
import gzip
import io
import zipfile

import openpyxl
import pytest

from retriever.core.errors import InputError
from retriever.core.types import Document
from retriever.corpus.fields import FieldNames
from retriever.corpus.readers import read_documents, read_fields
from retriever.corpus.rows import ReadingOptions

HEADER = ["id", "text", "stars", "date", "at", "ok", "code"]
ROWS = [
    [1, "The handle wobbles", 2, datetime.date(2024, 5, 6), datetime.datetime(2024, 5, 6, 10, 30), True, "007"],
    [2, "It pours well\nand quietly", 4.5, None, datetime.datetime(2024, 6, 1, 8), False, "12"],
]
DOCUMENTS = [
    Document(
        "1",
        "The handle wobbles",
        {"stars": 2, "date": "2024-05-06", "at": "2024-05-06T10:30:00", "ok": True, "code": "007"},
    ),
    Document("2", "It pours well\nand quietly", {"stars": 4.5, "at": "2024-06-01T08:00:00", "ok": False, "code": "12"}),
]


def book(**sheets):
    """Return a workbook with some rows a sheet."""
    made = openpyxl.Workbook()
    made.remove(made.active)
    for name, rows in sheets.items():
        sheet = made.create_sheet(name)
        for row in rows:
            sheet.append(row)
    buffer = io.BytesIO()
    made.save(buffer)
    return buffer.getvalue()


def read(tmp_path, data, name="a.xlsx", **options):
    path = tmp_path / name
    path.write_bytes(data)
    reading = read_documents([path], options=ReadingOptions(**options))
    return list(reading), [note.removeprefix(f"{path}: ") for note in reading.notes]


@pytest.mark.parametrize("name", ["a.xlsx", "a.csv"])
def test_a_sheet_is_read_with_typed_cells_and_line_numbers(tmp_path, name):
    rows, notes = read(tmp_path, book(Reviews=[HEADER, *ROWS]), name)
    assert rows == DOCUMENTS
    assert [row.line for row in rows] == [2, 3]
    assert notes == ["'code' is text, as '007' is not a number's plain form; 'stars' read as a number"]


def test_a_zipped_spreadsheet_is_one(tmp_path):
    assert read(tmp_path, gzip.compress(book(Reviews=[HEADER, *ROWS])), "a.xlsx.gz")[0] == DOCUMENTS


def test_a_title_above_the_header_and_blank_rows_are_skipped(tmp_path):
    rows, notes = read(tmp_path, book(Reviews=[["Reviews of May"], [], HEADER, ROWS[0], [], ROWS[1]]))
    assert [row.line for row in rows] == [4, 6]
    assert notes[0].startswith("2 lines before the header skipped")


def test_a_table_that_begins_below_and_right_of_the_first_cell_is_read(tmp_path):
    rows, _ = read(tmp_path, book(Reviews=[[], *([None, None, *row] for row in [HEADER, *ROWS])]))
    assert rows == DOCUMENTS
    assert [row.line for row in rows] == [3, 4]


def test_the_first_sheet_with_texts_is_taken_and_another_by_its_name(tmp_path):
    data = book(Notes=[["made", "by"], [1, 2]], May=[HEADER, *ROWS], June=[["id", "text"], [9, "Leaks"]])
    rows, notes = read(tmp_path, data)
    assert rows == DOCUMENTS
    assert notes[0].startswith("sheet 'May' read")
    assert read(tmp_path, data, sheet="June")[0] == [Document("9", "Leaks")]
    with pytest.raises(InputError, match=r"has no sheet 'Jun'.*June"):
        read(tmp_path, data, sheet="Jun")
    fields = read_fields(tmp_path / "a.xlsx", FieldNames(text_needed=False))
    assert next(fields).values["text"] == "The handle wobbles"


def test_a_hidden_sheet_is_read_by_its_name_alone(tmp_path):
    made = openpyxl.load_workbook(io.BytesIO(book(Old=[["id", "text"], [9, "Leaks"]], May=[HEADER, *ROWS])))
    made["Old"].sheet_state = "hidden"
    made.save(tmp_path / "b.xlsx")
    data = (tmp_path / "b.xlsx").read_bytes()
    assert read(tmp_path, data)[0] == DOCUMENTS
    assert read(tmp_path, data, sheet="Old")[0] == [Document("9", "Leaks")]


def test_a_book_without_texts_is_refused(tmp_path):
    with pytest.raises(InputError, match="has no text column"):
        read(tmp_path, book(Numbers=[["a", "b"], [1, 2], [3, 4]]))
    with pytest.raises(InputError, match="has no rows"):
        read(tmp_path, book(Empty=[]))


@pytest.mark.parametrize("cut", [100, 1000, -200])
def test_a_damaged_spreadsheet_is_refused_by_its_name(tmp_path, cut):
    with pytest.raises(InputError, match=r"a\.xlsx"):
        read(tmp_path, book(Reviews=[HEADER, *ROWS])[:cut])


OPEN_DOCUMENT = """<?xml version="1.0" encoding="UTF-8"?>
<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
  xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"
  xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" office:version="1.2"><office:body><office:spreadsheet>
  <table:table table:name="Reviews">{rows}</table:table></office:spreadsheet></office:body></office:document-content>"""
MANIFEST = """<?xml version="1.0"?>
<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">
<manifest:file-entry manifest:full-path="/" manifest:media-type="application/vnd.oasis.opendocument.spreadsheet"/>
</manifest:manifest>"""
OPEN_CELLS = {
    str: '<table:table-cell office:value-type="string"><text:p>{0}</text:p></table:table-cell>',
    int: '<table:table-cell office:value-type="float" office:value="{0}"><text:p>{0}</text:p></table:table-cell>',
    datetime.datetime: '<table:table-cell office:value-type="date" office:date-value="{0}"/>',
    type(None): "<table:table-cell/>",
}


def test_sheets_of_open_document(tmp_path):
    rows = [["id", "text", "stars", "at"], [1, "Leaks", 2, datetime.datetime(2024, 5, 6, 10, 30)], [2, "Fine", None]]
    cells = ("".join(OPEN_CELLS[type(value)].format(str(value).replace(" 1", "T1")) for value in row) for row in rows)
    body = "".join(f"<table:table-row>{row}</table:table-row>" for row in cells)
    with zipfile.ZipFile(tmp_path / "a.ods", "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("META-INF/manifest.xml", MANIFEST)
        archive.writestr("content.xml", OPEN_DOCUMENT.format(rows=body))
    assert list(read_documents([tmp_path / "a.ods"])) == [
        Document("1", "Leaks", {"stars": 2, "at": "2024-05-06T10:30:00"}), Document("2", "Fine"),
    ]  # fmt: skip
