import json

import pytest


def ids(ran):
    return [hit["id"] for hit in ran.document["hits"]]


def test_what_is_said_of_hits_is_kept_for_the_query(indexed):
    plain = indexed("search", "kettle", "--mode", "dense", "--json")
    assert "marked" not in plain.err
    ran = indexed("search", "kettle", "--mode", "dense", "--more", "r5", "--less", "r2", "--json")
    assert "Towards 1 marked hits and away from 1" in ran.err
    assert ids(ran).index("r5") < ids(plain).index("r5")
    again = indexed("search", "kettle", "--mode", "dense", "--json")
    assert ids(again) == ids(ran)
    assert ids(indexed("search", "kettle", "--mode", "dense", "--unmark", "all", "--json")) == ids(plain)
    assert "marked" not in indexed("search", "lamp").err


def test_marked_hits_become_a_row_to_learn_from(indexed, tmp_path):
    argv = ["search", "it is broken", "--instruction", "mood", "--more", "r1", "--more", "r5", "--less", "r2"]
    ran = indexed(*argv, "--as-rows", "rows.jsonl")
    assert "A row for `retriever finetune` written to rows.jsonl." in ran.err
    assert json.loads((tmp_path / "rows.jsonl").read_text()) == {
        "instruction": "mood",
        "query": "it is broken",
        "positives": ["The kettle broke.", "The toy broke."],
        "negatives": ["I love this kettle."],
    }
    indexed("search", "it is broken", "--instruction", "mood", "--unmark", "r1", "--unmark", "r5")
    ran = indexed("search", "it is broken", "--instruction", "mood", "--as-rows", "rows.jsonl")
    assert ran.failed_with(1, "nothing to learn from")


def test_marks_of_documents_that_are_gone_have_no_say(indexed):
    indexed("search", "kettle", "--more", "r1", "--less", "r2")
    indexed("delete", "r1")
    assert "Towards 0 marked hits and away from 1" in indexed("search", "kettle").err


def test_texts_that_hold_an_expression(indexed):
    assert ids(indexed("search", "--regex", r"(?i)\bthe\b.*broke", "--json")) == ["r1", "r5"]
    assert ids(indexed("search", "--regex", "broke", "--where", "category = 'toy'", "--json")) == ["r5"]
    assert ids(indexed("search", "kettle", "--regex", "broke", "--json"))[0] == "r1"
    assert ids(indexed("search", "--like", "r1", "--regex", "broke", "--json")) == ["r5"]
    assert indexed("search", "--regex", "nowhere").out == "Nothing found.\n"


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["--regex", "("], "is no regular expression: missing )"),
        (["kettle", "--regex", "[a"], "unterminated character set"),
        (["--more", "r1", "--regex", "a"], "Hits are marked under one query"),
        (["-", "--more", "r1"], "Hits are marked under one query"),
        (["kettle", "--more", "r1", "--less", "r1"], "More and less is asked for of 'r1'"),
        ([], "--regex can also stand alone"),
    ],
)
def test_wrong_usage(indexed, argv, problem):
    assert indexed("search", *argv).failed_with(2, problem)


def test_a_mark_on_what_is_not_there(indexed):
    assert indexed("search", "kettle", "--more", "zz").failed_with(1, "no document 'zz'")
