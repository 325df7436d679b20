import csv
import getpass
import io
import json

import pytest

PRODUCT = "Which product is it?"
ASK = ("classify", "--instruction", PRODUCT, "--into", "kettle, lamp, toy")


def test_what_a_person_reads(indexed):
    ran = indexed(*ASK)
    assert ran.code == 0, ran.err
    assert ran.out.splitlines() == [
        "  1  kettle  2 documents (2 of 5)",
        "       answered: kettle",
        "       r1: The kettle broke.",
        "  2  lamp  2 documents (2 of 5)",
        "       answered: lamp",
        "       r3: I hate the lamp.",
        "  3  toy  1 document (1 of 5)",
        "       answered: toy",
        "       r5: The toy broke.",
        "     none of these  0 documents (0 of 5)",
    ]


def test_categories_are_saved_corrected_and_learned_from(indexed, write, tmp_path):
    first = indexed(*ASK, "--save", "products", "--json").document
    assert first["assignments"] == {"r1": 1, "r2": 1, "r3": 2, "r4": 2, "r5": 3}
    indexed("index", write([{"id": "r6", "text": "Another toy."}], "more.jsonl"))
    assert indexed("topics", "products", "--move", "r5=Lamp").code == 0
    ran = indexed("classify", "--saved", "products", "--as-rows", "rows.jsonl", "--json")
    assert ran.document["assignments"] == {**first["assignments"], "r5": 2, "r6": 3}
    assert ran.document["new"] == ["r6"]
    assert [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()] == [
        {"text": "The toy broke.", "question": PRODUCT, "answer": "lamp"}
    ]
    assert "1 rows for `retriever finetune` were written to rows.jsonl" in ran.err
    assert "cluster --saved" not in ran.err
    shown = indexed("cluster", "--saved", "products", "--json").document
    assert shown["assignments"] == ran.document["assignments"]


def test_a_file_of_categories_and_several_of_them(indexed, tmp_path):
    (tmp_path / "into.jsonl").write_text('{"name": "kettle", "description": "it boils"}\n"lamp"\n"toy"\n')
    argv = ["classify", "--instruction", PRODUCT, "--into", "into.jsonl", "--several", "--csv", "out.csv"]
    document = indexed(*argv, "--json").document
    assert (document["several"], document["clusters"][0]["description"]) == (True, "it boils")
    rows = list(csv.reader(io.StringIO((tmp_path / "out.csv").read_text())))
    assert rows[:2] == [["id", "cluster", "label"], ["r1", "1", "kettle"]]


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["--instruction", PRODUCT], "No categories are named"),
        (["--into", "a, b"], "Categories are answers to a question"),
        (["--instruction", PRODUCT, "--into", "a"], "There are 1 categories"),
        (["--as-rows", "rows.jsonl"], "for saved categories"),
        (["--saved", "x", "--into", "a, b"], "as they were saved"),
    ],
)
def test_wrong_usage(indexed, argv, problem):
    assert indexed("classify", *argv).failed_with(2, problem)


def test_what_is_not_there(indexed):
    indexed(*ASK, "--save", "products")
    assert indexed(*ASK, "--save", "products").failed_with(2, "There is a clustering 'products' already")
    assert indexed("classify", "--saved", "gone").failed_with(1, "no saved clustering 'gone'")
    assert indexed("topics", "products", "--move", "r1=shoe").failed_with(2, "no cluster 'shoe'")
    assert indexed("classify", "--saved", "products", "--as-rows", "x.jsonl").failed_with(1, "nothing to learn from")


def test_rows_that_cannot_be_written_are_an_error_that_names_the_file(indexed, tmp_path):
    indexed(*ASK, "--save", "products")
    (tmp_path / "file").write_text("precious")
    indexed("topics", "products", "--move", "r5=lamp")
    argv = ["classify", "--saved", "products", "--as-rows", "file/rows.jsonl"]
    assert indexed(*argv).failed_with(1, "file/rows.jsonl", "cannot be written", "--as-rows")


@pytest.fixture
def saved(indexed):
    assert indexed("cluster", "--instruction", PRODUCT, "-k", "3", "--save", "mine").code == 0
    return indexed


def labels(ran):
    return [(one["cluster"], one["label"], one["size"]) for one in ran.document["clusters"]]


def test_clusters_are_changed_in_one_call(saved):
    argv = ["--rename", "1=Water = hot", "--merge", "lam,3", "--move", "r1=none", "--author", "Ada"]
    ran = saved("topics", "mine", *argv, "--json")
    assert labels(ran) == [(1, "Water = hot", 1), (2, "lamp", 3)]
    assert [one["author"] for one in ran.document["edits"]] == ["Ada"] * 3


def test_what_a_person_reads_of_changes(saved):
    ran = saved("topics", "mine", "--rename", "toy=Plaything", "--hide", "2")
    assert [line for line in ran.out.splitlines() if line.startswith(("  1", "  3"))] == [
        "  1  kettle  2 documents (2 of 5)",
        "  3  Plaything  1 document (1 of 5)",
    ]
    assert "lamp  2 documents" not in ran.out
    assert "1 cluster is hidden: 2." in ran.err


def test_changes_are_taken_back_and_listed(saved):
    saved("topics", "mine", "--rename", "1=Kettles")
    saved("topics", "mine", "--hide", "3")
    ran = saved("topics", "mine", "--undo", "--json")
    assert "Undone: cluster 3 is hidden." in ran.err
    assert (ran.document["hidden"], labels(ran)[0][1]) == ([], "Kettles")
    lines = saved("topics", "mine", "--history").out.splitlines()
    assert len(lines) == 2
    assert f"{getpass.getuser()}  cluster 1 is called 'Kettles'" in lines[0]
    assert "cluster 3 is hidden  (undone " in lines[1]


def test_nothing_was_changed_yet(saved):
    assert saved("topics", "mine", "--history").out == "Nothing was changed.\n"


@pytest.mark.parametrize(
    ("argv", "code", "problem"),
    [
        (["mine", "--rename", "1"], 2, "--rename is '1'"),
        (["mine", "--split", "1=x"], 2, "--split is '1=x'"),
        (["mine", "--split", "1=2"], 2, "too alike"),
        (["mine", "--merge", "1"], 2, "One cluster alone"),
        (["mine", "--merge", "1,0"], 2, "no cluster '0': clusters count from 1"),
        (["mine", "--merge", '1,"lamp'], 2, "is no list of clusters"),
        (["mine", "--undo", "--hide", "1"], 2, "--undo excludes other changes"),
        (["mine", "--undo"], 1, "no change of 'mine' to undo"),
        (["mine", "--move", "zz=0"], 1, "no document 'zz'"),
        (["gone", "--hide", "0"], 1, "no saved clustering 'gone'"),
    ],
)
def test_what_cannot_be_changed(saved, argv, code, problem):
    assert saved("topics", *argv).failed_with(code, problem)
