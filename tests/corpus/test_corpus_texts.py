"""Texts as they are stored: HTML taken out, characters composed, invisible ones told."""

import gzip
import json

import pytest

from retriever.core.types import BadRow, Document
from retriever.corpus.markup import Markup
from retriever.corpus.readers import read_documents
from retriever.corpus.rows import ReadingOptions

HTML = ["Doesn&#39;t work.<br /><br />Don&#39;t buy!", "<p>Good &amp; cheap</p>", "no markup"]
DECODED = ["Doesn't work.\n\nDon't buy!", "Good & cheap", "no markup"]
NOTE = "HTML entities and tags decoded"


@pytest.fixture
def read(tmp_path):
    def texts(texts, *, name="corpus.jsonl", **options):
        data = "".join(json.dumps({"id": str(row), "text": text}) + "\n" for row, text in enumerate(texts)).encode()
        path = tmp_path / name
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        corpus = read_documents([path], options=ReadingOptions(**options))
        rows = list(corpus)
        return [row.reason if isinstance(row, BadRow) else row.text for row in rows], corpus.notes

    return texts


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("caf&eacute; &amp; bar &lt;3 &hearts;", "café & bar <3 ♥"),
        ("&#39;&#x27;&quot;&apos;", "''\"'"),
        ("Fish &amp;amp; chips, &amp;amp;eacute;", "Fish & chips, é"),
        ("one<br>two<BR/>three<br />four", "one\ntwo\nthree\nfour"),
        ("<p>one</p><p>two</p>", "one\n\ntwo"),
        ("<ul><li>one</li><li>two</li></ul>", "one\n\ntwo"),
        ("<table><tr><td>a</td><td>b</td></tr></table>", "a b"),
        ("&lt;b&gt;Terrible&lt;/b&gt; smell &nbsp;&nbsp; of", "Terrible smell of"),
        ('see <a href="https://x.org/?a=1&amp;b=2" target=_blank>this</a>!', "see this!"),
        ("before<script>let x = '<p>';</script>after<!-- no -->", "before after"),
        ('<img src="x.png">picture', "picture"),
        ("a < b and c > d", "a < b and c > d"),
        ("a <b and c> d", "a <b and c> d"),
        ("vector<int> x; List<String>", "vector<int> x; List<String>"),
        ("AT&T, R&D; &foo; &copy 2024", "AT&T, R&D; &foo; &copy 2024"),
        ("mail <me@x.org> or <someone>", "mail <me@x.org> or <someone>"),
        ("an open <b> stays", "an open <b> stays"),
        ("use the <br> tag", "use the <br> tag"),
        ("use the &lt;br&gt; tag", "use the <br> tag"),
        ("`<p>` and '<div>' are elements", "`<p>` and '<div>' are elements"),
        ("wrap it in <div> elements", "wrap it in <div> elements"),
        ("write &amp; entities", "write &amp; entities"),
        ('write "&nbsp;" for a space', 'write "&nbsp;" for a space'),
        ("the <b>best</b> kettle", "the best kettle"),
    ],
)
def test_markup_is_taken_out_and_all_else_stays(text, plain):
    markup = Markup()
    for seen in ("a fine &amp; good<br>one", "another<br>"):
        markup.see(seen)
    assert markup.cleaned(text) == plain


def test_a_file_with_markup_is_decoded_and_said_to_be(read):
    texts, notes = read(HTML)
    assert texts == DECODED
    assert [note.rpartition(": ")[2] for note in notes] == [NOTE]


def test_raw_keeps_it(read):
    assert read(HTML, raw=True) == (HTML, [])


def test_the_file_as_a_whole_decides_wherever_the_markup_stands(read):
    plain = [f"plain text {row}" for row in range(1500)]
    late = ["fine<br><br>Really", "bad<br>Sorry"] * 10
    assert read([*plain, *late])[0][-2:] == ["fine\n\nReally", "bad\nSorry"]
    assert read([*plain, *late], name="corpus.jsonl.gz")[0][-2:] == ["fine\n\nReally", "bad\nSorry"]


