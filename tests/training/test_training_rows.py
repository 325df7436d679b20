import gzip
import json

import pyarrow as pa
import pytest
from pyarrow import parquet

from retriever.core.errors import InputError
from retriever.training.rows import KEPT_BAD_ROWS, TrainingRow, normalise_answer, normalise_text, read_training_rows


@pytest.fixture
def read(tmp_path):
    """Write rows, or bytes, to a file and read it."""

    def from_file(rows, name="qa.jsonl"):
        data = rows if isinstance(rows, bytes) else "".join(json.dumps(row) + "\n" for row in rows).encode()
        path = tmp_path / name
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return read_training_rows([path])

    return from_file


QUESTION = {"text": "It boils fast.", "question": "Which product?", "answer": "a kettle"}


@pytest.mark.parametrize(
    ("row", "mapping", "expected"),
    [
        (
            QUESTION,
            "text <- text, instruction <- question, answer <- answer",
            TrainingRow("It boils fast.", "Which product?", "a kettle", group="which product"),
        ),
        (
            {"id": 4, "context": "a", "question": "q?", "answer": 7, "negatives": ["8", "7"], "split": "train"},
            "text <- context, instruction <- question, answer <- answer, negatives <- negatives",
            TrainingRow("a", "q?", "7", negatives=("8",), group="q"),
        ),
        (
            {"passage": "a", "question": "q", "answer": ["b", "c"], "group": "mood"},
            "text <- passage, instruction <- question, answer <- answer, group <- group",
            TrainingRow("a", "q", "b", group="mood"),
        ),
        (
            {"instruction": "i", "query": "a", "positive": "b", "negatives": ["c", "d"]},
            "text <- query, instruction <- instruction, positives <- positive, negatives <- negatives",
            TrainingRow("a", "i", "b", ("b",), ("c", "d"), "i"),
        ),
        (
            {"query": "a", "pos": ["b", "c", "b"], "neg": ["d", "C."], "prompt": "i"},
            "text <- query, instruction <- prompt, positives <- pos, negatives <- neg",
            TrainingRow("a", "i", "b", ("b", "c"), ("d",), "i"),
        ),
        (
            {"query": "a", "pos": ["b"], "neg": [], "prompt": ""},
            "text <- query, instruction <- prompt, positives <- pos, negatives <- neg",
            TrainingRow("a", "", "b", ("b",)),
        ),
        (
            {"anchor": "a", "positive": "b", "negative_10": "n10", "negative_2": "n2"},
            "text <- anchor, positives <- positive, negatives <- negative_2 + negative_10",
            TrainingRow("a", "", "b", ("b",), ("n2", "n10")),
        ),
        (
            {
                "query_id": "1",
                "query": "a",
                "positive_passages": [{"docid": "9", "title": "T", "text": "b"}],
                "negative_passages": [{"docid": "8", "title": "", "text": "c"}],
            },
            "text <- query, positives <- positive_passages, negatives <- negative_passages",
            TrainingRow("a", "", "T\nb", ("T\nb",), ("c",)),
        ),
        (
            {"instruction": "i", "input": "a", "output": "b"},
            "text <- input, instruction <- instruction, answer <- output",
            TrainingRow("a", "i", "b", group="i"),
        ),
        (
            {"id": 1, "question": "a", "answer": "b"},
            "text <- question, answer <- answer",
            TrainingRow("a", "", "b"),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_layout_is_recognised_and_said(read, row, mapping, expected):
    found = read([row])
    [said] = found.mappings.values()
    [ours] = found.rows
    assert said.removesuffix(", group <- group") in mapping
    assert (ours.file.endswith("qa.jsonl"), ours.line) == (True, 1)
    assert TrainingRow(ours.text, ours.instruction, ours.answer, ours.positives, ours.negatives, ours.group) == expected
    assert said == mapping


def test_a_mapping_names_every_field_that_some_row_used(read):
    rows = [{"query": "a", "pos": ["b"]}, {"query": "a", "pos": ["b"], "neg": ["c"]}]
    assert list(read(rows).mappings.values()) == ["text <- query, positives <- pos, negatives <- neg"]


def test_tables_keep_answers_as_they_are_written(read, tmp_path):
    rows = read(b"context,question,answer,negative_1\nabc,Which?,007,\ndef,Which?,1.50,2\n", "qa.csv").rows
    assert [(row.answer, row.negatives, row.line) for row in rows] == [("007", (), 2), ("1.50", ("2",), 3)]
    [said] = read(b"text,question,answer,negative_1\na,q,b,\n", "empty.csv").mappings.values()
    assert said == "text <- text, instruction <- question, answer <- answer"
    rows = read(b"query\tpos\na\tb\n", "qa.tsv").rows
    assert rows[0].positives == ("b",)
    parquet.write_table(pa.table({"query": ["a"], "pos": [["b", "c"]], "picture": [b"\xff"]}), tmp_path / "qa.parquet")
    assert read_training_rows([tmp_path / "qa.parquet"]).rows[0].positives == ("b", "c")


def test_a_column_twice_is_refused(read):
    with pytest.raises(InputError, match="'answer' appears more than once"):
        read(b"text,answer,answer\na,b,c\n", "qa.csv")


def test_several_files_each_have_their_layout(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps(QUESTION))
    (tmp_path / "b.jsonl").write_text(json.dumps({"query": "a", "pos": ["b"]}))
    found = read_training_rows([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])
    assert [row.line for row in found.rows] == [1, 1]
    assert len(set(found.mappings.values())) == 2


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('{"text": "a", "question": "q"}', "a field of the layout 'text, question, answer' is missing; it has text"),
        ('{"text": "a", "question": "q", "answer": ""}', "'answer' is empty"),
        ('{"text": "a", "question": "q", "answer": []}', "'answer' is empty"),
        ('{"text": " ", "question": "q", "answer": "b"}', "'text' is empty"),
        ('{"text": "a", "question": "", "answer": "b"}', "'question' is empty"),
        ('{"text": null, "question": "q", "answer": "b"}', "the text is empty"),
        ('{"text": ["a", "b"], "question": "q", "answer": "b"}', "the text is a list"),
        ('{"text": "a", "question": "q", "answer": true}', "'answer' is a boolean, not a string"),
        ('{"text": "a", "question": "q", "answer": {"x": 1}}', "'answer' is an object, not a string"),
        ('{"text": "a", "question": "q", "answer": [["b"]]}', "'answer' holds a list in a list"),
        ('{"text": "a\\u0000", "question": "q", "answer": "b"}', "'text' holds a NUL character"),
        ('{"text": "a\\ud800", "question": "q", "answer": "b"}', "'text' holds half a surrogate pair"),
        ('{"text": "' + "x" * 1_000_001 + '", "question": "q", "answer": "b"}', "'text' has 1,000,001 characters"),
        ('{"text": ', "not JSON"),
        ("[1]", "not a JSON object but a list"),
    ],
)
def test_a_bad_row_goes_to_quarantine_with_line_and_reason(read, row, reason):
    found = read(f"{json.dumps(QUESTION)}\n\n{row}\n{json.dumps(QUESTION)}\n".encode())
    assert [one.line for one in found.rows] == [1, 4]
    [bad] = found.bad
    assert (bad.line, found.skipped) == (3, 1)
    assert reason in bad.reason
    assert bad.file.endswith("qa.jsonl")
    assert bad.raw.startswith(row[:5])


def test_a_thousand_bad_rows_are_kept_and_all_are_counted(read):
    found = read([QUESTION, *[{"text": "a"}] * 1003])
    assert (len(found.rows), len(found.bad), found.skipped) == (1, 1000, 1003)


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        ([{"review": "a", "stars": 3}], ["qa.jsonl, row 1: the fields are not known: 'review', 'stars'"]),
        ([{"query_id": 1, "query": "a", "positive_document_ids": ["2"]}], ["'positive_document_ids' names documents"]),
        ([{"question": "a", "answer": "b", "comment": "the text?"}], ["'question', 'answer', 'comment'"]),
        ([{**QUESTION, "answer": ""}], ["no row can be used. The first, row 1: 'answer' is empty."]),
        ([], ["has no rows"]),
    ],
)
def test_a_file_that_cannot_be_used_is_an_error(read, rows, parts):
    with pytest.raises(InputError) as raised:
        read(rows)
    assert all(part in raised.value.message for part in parts)
    assert raised.value.hint


