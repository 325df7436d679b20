"""Tables in other shapes than their header's: each kind that programs write is read, and said in the notes."""

import io

import pytest

from retriever.core.types import BadRow, Document
from retriever.corpus.json_text import JsonText
from retriever.corpus.readers import read_documents


def read(tmp_path, data, name="a.csv", **settings):
    """Read a file of that content; return its documents and bad rows, and the note without the file's name."""
    path = tmp_path / name
    path.write_bytes(data.encode())
    reading = read_documents([path], **settings)
    rows = list(reading)
    (note,) = reading.notes or [""]
    return rows, note.removeprefix(f"{path}: ")


def texts(rows):
    return [(row.id, row.text) for row in rows if isinstance(row, Document)]


def test_a_header_that_comes_again_is_no_row(tmp_path):
    head = "id,text,stars\n"
    rows, note = read(tmp_path, f"{head}1,Handle wobbles,2\n{head}2,Pours well,5\n id , text , stars \n3,Leaks,1\n")
    assert rows == [
        Document("1", "Handle wobbles", {"stars": 2}),
        Document("2", "Pours well", {"stars": 5}),
        Document("3", "Leaks", {"stars": 1}),
    ]
    assert [row.line for row in rows] == [2, 4, 6]
    assert "the header again in 2 rows, skipped" in note


@pytest.mark.parametrize("again", ["ID,Text,STARS\n2,Pours well,5", "\ufeffid,text,stars,\n2,Pours well,5"])
def test_a_header_that_comes_again_may_be_in_other_letters_or_behind_a_byte_order_mark(tmp_path, again):
    rows, note = read(tmp_path, f"id,text,stars\n1,Handle wobbles,2\n{again}\n3,Leaks,1\n")
    assert [(row.id, row.metadata["stars"]) for row in rows] == [("1", 2), ("2", 5), ("3", 1)]
    assert "the header again in 1 row, skipped" in note


def test_cells_behind_a_header_in_another_order_go_by_that_order(tmp_path):
    rows, _ = read(tmp_path, "id,text,stars\n1,Handle wobbles,2\nstars,id,text\n5,2,Pours well\n1,3,Leaks\n")
    assert texts(rows) == [("1", "Handle wobbles"), ("2", "Pours well"), ("3", "Leaks")]
    assert [row.metadata for row in rows] == [{"stars": 2}, {"stars": 5}, {"stars": 1}]


@pytest.mark.parametrize(
    ("data", "metadata"),
    [
        (
            "7,2024-02-01,The handle wobbles a lot\n9,2024-02-02,It never drips a bit\n7,2024-02-03,Leaks at the lid\n",
            {"column 1": 7, "column 2": "2024-02-01"},
        ),
        (
            "bad,The handle wobbles a lot\ngood,It pours without a drip\nbad,Leaks at the lid again\n",
            {"column 1": "bad"},
        ),
        ("3,,The handle wobbles a lot\n9,x,It pours without a drip\n5,,Leaks at the lid again\n", {"column 1": 3}),
    ],
)
def test_a_table_without_a_header_keeps_its_first_row(tmp_path, data, metadata):
    rows, note = read(tmp_path, data)
    assert [row.text for row in rows] == [line.split(",")[-1] for line in data.splitlines()]
    assert rows[0].metadata == metadata
    assert note.startswith("no header: the columns are called 'column 1' to ")


@pytest.mark.parametrize(
    "header", ["id,text,2023", "what they wrote,2023,2024", "How do you like our new kettle?,Would you buy it again?,x"]
)
def test_a_header_of_questions_or_years_is_one(tmp_path, header):
    rows, note = read(
        tmp_path,
        f"{header}\nThe handle wobbles a lot,The spout drips now,4\nIt pours without a drip,yes it does so,5\n",
    )
    assert len(rows) == 2
    assert "no header" not in note
    rows, _ = read(tmp_path, "remark,2019\nThe handle wobbles a lot,3\nIt pours without a drip,4\n")
    assert rows[0].metadata == {"2019": 3}


def test_rows_that_lack_their_last_cells_are_filled_up(tmp_path):
    rows, note = read(tmp_path, "id,text,stars,shop\n1,Handle wobbles,2,Kiel\n2,Pours well,5\n3,Leaks\n4,Fine,4,Bonn\n")
    assert rows == [
        Document("1", "Handle wobbles", {"stars": 2, "shop": "Kiel"}),
        Document("2", "Pours well", {"stars": 5}),
        Document("3", "Leaks"),
        Document("4", "Fine", {"stars": 4, "shop": "Bonn"}),
    ]
    assert "empty cells added to 2 rows that lacked their last" in note


