"""Groups by given names, and changes of saved groups."""

import csv
import io
import json

import pytest

PRODUCT = "Which product is it?"
ASK = ("cluster", "--instruction", PRODUCT, "--into", "kettle, lamp, toy")


def test_what_a_person_reads_of_given_categories(indexed):
    ran = indexed("cluster", "--instruction", PRODUCT, "--into", "kettle, lamp")
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert lines[0].startswith("  1  kettle  2 documents (2 of 5)")
    assert [line for line in lines if "nearest: r1, r2" in line]


def test_categories_are_saved_corrected_and_learned_from(indexed, write, tmp_path):
    first = indexed(*ASK, "--save", "products", "--json").document
    assert first["assignments"] == {"r1": 1, "r2": 1, "r3": 2, "r4": 2, "r5": 3}
    assert (first["made"], "margins" in first) == ("names", True)
    indexed("index", write([{"id": "r6", "text": "Another toy."}], "more.jsonl"))
    assert indexed("cluster", "--saved", "products", "--move", "r5=Lamp").code == 0
    shown = indexed("cluster", "--saved", "products", "--json").document
    assert shown["assignments"] == {**first["assignments"], "r5": 2, "r6": 3}
    assert shown["new"] == ["r6"]
    ran = indexed("answers", "--instruction", PRODUCT, "--as-rows", "rows.jsonl")
    assert [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()] == [
        {"text": "The toy broke.", "question": PRODUCT, "answer": "lamp"}
    ]
    assert "Wrote 1 row for `retriever finetune` to rows.jsonl" in ran.err


def test_a_file_of_categories_and_several_of_them(indexed, tmp_path):
    (tmp_path / "into.jsonl").write_text('{"name": "kettle", "description": "it boils"}\n"lamp"\n"toy"\n')
    argv = ["cluster", "--instruction", PRODUCT, "--into", "into.jsonl", "--several", "--csv", "out.csv"]
    document = indexed(*argv, "--json").document
    assert (document["several"], document["clusters"][0]["description"]) == (True, "it boils")
    rows = list(csv.reader(io.StringIO((tmp_path / "out.csv").read_text())))
    assert rows[:2] == [["id", "cluster", "label"], ["r1", "1", "kettle"]]


def test_categories_can_be_named_one_by_one(indexed):
    argv = ["cluster", "--instruction", PRODUCT, "--into", "kettle", "--into", "lamp", "--into", "toy", "--json"]
    assert indexed(*argv).document["assignments"] == indexed(*ASK, "--json").document["assignments"]


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["--into", "a, b"], "Categories are answers to a question"),
        (["--instruction", PRODUCT, "--into", "a"], "There is 1 category"),
        (["--instruction", PRODUCT, "--into", "a, b", "-k", "2"], "exclude each other"),
        (["--instruction", PRODUCT, "--several"], "none is named"),
        (["--saved", "x", "--into", "a, b"], "as they were saved"),
        (["--rename", "1=a"], "Only saved groups can be changed"),
        (["--undo"], "Only saved groups can be changed"),
    ],
)
def test_wrong_usage(indexed, argv, problem):
    assert indexed("cluster", *argv).failed_with(2, problem)


def test_what_is_not_there(indexed):
    indexed(*ASK, "--save", "products")
    assert indexed(*ASK, "--save", "products").failed_with(2, "There is a clustering 'products' already")
    assert indexed("cluster", "--saved", "products", "--move", "r1=shoe").failed_with(2, "no cluster 'shoe'")
    nothing = indexed("answers", "--instruction", PRODUCT, "--as-rows", "x.jsonl")
    assert nothing.failed_with(1, "nothing to learn from", "--move")


def test_rows_that_cannot_be_written_are_an_error_that_names_the_file(indexed, tmp_path):
    indexed(*ASK, "--save", "products")
    (tmp_path / "file").write_text("precious")
    indexed("cluster", "--saved", "products", "--move", "r5=lamp")
    argv = ["answers", "--instruction", PRODUCT, "--as-rows", "file/rows.jsonl"]
    assert indexed(*argv).failed_with(1, "file/rows.jsonl", "cannot be written", "--as-rows")


@pytest.fixture
def saved(indexed):
    """Change saved groups: 1 kettle, 2 lamp, 3 toy."""
    assert indexed("cluster", "--instruction", PRODUCT, "-k", "3", "--save", "mine").code == 0
    return lambda *argv: indexed("cluster", "--saved", *argv)


def labels(ran):
    return {(one["cluster"], one["label"], one["size"]) for one in ran.document["clusters"]}


def test_groups_are_changed_in_one_call(saved):
    argv = ["--rename", "1=Water = hot", "--merge", "lam,3", "--move", "r1=none", "--author", "Ada"]
    ran = saved("mine", *argv, "--json")
    assert {(1, "Water = hot", 1), (2, 3)} == {one if one[0] == 1 else (one[0], one[2]) for one in labels(ran)}
    assert [one["author"] for one in ran.document["edits"]] == ["Ada"] * 3


def test_a_new_name_is_shown_in_the_place_of_the_old_one(saved):
    ran = saved("mine", "--rename", "toy=Plaything")
    assert [line.split("  ")[:3] for line in ran.out.splitlines() if line[:3].strip()][-1] == ["", "3", "Plaything"]
    assert "  toy  " not in ran.out


def test_the_last_change_is_taken_back(saved):
    saved("mine", "--rename", "1=Kettles")
    saved("mine", "--rename", "3=Playthings")
    ran = saved("mine", "--undo", "--json")
    assert "Undone: cluster 3 is called 'Playthings'." in ran.err
    assert labels(ran) == {(1, "Kettles", 2), (2, "lamp", 2), (3, "toy", 1)}
    assert [one["undone"] is None for one in ran.document["edits"]] == [True, False]


def test_a_change_of_two_parts_that_cannot_be_made_whole_is_not_made(saved):
    assert saved("mine", "--rename", "1=Kettles", "--move", "zz=1").failed_with(1, "no document 'zz'")
    assert labels(saved("mine", "--json")) == {(1, "kettle", 2), (2, "lamp", 2), (3, "toy", 1)}


@pytest.mark.parametrize(
    ("argv", "code", "problem"),
    [
        (["mine", "--rename", "1"], 2, "--rename is '1'"),
        (["mine", "--split", "1=x"], 2, "--split is '1=x'"),
        (["mine", "--split", "1=2"], 2, "too alike"),
        (["mine", "--merge", "1"], 2, "One cluster alone"),
        (["mine", "--merge", "1,0"], 2, "no cluster '0': clusters count from 1"),
        (["mine", "--merge", '1,"lamp'], 2, "is no list of clusters"),
        (["mine", "--undo", "--rename", "1=a"], 2, "--undo excludes other changes"),
        (["mine", "--undo"], 1, "no change of 'mine' to undo"),
        (["mine", "--move", "zz=1"], 1, "no document 'zz'"),
        (["gone", "--rename", "1=a"], 1, "no saved clustering 'gone'"),
    ],
)
def test_what_cannot_be_changed(saved, argv, code, problem):
    assert saved(*argv).failed_with(code, problem)