def test_no_file_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no file"):
        read_training_rows([tmp_path / "none.jsonl"])
    with pytest.raises(InputError, match="No file was given"):
        read_training_rows([])


def test_rows_come_back_as_they_were_written(read, tmp_path):
    rows = [
        TrainingRow("a", "Which one?", "b", (), ("n",), "which one"),
        TrainingRow("a", "Which one?", "b", group="kind"),
        TrainingRow("a", "i", "b", ("b", "c"), ("n",), "i"),
        TrainingRow("a", "", "b", ("b",)),
    ]
    for row in rows:
        [back] = read([row.to_json()]).rows
        assert (back.text, back.instruction, back.answer) == (row.text, row.instruction, row.answer)
        assert (back.positives, back.negatives, back.group) == (row.positives, row.negatives, row.group)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  What KIND of\nproduct is this?", "what kind of product is this"),
        ("what kind-of product -- is this", "what kind of product is this"),
        ("What's new?", "whats new"),
        ("What\u2019s new?", "whats new"),
        ("\uff37hat?", "what"),
        ("Caf\u00e9-bar, \u0939\u093f\u0928\u094d\u0926\u0940!", "caf\u00e9 bar \u0939\u093f\u0928\u094d\u0926\u0940"),
        (":)", ":)"),
        ("", ""),
    ],
)
def test_questions_are_one_group_whatever_their_case_spaces_and_punctuation(text, expected):
    assert normalise_text(text) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("A  kettle.", "a kettle"), ('"C++"', "c++"), ("-5", "-5"), ("good, cheap", "good cheap"), ("?!", "?!")],
)
def test_answers_keep_the_signs_that_make_a_difference(answer, expected):
    assert normalise_answer(answer) == expected


def test_a_file_without_a_good_row_is_named_however_many_bad_rows_came_before(tmp_path):
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    bad = json.dumps({**QUESTION, "answer": ""}) + "\n"
    first.write_text(json.dumps(QUESTION) + "\n" + bad * KEPT_BAD_ROWS)
    second.write_text(bad)
    with pytest.raises(InputError, match=r"second\.jsonl: no row can be used. The first, row 1: 'answer' is empty"):
        read_training_rows([first, second])