def test_the_rest_of_a_text_that_a_line_end_breaks_is_no_row_of_its_own(tmp_path):
    rows, _ = read(tmp_path, "id,text,stars\n1,Handle wobbles,2\n2,Pours well\nand never drips,5\n3,Leaks,1\n")
    assert texts(rows) == [("1", "Handle wobbles"), ("2", "Pours well"), ("3", "Leaks")]
    (bad,) = [row for row in rows if isinstance(row, BadRow)]
    assert (bad.line, bad.raw) == (4, "and never drips,5")


@pytest.mark.parametrize("header", ["id;text;stars", "id;text;stars;"])
def test_a_delimiter_behind_every_row_is_no_cell(tmp_path, header):
    rows, note = read(tmp_path, f"{header}\n1;Handle wobbles;2;\n2;Pours well;5;\n")
    assert rows == [Document("1", "Handle wobbles", {"stars": 2}), Document("2", "Pours well", {"stars": 5})]
    assert ("a delimiter at the end of 2 rows ignored" in note) == (not header.endswith(";"))


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("start", [0, 1])
def test_a_column_that_numbers_the_rows_needs_no_name(tmp_path, mark, start):
    lines = ["key,comment,stars", *(f"{start + at},k{at},It leaks at night,{at}" for at in range(3))]
    rows, note = read(tmp_path, "\n".join(lines).replace(",", mark))
    assert [(row.text, row.metadata) for row in rows] == [
        ("It leaks at night", {"key": f"k{at}", "stars": at}) for at in range(3)
    ]
    assert "the row numbers in 'column 1' left out" in note


def test_semicolons_are_found_where_the_first_rows_are_short(tmp_path):
    rows, _ = read(tmp_path, "id;text;shop;reply\n1;Handle, wobbles\n2;Pours well\n3;Leaks, now;Kiel;Sorry\n")
    assert texts(rows) == [("1", "Handle, wobbles"), ("2", "Pours well"), ("3", "Leaks, now")]


def test_a_blank_stands_before_or_behind_a_quoted_cell(tmp_path):
    rows, _ = read(tmp_path, 'id, text, stars\n1, "Handle, wobbling", 2\n2,"Pours, well" ,5\n3, Leaks, 1\n')
    assert texts(rows) == [("1", "Handle, wobbling"), ("2", "Pours, well"), ("3", "Leaks")]
    assert [row.metadata["stars"] for row in rows] == [2, 5, 1]


@pytest.mark.parametrize("mark", [";", "|", "\t"])
def test_blanks_on_both_sides_of_a_delimiter_are_no_part_of_cells(tmp_path, mark):
    lines = ["id , text , city", '1 , "It leaks, twice" , Bonn ', "2 , Pours well , Kiel"]
    rows, _ = read(tmp_path, "\n".join(line.replace(" , ", f" {mark} ") for line in lines))
    assert rows == [
        Document("1", "It leaks, twice", {"city": "Bonn"}),
        Document("2", "Pours well", {"city": "Kiel"}),
    ]


def test_quotes_escaped_by_backslashes(tmp_path):
    data = (
        '"id","text"\n"1","She said \\"never again\\", twice"\n"2","\\"Fine\\" is\nwhat they call it"\n'
        '"3","C:\\\\logs\\\\"\n'
    )
    rows, note = read(tmp_path, data)
    assert texts(rows) == [
        ("1", 'She said "never again", twice'),
        ("2", '"Fine" is\nwhat they call it'),
        ("3", "C:\\logs\\"),
    ]
    assert note == "quotes are escaped by backslashes"


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ('"A 7" lid on a 5" pot"', 'A 7" lid on a 5" pot'),
        ('"Fits 5""', 'Fits 5"'),
        ('"Great" they said', '"Great" they said'),
        ('A 7" lid', 'A 7" lid'),
        ('"said ""so"", loudly"', 'said "so", loudly'),
        ('"said ""so"", 5" wide"', 'said "so", 5" wide'),
    ],
)
def test_quotes_inside_a_cell_are_characters(tmp_path, cell, text):
    rows, _ = read(tmp_path, f'id,text,stars\n1,Leaks,1\n2,{cell},5\n3,"Pours, well",4\n')
    assert texts(rows) == [("1", "Leaks"), ("2", text), ("3", "Pours, well")]


@pytest.mark.parametrize("last", ["They wrote never", 'They wrote never"'])
def test_a_quote_that_opens_no_cell_takes_no_rows_with_it(tmp_path, last):
    begin = "".join(f"{number}\tPours well {number}\t4\n" for number in range(300))
    rows, note = read(
        tmp_path, f'id\ttext\tstars\n{begin}a1\t"Leaks, they said\t1\na2\tFine\t5\na3\t{last}\t2\n', "a.tsv"
    )
    assert texts(rows)[300:] == [("a1", '"Leaks, they said'), ("a2", "Fine"), ("a3", last)]
    assert [row.line for row in rows][300:] == [302, 303, 304]
    assert "quotes read as characters in 1 place" in note