@pytest.mark.parametrize(
    "texts",
    [
        ["plain"] * 500 + ["a<br>b", "e<br>f"],
        ["How do I write &eacute; in HTML?"],
        ["write &amp; entities", "it&#39;s"],
        ["use the <br> tag", "the <p> element is a block", "`<b>bold</b>` is bold", "write &amp; or &lt;br&gt;"],
        ["What does <br> do?", "How do I close a <div> tag?", "use <p>", "a <b>bold</b> word"],
        ["a < b", "b > c", "List<String> of R&D;"],
    ],
)
def test_a_file_in_which_markup_is_rare_or_spoken_of_stays_as_it_is(read, texts):
    assert read(texts) == (texts, [])


def test_one_entity_in_a_file_is_decoded(read):
    texts, notes = read(["plain"] * 500 + ["only &lt; 5 km, caf&eacute;", "see a.org/index.html &amp; more"])
    assert texts[500:] == ["only < 5 km, café", "see a.org/index.html & more"]
    assert notes[0].endswith("HTML entities decoded")


def test_entities_alone_leave_tags_as_they_are(read):
    texts, notes = read(["it&#39;s", "fish &amp; chips", "one <br> only"])
    assert texts == ["it's", "fish & chips", "one <br> only"]
    assert notes[0].endswith("HTML entities decoded")


def test_a_text_of_markup_alone_is_put_aside(read):
    assert read([*HTML, "<p>&nbsp;</p>"])[0][-1] == "the text holds markup alone"


NFC, NFD = "caf\u00e9", "cafe\u0301"


@pytest.fixture
def read_rows(tmp_path):
    def rows(*rows, **options):
        path = tmp_path / "corpus.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        corpus = read_documents([path], options=ReadingOptions(**options))
        return list(corpus), corpus.notes

    return rows


def test_texts_ids_and_values_are_composed_and_said_to_be(read_rows):
    [document], notes = read_rows({"id": NFD, "text": f"the {NFD}", "shop": {NFD: [NFD, 1]}, "plain": "x"})
    assert (document.id, document.text) == (NFC, f"the {NFC}")
    assert document.metadata == {"shop": {NFC: [NFC, 1]}, "plain": "x"}
    assert [note.rpartition(": ")[2] for note in notes] == ["characters composed (NFC)"]


def test_what_is_composed_already_is_not_mentioned(read_rows):
    [document], notes = read_rows({"id": NFC, "text": "水", "shop": NFC})
    assert (document.metadata, notes) == ({"shop": NFC}, [])


def test_raw_keeps_values_as_they_are(read_rows):
    [document], notes = read_rows({"id": NFD, "text": NFD, "shop": NFD}, raw=True)
    assert (document.id, document.text, document.metadata, notes) == (NFD, NFD, {"shop": NFD}, [])


def test_two_spellings_of_an_id_are_one_id(read_rows):
    [first, second], _ = read_rows({"id": NFC, "text": "a"}, {"id": NFD, "text": "b"})
    assert isinstance(second, BadRow)
    assert second.id == first.id
    assert "is taken by" in second.reason


def test_two_spellings_of_a_field_in_one_row_both_stay(read_rows):
    [document], _ = read_rows({"id": "1", "text": "a", NFC: 1, NFD: 2})
    assert document.metadata == {NFC: 1, NFD: 2}


@pytest.mark.parametrize("text", ["\u200b", "\u202e \u2066", "\x07\x1b", "\ufeff\u2060", "\u3164"])
@pytest.mark.parametrize("raw", [False, True])
def test_an_invisible_text_is_empty(read_rows, text, raw):
    [row, good], _ = read_rows({"id": "1", "text": text}, {"id": "2", "text": "ok"}, raw=raw)
    assert isinstance(row, BadRow)
    assert row.reason == "the text in 'text' is empty: its characters are invisible"
    assert isinstance(good, Document)
