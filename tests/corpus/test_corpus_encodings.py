"""Tables as spreadsheets of many countries write them, and files that are not UTF-8."""

import gzip
import io

import pytest

from retriever.core.errors import InputError, UsageError
from retriever.core.types import BadRow, Document
from retriever.corpus.delimited import find_delimiter
from retriever.corpus.encodings import ENCODINGS, EncodingError, guess, open_text, require_encoding
from retriever.corpus.fields import FieldNames
from retriever.corpus.readers import read_documents, read_fields

TEXTS = {
    "windows-1252": "Die Größe passt nicht, schön wäre eine Rückgabe möglich.",
    "mac-roman": "Café très cher et pas très bon",
    "windows-1250": "Bardzo zła jakość, nie polecam. Dużo szumu i źle działa.",
    "windows-1251": "Отличный товар, очень доволен покупкой, рекомендую всем",
    "koi8-r": "Отличный товар, очень доволен покупкой, рекомендую всем",
    "cp932": "とても良い商品です。また買いたいと思います。",
    "utf-16": "Отличный товар",
}
ROWS = 'id,text\n1,"Für mich zu groß"\n2,plain\n3,"Hält nicht, schön ist es"\n'
GERMAN = [Document("1", "Für mich zu groß"), Document("2", "plain"), Document("3", "Hält nicht, schön ist es")]


@pytest.mark.parametrize("encoding", ["windows-1252", "mac-roman", "iso-8859-15"])
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_a_table_in_another_encoding_stops_before_its_first_row_and_is_read_when_named(tmp_path, name, encoding):
    path = tmp_path / name
    data = ROWS.encode(encoding)
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    with pytest.raises(EncodingError, match=r"a\.csv.* is not UTF-8: in .*, line .* reads .*--encoding"):
        read_documents([path])
    assert list(read_documents([path], encoding=encoding)) == GERMAN


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
def test_utf16_is_read_with_and_without_its_mark(tmp_path, name, encoding, delimiter):
    path = tmp_path / name
    data = ROWS.replace(",", delimiter).encode(encoding)
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    rows = read_documents([path])
    assert [row.text.replace(delimiter, ",") for row in rows] == [document.text for document in GERMAN]
    assert rows.notes == [f"{path}: read as UTF-16"]
    assert len(list(read_documents([path], encoding=encoding))) == 3


def test_the_last_of_many_rows_is_enough_to_stop(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"id,text\n" + b"".join(b"%d,plain\n" % row for row in range(200_000)) + b"x,caf\xe9\n")
    with pytest.raises(EncodingError, match="line 200002 reads 'x,café'"):
        read_documents([path])


@pytest.mark.parametrize(
    ("lines", "skipped"),
    [
        ([b"caf\xe9"], 1),  # one slip in what is UTF-8 by its standard
        ([b"caf\xe9", "café".encode()] * 3, 3),  # as many bad lines as good ones beyond ASCII
        ([b"caf\xe9", b"caf\xe9"], None),
        ([b"caf\xe9"] * 3 + ["café".encode()] * 2, None),
    ],
)
def test_single_bad_lines_of_json_are_skipped_and_many_stop(tmp_path, lines, skipped):
    path = tmp_path / "a.jsonl"
    rows = [b'{"id": "%d", "text": "%s"}' % (number, line) for number, line in enumerate([*lines, b"plain"])]
    path.write_bytes(b"\n".join(rows))
    if skipped is None:
        with pytest.raises(EncodingError, match="windows-1252"):
            read_documents([path])
        skipped = sum(b"\xe9" in line for line in lines)
        assert all(isinstance(row, Document) for row in read_documents([path], encoding="windows-1252"))
    read = list(read_documents([path], encoding="utf-8"))  # named, it is read as it is
    assert sum(isinstance(row, BadRow) for row in read) == skipped


def test_bad_bytes_among_good_letters_cost_their_rows_of_a_table(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("id,text\n1,größer\n2,schön\n".encode() + b"3,gr\xf6\xdfer\n")
    first, second, bad = read_documents([path])
    assert (first.id, second.id, bad.line) == ("1", "2", 4)


def test_what_a_named_encoding_does_not_have_costs_its_row(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"id,text\n1,caf\xe9\n2,\x81\n")
    first, bad = read_documents([path], encoding="windows-1252")
    assert first.text == "café"
    assert (bad.line, bad.reason) == (
        3, "not windows-1252: the character at position 3; correct it, or name another encoding"
    )  # fmt: skip


@pytest.mark.parametrize("encoding", [name for name in TEXTS if name != "utf-16"])
def test_encodings_are_guessed(encoding):
    assert guess((TEXTS[encoding] + "\n").encode(encoding) * 5) == encoding


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_encoding_that_is_offered_is_read(name):
    text = next((TEXTS[one] for one in (name,) if one in TEXTS), "plain") * 100_000
    assert open_text(io.BufferedReader(io.BytesIO(text.encode(name))), name).read() == text


@pytest.mark.parametrize("name", ["hex", "nonsense", "", "rot13", "idna", "a\0b"])
def test_what_is_no_encoding_is_refused(name, tmp_path):
    with pytest.raises(UsageError, match="There is no text encoding"):
        require_encoding(name)
    with pytest.raises(UsageError, match="There is no text encoding"):
        read_documents([tmp_path / "none.csv"], encoding=name)


@pytest.mark.parametrize("name", ["punycode", "utf-7", "unicode_escape"])
def test_encodings_that_no_file_has_end_in_words(tmp_path, name):
    path = tmp_path / "a.csv"
    path.write_bytes(b"id,text\n1,\\ud800 \xff..\n" + b"x" * 100)
    try:
        list(read_documents([path], encoding=name))
    except InputError as error:
        assert "a.csv" in str(error)


@pytest.mark.parametrize(
    ("text", "usual", "found"),
    [
        ("id;text\n1;a\n2;b, c\n", ",", ";"),
        ("id;text, long;stars\n1;a;2\n2;b, c, d;3\n", ",", ";"),
        ("id\ttext\n1\ta\n", ",", "\t"),
        ("id,text\n1,a\n", "\t", ","),
        ("id|text\n", ",", "|"),
        ("text\na; b\nc; d\n", ",", ","),  # one column
        ("pros; cons\ngood, bad\nfine\n", ",", ","),  # the rows do not agree
        ("id,text;note\n1,a;b\n2,c;d\n", ",", ","),  # both agree: the file's name says
        ('id;text\n1;"a\n;;;\nb"\n2;c\n', ",", ";"),
        ("id;text\n1,0;a\n2,0;b\n3,0;c\n", ",", ";"),  # no table with a number before each row
        ("id;text\n1;a;;;\n2;b;;;\n", ",", ";"),
        ("", ",", ","),
        ("\n\n", ",", ","),
    ],
)
def test_the_delimiter_is_what_header_and_rows_agree_on(text, usual, found):
    assert find_delimiter(text.splitlines(keepends=True), usual) == found


def test_semicolons_and_tabs_are_read_without_a_word(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('Id;Review, in full;Stars\r\n1;"Fine; really";5\r\n2;Good, cheap;4\r\n', "utf-8-sig", newline="")
    first, second = read_documents([path], id_field="Id", text_field="Review, in full")
    assert (first, second) == (Document("1", "Fine; really", {"Stars": 5}), Document("2", "Good, cheap", {"Stars": 4}))
    rows = read_fields(path, FieldNames(text_needed=False))
    assert next(rows).values == {"Id": "1", "Review, in full": "Fine; really", "Stars": 5}