def test_lines_in_quotes_stay_one_text(tmp_path):
    data = 'id,text,stars\n1,"Leaks, badly\nand drips, too\n\n2,3,4",1\n2,"Fine\n1,so,4\n",5\n'
    rows, note = read(tmp_path, data)
    assert texts(rows) == [("1", "Leaks, badly\nand drips, too\n\n2,3,4"), ("2", "Fine\n1,so,4\n")]
    assert "characters" not in note
    rows, note = read(tmp_path, 'text,label\n"Leaks, badly\nand the motor too",bad\nFine,good\n')
    assert [row.text for row in rows] == ["Leaks, badly\nand the motor too", "Fine"]


@pytest.mark.parametrize(
    "end",
    [
        "Total: 2 rows\n",
        "\n(2 rows affected)\n",
        "Made by the shop,,\nAll rights reserved\n",
        "\nEND,,\n",
        "\nTotal,2,\n",
    ],
)
def test_lines_of_a_report_behind_the_rows_are_skipped(tmp_path, end):
    rows, note = read(tmp_path, f"id,text,stars\n1,Leaks,1\n2,Pours well,5\n{end}")
    assert rows == [Document("1", "Leaks", {"stars": 1}), Document("2", "Pours well", {"stars": 5})]
    assert "behind the last row skipped" in note


@pytest.mark.parametrize("last", ["3,,4", "3", ",,2"])
def test_a_last_row_without_a_text_is_reported(tmp_path, last):
    *_, bad = read(tmp_path, f"id,text,stars\n1,Leaks,1\n2,Pours well,5\n{last}\n")[0]
    assert (bad.line, bad.raw) == (4, last)


def test_a_last_row_with_a_title_alone_is_a_document(tmp_path):
    rows, _ = read(tmp_path, "id,title,text\n1,,Leaks\n2,,Pours well\n\nx3,Great!,\n")
    assert texts(rows)[-1] == ("x3", "Great!")


def test_a_long_line_among_lines_with_a_loose_quote_is_reported(tmp_path):
    long = "word " * 20_000
    rows, _ = read(tmp_path, f'id\ttext\n1\t"Leaks\n2\t{long}\n3\tFine\n4\tPours\n', "a.tsv")
    assert texts(rows) == [("1", '"Leaks'), ("3", "Fine"), ("4", "Pours")]
    (bad,) = [row for row in rows if isinstance(row, BadRow)]
    assert bad.line == 3


def test_words_for_missing_values_are_null_in_columns_of_numbers_and_dates(tmp_path):
    rows, note = read(
        tmp_path, "id,text,price,day,land\n1,Leaks,N/A,-,NA\n2,Fine,3.5,2024-05-01,None\n3,Pours,nan,0000-00-00,-\n"
    )
    assert [row.metadata for row in rows] == [
        {"land": "NA"},
        {"price": 3.5, "day": "2024-05-01", "land": "None"},
        {"land": "-"},
    ]
    assert "'N/A', 'nan', '-', '0000-00-00' in 'price', 'day' read as missing" in note


def test_nulls_of_databases_are_null_in_every_column(tmp_path):
    rows, _ = read(tmp_path, "id,text,land\n1,Leaks,NULL\n2,Fine,\\N\n3,Pours,DE\n")
    assert [row.metadata for row in rows] == [{}, {}, {"land": "DE"}]


@pytest.mark.parametrize("word", ["N/A", "#N/A", "-", "nan"])
def test_a_text_that_says_there_is_none_is_empty(tmp_path, word):
    (_, bad), _ = read(tmp_path, f"id,text\n1,Leaks\n2,{word}\n")
    assert (bad.line, bad.reason) == (3, f"the text in 'text' is empty: {word!r} stands for a missing value")


def test_a_null_in_brackets_leaves_numbers_dates_and_truth_values_what_they_are(tmp_path):
    rows, _ = read(tmp_path, "id,text,n,ok,at\n1,Leaks,(null),TRUE,(null)\n2,Fine,3,(null),2024-05-01 10:00\n")
    assert [row.metadata for row in rows] == [{"ok": True}, {"n": 3, "at": "2024-05-01T10:00"}]


def test_errors_of_spreadsheets_are_missing_numbers(tmp_path):
    rows, _ = read(tmp_path, "id,text,n\n1,Leaks,#DIV/0!\n2,Fine,3\n3,Pours,#VALUE!\n4,Drips,#NV\n")
    assert [row.metadata for row in rows] == [{}, {"n": 3}, {}, {}]


def test_numbers_of_json_are_null_where_a_word_says_so(tmp_path):
    lines = '{"id": 1, "text": "Leaks", "n": 2}\n{"id": 2, "text": "Fine", "n": "N/A"}\n'
    rows, note = read(tmp_path, lines, "a.jsonl")
    assert [row.metadata for row in rows] == [{"n": 2}, {"n": None}]
    assert note == "'N/A' in 'n' read as missing"


