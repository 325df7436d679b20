import getpass

import pytest

PRODUCT = "Which product is it?"


@pytest.fixture
def saved(indexed):
    assert indexed("cluster", "--instruction", PRODUCT, "-k", "3", "--save", "mine").code == 0
    return indexed


def labels(ran):
    return [(one["cluster"], one["label"], one["size"]) for one in ran.document["clusters"]]


def test_clusters_are_changed_in_one_call(saved):
    argv = ["--rename", "0=Water = hot", "--merge", "lamp,2", "--move", "r1=none", "--author", "Ada"]
    ran = saved("topics", "mine", *argv, "--json")
    assert labels(ran) == [(0, "Water = hot", 1), (1, "lamp", 3)]
    assert [one["author"] for one in ran.document["edits"]] == ["Ada"] * 3


def test_what_a_person_reads(saved):
    ran = saved("topics", "mine", "--rename", "toy=Plaything", "--hide", "1")
    assert [line for line in ran.out.splitlines() if line.startswith("  0") or line.startswith("  2")] == [
        "  0  kettle  2 documents, cohesion 1.00, margin 0.50",
        "  2  Plaything  1 documents, cohesion 1.00, margin 0.50",
    ]
    assert "lamp  2 documents" not in ran.out
    assert "1 clusters are hidden: 1." in ran.err


def test_changes_are_taken_back_and_listed(saved):
    saved("topics", "mine", "--rename", "0=Kettles")
    saved("topics", "mine", "--hide", "2")
    ran = saved("topics", "mine", "--undo", "--json")
    assert "Taken back: cluster 2 is hidden." in ran.err
    assert (ran.document["hidden"], labels(ran)[0][1]) == ([], "Kettles")
    lines = saved("topics", "mine", "--history").out.splitlines()
    assert len(lines) == 2
    assert f"{getpass.getuser()}  cluster 0 is called 'Kettles'" in lines[0]
    assert "cluster 2 is hidden  (taken back " in lines[1]


def test_nothing_was_changed_yet(saved):
    assert saved("topics", "mine", "--history").out == "Nothing was changed.\n"


@pytest.mark.parametrize(
    ("argv", "code", "problem"),
    [
        (["mine", "--rename", "0"], 2, "--rename is '0'"),
        (["mine", "--split", "0=x"], 2, "--split is '0=x'"),
        (["mine", "--split", "0=2"], 2, "too alike"),
        (["mine", "--merge", "0"], 2, "One cluster alone"),
        (["mine", "--undo", "--hide", "0"], 2, "--undo stands alone"),
        (["mine", "--undo"], 1, "left to take back"),
        (["mine", "--move", "zz=0"], 1, "no document 'zz'"),
        (["gone", "--hide", "0"], 1, "no saved clustering 'gone'"),
    ],
)
def test_what_cannot_be_changed(saved, argv, code, problem):
    assert saved("topics", *argv).failed_with(code, problem)
