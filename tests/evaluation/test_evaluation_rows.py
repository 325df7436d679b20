import json

import pytest

from retriever.core.errors import InputError
from retriever.evaluation.rows import LabelledRow, held_out, read_rows, sample
from retriever.evaluation.splits import split_of

ROW = LabelledRow(
    "data/x.jsonl", 7, {"text": "good", "n": 3, "score": 2.5, "yes": True, "labels": {"kind": "toy", "no": ""}}
)


@pytest.mark.parametrize(
    ("key", "kind", "value"),
    [
        ("text", str, "good"),
        ("labels.kind", str, "toy"),
        ("n", int, 3),
        ("n", float, 3),
        ("score", float, 2.5),
        ("yes", bool, True),
    ],
)
def test_a_value_of_the_right_kind(key, kind, value):
    assert ROW.get(key, kind) == value


@pytest.mark.parametrize(
    ("key", "kind", "problem"),
    [
        ("other", str, "'other' is missing"),
        ("labels.other", str, "'labels.other' is missing"),
        ("text.kind", str, "'text.kind' is missing"),
        ("n", str, "'n' is not a string"),
        ("text", float, "'text' is not a number"),
        ("score", int, "'score' is not a whole number"),
        ("yes", int, "'yes' is not a whole number"),
        ("text", list, "'text' is not a list"),
        ("text", dict, "'text' is not an object"),
        ("labels.no", str, "'labels.no' is empty"),
    ],
)
def test_a_wrong_value_names_file_row_and_key(key, kind, problem):
    with pytest.raises(InputError) as raised:
        ROW.get(key, kind)
    assert raised.value.message == f"data/x.jsonl, row 7: {problem}."
    assert raised.value.hint


def test_rows_keep_their_line_numbers(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"id": "a"}\n\n{"id": "b"}\n')
    rows = read_rows(tmp_path, "x.jsonl")
    assert [(row.line, row.values["id"]) for row in rows] == [(1, "a"), (3, "b")]
    assert rows[0].file == str(tmp_path / "x.jsonl")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "x.jsonl is empty"),
        ("\n\n", "x.jsonl is empty"),
        ('{"id": 1}\n{"id": \n', "x.jsonl, row 2: not JSON"),
        ("[1]\n", "x.jsonl, row 1: not a JSON object but a list"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path, content, problem):
    (tmp_path / "x.jsonl").write_text(content)
    with pytest.raises(InputError) as raised:
        read_rows(tmp_path, "x.jsonl")
    assert problem in raised.value.message


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"x.jsonl cannot be read: No such file") as raised:
        read_rows(tmp_path, "x.jsonl")
    assert "--data" in raised.value.hint


def test_a_sample_is_a_subset_in_file_order_that_a_larger_one_holds():
    rows = [json.dumps(number) for number in range(100)]
    small, large = sample(rows, 10, seed=1), sample(rows, 30, seed=1)
    assert len(small) == 10
    assert small == sorted(small, key=int)
    assert set(small) < set(large) < set(rows)
    assert sample(rows, 10, seed=1) == small != sample(rows, 10, seed=2)
    assert sample(rows, None, seed=1) == sample(rows, 100, seed=1) == sample(rows, 500, seed=1) == rows


def test_held_out_rows_are_the_test_rows():
    rows = [LabelledRow("x.jsonl", line, {"text": f"text {line}"}) for line in range(1, 200)]
    hashed = held_out(rows)
    assert hashed == [row for row in rows if split_of(row.values["text"]) == "test"]
    assert 10 < len(hashed) < 30
    marked = [LabelledRow("x.jsonl", 1, {"text": "a", "split": split}) for split in ("train", "val", "test")]
    assert held_out(marked) == marked[2:]
    with pytest.raises(InputError, match=r"x.jsonl has no row of the test split"):
        held_out(marked[:2])