def test_a_column_of_texts_without_a_header_loses_none(tmp_path):
    rows, note = read(tmp_path, "The handle wobbles a lot\nIt pours without a drip\nLeaks at the lid again\n")
    assert [row.text for row in rows] == [
        "The handle wobbles a lot", "It pours without a drip", "Leaks at the lid again",
    ]  # fmt: skip
    assert "no header: the column is called 'column 1'" in note


@pytest.mark.parametrize("header", ["text", "How do you like the kettle?", "Please tell us:"])
def test_a_name_or_a_question_above_a_column_of_texts_is_its_header(tmp_path, header):
    rows, _ = read(tmp_path, f"{header}\nThe handle wobbles a lot\nIt pours without a drip\n")
    assert [row.text for row in rows] == ["The handle wobbles a lot", "It pours without a drip"]


@pytest.mark.parametrize(
    "data",
    [
        "| id | text | stars |\n|:---|------|------:|\n| 1 | Leaks | 2 |\n| 2 | Pours well | 5 |\n",
        "+--+--+--+\n| id | text | stars |\n+--+--+--+\n| 1 | Leaks | 2 |\n| 2 | Pours well | 5 |\n+--+--+--+\n",
        " id | text | stars \n----+------+-------\n  1 | Leaks | 2\n  2 | Pours well | 5\n(2 rows)\n",
    ],
    ids=["Markdown", "mysql", "psql"],
)
def test_a_drawn_line_is_no_row(tmp_path, data):
    rows, _ = read(tmp_path, data)
    assert rows == [Document("1", "Leaks", {"stars": 2}), Document("2", "Pours well", {"stars": 5})]


def test_lines_may_end_as_on_old_macs(tmp_path):
    rows, _ = read(tmp_path, 'id,text\r1,"The handle,\rit wobbles"\r2,Pours well\r')
    assert texts(rows) == [("1", "The handle,\nit wobbles"), ("2", "Pours well")]
    assert [row.line for row in rows] == [2, 4]


def test_a_cell_without_quotes_may_hold_a_carriage_return(tmp_path):
    rows, note = read(tmp_path, "id,text,stars\n1,The handle\rwobbles,2\n2,Pours well,5\n")
    assert texts(rows) == [("1", "The handle\rwobbles"), ("2", "Pours well")]
    assert (rows[1].line, "quotes" in note) == (3, False)


def test_bad_json_costs_one_row_where_lines_end_as_on_old_macs(tmp_path):
    lines = '{"id": 1, "text": "Leaks"}\r{"id": 2, "text": Leaks}\r{"id": 3, "text": "Pours well"}\r'
    rows, _ = read(tmp_path, lines, "a.jsonl")
    assert texts(rows) == [("1", "Leaks"), ("3", "Pours well")]
    assert [row.line for row in rows] == [1, 2, 3]


def test_an_object_over_several_lines_is_read_where_these_end_as_on_old_macs(tmp_path):
    rows, _ = read(tmp_path, '{\r"id": 1, "text": "Leaks"\r}\r{\r"id": 2, "text": "Pours well"\r}\r', "a.json")
    assert texts(rows) == [("1", "Leaks"), ("2", "Pours well")]
    assert [row.line for row in rows] == [1, 4]


def test_letters_of_utf_16_that_have_the_byte_of_a_line_end_end_no_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(f"id,text,{chr(0x0D15) * 200_000}\n1,Leaks,x\n2,Pours well,y\n".encode("utf-16"))
    assert [(row.id, row.line) for row in read_documents([path])] == [("1", 2), ("2", 3)]


def test_objects_without_lines_are_read_however_many_there_are():
    text = io.StringIO('{"text": "Leaks"}' * 100)
    assert [row.problem for row in JsonText(text, lines=True, longest=50).rows()] == [""] * 100


def test_lines_full_of_open_quotes_are_told_from_rows_without_a_look_at_every_end(tmp_path):
    opened = '3,"a ' * 10_000
    rows, _ = read(tmp_path, "id,text\n1,Leaks\n" + f"{opened}\n" * 30 + "2,Pours well\n")
    assert texts(rows) == [("1", "Leaks"), ("2", "Pours well")]
    assert {row.reason for row in rows if isinstance(row, BadRow)} == {"not CSV: ',' expected after '\"'"}


def test_a_row_that_ends_before_its_text_is_said_to(tmp_path):
    (first, bad, last), _ = read(tmp_path, "id,stars,text\n1,2,Leaks\n2,5\n3,4,Pours well\n")
    assert (first.id, last.id) == ("1", "3")
    assert (bad.line, bad.reason) == (3, "the row has 2 cells, the header 3; it ends early")
