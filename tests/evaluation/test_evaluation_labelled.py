import json
from collections import Counter

import pytest
from label_fakes import write_rows

from retriever.core.errors import InputError
from retriever.evaluation.labelled import (
    PAIR_KINDS,
    TRIPLET_KINDS,
    LabelledText,
    LabelSource,
    balanced_sample,
    draw_partners,
    load_texts,
)
from retriever.evaluation.rows import LabelledRow, held_out, read_rows, sample, split_of

SOURCE = LabelSource(
    "own", "own.jsonl", ("genre", "era"), lambda row: (row.get("labels.genre", str), row.get("meta.era", str))
)


def row(text, genre, era):
    return {"text": text, "labels": {"genre": genre}, "meta": {"era": era}}


def test_any_corpus_with_two_labels_is_a_source(tmp_path):
    rows = [row("one", "rock", "old"), row("two", "jazz", "new"), row("one", "rock", "old"), row("odd", "rock", "old")]
    write_rows(tmp_path, SOURCE.file, [*rows, row("odd", "jazz", "old")])
    assert load_texts(tmp_path, SOURCE) == [LabelledText("one", ("rock", "old")), LabelledText("two", ("jazz", "new"))]


def test_one_label_alone_is_no_criterion(tmp_path):
    write_rows(tmp_path, SOURCE.file, [row("one", "rock", "old"), row("two", "jazz", "old")])
    with pytest.raises(InputError, match=r"own.jsonl: fewer than two kinds of era are left among its 2 rows"):
        load_texts(tmp_path, SOURCE)


def test_a_balanced_sample_fills_the_cells_evenly():
    cells = {("a", "x"): 50, ("a", "y"): 3, ("b", "x"): 20, ("b", "y"): 20}
    texts = [LabelledText(f"{cell}{number}", cell) for cell, count in cells.items() for number in range(count)]
    taken = balanced_sample(texts, 33, seed=0)
    assert Counter(one.labels for one in taken) == {("a", "x"): 10, ("a", "y"): 3, ("b", "x"): 10, ("b", "y"): 10}
    assert taken == sorted(taken, key=texts.index)
    assert set(balanced_sample(texts, 20, seed=0)) < set(taken)
    assert balanced_sample(texts, 33, seed=0) == taken != balanced_sample(texts, 33, seed=1)
    assert balanced_sample(texts, 1000, seed=0) == texts


LABELS = [(first, second) for first in "abc" for second in "xy" for _ in range(4)]


def shared(one, other):
    return (LABELS[one][0] == LABELS[other][0], LABELS[one][1] == LABELS[other][1])


def test_triplets_share_one_label_each_way():
    drawn = draw_partners(LABELS, TRIPLET_KINDS, per_anchor=3, seed=0, what="x")
    assert drawn.anchors.tolist() == list(range(24))
    assert drawn.rows.shape == (2, 24, 3)
    for kind, partners in zip(TRIPLET_KINDS, drawn.rows, strict=True):
        pairs = [(anchor, row) for anchor, rows in zip(drawn.anchors, partners, strict=True) for row in rows]
        assert {shared(*pair) for pair in pairs} == {kind}
    assert len(set(drawn.rows[0].ravel().tolist())) > 12


def test_pairs_come_in_all_four_kinds_and_never_with_oneself():
    drawn = draw_partners(LABELS, PAIR_KINDS, seed=0, what="x")
    for kind, rows in zip(PAIR_KINDS, drawn.rows[:, :, 0], strict=True):
        assert {shared(*pair) for pair in zip(drawn.anchors, rows, strict=True)} == {kind}
        assert all(anchor != row for anchor, row in zip(drawn.anchors, rows, strict=True))
    assert drawn.kinds == ((True, True), (True, False), (False, True), (False, False))


def test_one_seed_draws_the_same_partners():
    first, again, other = (
        draw_partners(LABELS, TRIPLET_KINDS, per_anchor=3, seed=seed, what="x").rows for seed in (4, 4, 5)
    )
    assert first.tolist() == again.tolist() != other.tolist()


def test_a_text_without_both_partners_is_no_anchor():
    labels = [("a", "x"), ("a", "y"), ("b", "x"), ("c", "z")]
    assert draw_partners(labels, TRIPLET_KINDS, per_anchor=2, seed=0, what="x").anchors.tolist() == [0]
    with pytest.raises(InputError, match=r"^own.jsonl: no text has partners"):
        draw_partners([("a", "x"), ("b", "y")], TRIPLET_KINDS, per_anchor=2, seed=0, what="own.jsonl")
    with pytest.raises(InputError, match=r"^own.jsonl: no text has partners"):
        draw_partners(labels, PAIR_KINDS, seed=0, what="own.jsonl")


def test_splits_by_the_known_digest_of_abc():
    # SHA-256 of "abc" begins with ba7816bf, of "" with e3b0c442, of "a" with ca978112
    assert 0xBA7816BF % 10 == 9
    assert split_of("abc") == split_of("  ABC\n") == "test"
    assert 0xE3B0C442 % 10 == 0
    assert split_of("") == "train"
    assert Counter(split_of(str(number)) for number in range(2000))["dev"] == pytest.approx(200, abs=40)


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
        ("", "x.jsonl has no rows"),
        ("\n\n", "x.jsonl has no rows"),
        ('{"id": 1}\n{"id": \n', "x.jsonl, line 2: not JSON"),
        ("[1]\n", "x.jsonl, line 1: not a JSON object but a number"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path, content, problem):
    (tmp_path / "x.jsonl").write_text(content)
    with pytest.raises(InputError) as raised:
        read_rows(tmp_path, "x.jsonl")
    assert problem in raised.value.message


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"There is no file .*x\.jsonl") as raised:
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


def test_names_of_fields_count_in_any_case_and_those_inside_of_them_as_they_are(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"same_Shop": "a", "Instructions": {"Shop": "Which?"}}\n')
    (row,) = read_rows(tmp_path, "x.jsonl")
    assert (row.get("same_Shop", str), row.get("instructions.Shop", str)) == ("a", "Which?")
