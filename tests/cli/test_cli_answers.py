import csv

import pytest

WHO = "Who uses it?"


def listed(indexed):
    return indexed("answers", "--instruction", WHO, "--json").document["answers"]


def give(indexed, file, *options):
    return indexed("answers", "--instruction", WHO, file, *options)


def test_answers_of_a_file_are_taken_listed_and_searched(indexed, write):
    assert (
        indexed("answers", "--instruction", WHO).err
        == "0 of 5 texts have an answer; no language model serves the question.\n"
    )
    ran = give(indexed, write([{"id": "r1", "answer": " a  cook"}, {"id": "r2", "answer": "not said"}], "a.jsonl"))
    assert (ran.code, ran.out, ran.err) == (0, "", "2 of 5 texts have an answer: 2 by people.\n")
    ran = indexed("answers", "--instruction", f" {WHO} ")
    assert ran.out == "r1  a cook\nr2  not said\n"
    hits = indexed("search", "a cook", "--instruction", WHO, "--json").document["hits"]
    assert {hit["id"]: hit["words"] for hit in hits if hit["words"]} == {"r1": ["a cook"], "r2": ["not said"]}
    document = give(indexed, write([{"id": "r3", "answer": "a cook"}], "b.jsonl"), "--json").document
    assert document["status"] == {"reader": "given", "answers": 3, "texts": 5, "vectors": 2}
    assert "answers" not in document


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", b"id,answer\nr1,\nr2,a child\n"),
        ("a.jsonl", b'{"id": "r1", "answer": null}\n{"id": "r2", "answer": "a child"}\n'),
        ("b.jsonl", b'{"id": "r1", "answer": ""}\n{"id": "r2", "answer": "a child"}\n'),
    ],
)
def test_an_empty_answer_takes_it_back(indexed, write, name, data):
    give(indexed, write([{"id": "r1", "answer": "a cook"}], "first.jsonl"))
    assert give(indexed, write(data, name)).code == 0
    assert listed(indexed) == {"r2": "a child"}


def test_numbers_of_a_table_stay_text(run, fake, write):
    assert run("index", write(b"id,text\n007,The kettle broke.\n", "corpus.csv")).code == 0
    assert run("answers", "--instruction", WHO, write(b"id,answer\n007,2\n", "a.csv")).code == 0
    assert run("answers", "--instruction", WHO).out == "007  2\n"


def test_a_table_of_answers_is_written_and_taken_again(indexed, write, tmp_path):
    give(indexed, write([{"id": "r1", "answer": "=1+1"}, {"id": "r2", "answer": "a, b"}], "a.jsonl"))
    assert indexed("answers", "--instruction", WHO, "--csv", "out.csv").code == 0
    with (tmp_path / "out.csv").open(newline="") as table:
        assert list(csv.reader(table)) == [["id", "answer"], ["r1", "'=1+1"], ["r2", "a, b"]]
    assert give(indexed, "out.csv").code == 0
    assert listed(indexed)["r2"] == "a, b"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{"id": "r1", "answer": "a"}\n{"id": "r9", "answer": "a"}\n', "There is no document 'r9'"),
        (b'{"id": "r1", "answer": "a"}\n{"id": "r2", "answer": [5]}\n', "a.jsonl, line 2: the answer is no text"),
        (b'{"id": "r1", "answer": "a"}\n{"id": "r2"}\n', "a.jsonl, line 2 has no answer"),
        (b'{"id": "r1", "answer": "a"}\n{"answer": "a"}\n', "a.jsonl, line 2 has no id"),
        (b'{"id": "r1", "answer": "a"}\n{"id": "r1", "answer": "b"}\n', "'r1' has another answer further up"),
        (b'{"id": "r1", "answer": "a"}\n{"id": \n', "a.jsonl, line 2: not JSON"),
        (b'{"id": "r1", "answer": "%s"}\n' % (b"word " * 13), "has 13 words"),
    ],
)
def test_a_file_with_a_bad_row_is_refused_whole(indexed, write, data, says):
    assert give(indexed, write(data, "a.jsonl"), "--json").failed_with(1, says)
    assert listed(indexed) == {}


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (["--instruction", " ", "a.jsonl"], 2, "A reader needs an instruction"),
        (["--instruction", " "], 2, "A reader needs an instruction"),
        (["a.jsonl"], 2, "--instruction"),
        (["--instruction", WHO, "gone.jsonl"], 1, "gone.jsonl"),
        (["--instruction", WHO, "a.jsonl", "--csv", "out.csv"], 2, "Import first, then list"),
        (["--instruction", WHO, "table.csv"], 1, "answer"),
    ],
)
def test_what_cannot_be_done_says_why(indexed, write, argv, code, says):
    write([{"id": "r1", "answer": "a cook"}], "a.jsonl")
    write(b"id,text\nr1,x\n", "table.csv")
    assert indexed("answers", *argv).failed_with(code, says)


def test_searches_clusters_and_categories_are_filtered_by_answers(indexed, write):
    rows = [("r1", "refund"), ("r2", "Refund"), ("r3", "repair")]
    give(indexed, write([{"id": id, "answer": answer} for id, answer in rows], "a.jsonl"))
    asked = ["--instruction", WHO, "--where", "answer = 'refund'"]
    known = "The filter uses the known answers of 3 of 5 texts."
    for command in (["search", "it broke"], ["cluster", "-k", "1"], ["cluster", "--into", "refund, repair"]):
        ran = indexed(*command, *asked)
        assert (ran.code, known in ran.err) == (0, True), ran.err
        document = indexed(*command, *asked, "--json").document
        found = document.get("assignments") or [hit["id"] for hit in document["hits"]]
        assert sorted(found) == ["r1", "r2"]
        assert document["known_answers"] == {"answers": 3, "texts": 5}
    assert indexed("cluster", "--instruction", WHO, "--where", "answer = 'x'").failed_with(1, known)


@pytest.mark.parametrize("command", [["search", "it broke"], ["cluster"], ["cluster", "--into", "refund, repair"]])
def test_a_filter_over_answers_that_nobody_gives_names_the_next_step(indexed, command):
    ran = indexed(*command, "--instruction", WHO, "--where", "answer = 'refund'")
    assert ran.failed_with(2, f"Nobody answers {WHO!r} in words.", "--reader chat:MODEL")
