import json
from pathlib import Path

import pytest
from cli_fakes import KeywordEncoder

from retriever.core.protocols import Tuning
from retriever.workspace import Index

MOOD = "What mood?"
UNFOLLOWED = "What product?"  # which these texts do not name
TEXTS = [f"I {'love' if number % 2 else 'hate'} the {product}." for number, product in enumerate("abcdefgh")]
ROWS = [{"id": f"t{number}", "text": text} for number, text in enumerate(TEXTS)]


def answer(text):
    return "glad" if "love" in text else "cross"


@pytest.fixture
def taught(indexed, write):
    """Run commands on an index with eight more reviews, and a file of six examples."""
    assert indexed("index", write(ROWS)).code == 0
    write([{"id": row["id"], "answer": answer(row["text"])} for row in ROWS[:6]], "examples.jsonl")
    return indexed


def test_what_was_learned_is_told(taught):
    ran = taught("teach", "--instruction", MOOD, "examples.jsonl")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0] == "What mood?: learned from 6 examples."
    assert ["cross", "3"] in [line.split() for line in lines]
    assert lines[-2].startswith("before, by the nearest examples  ")
    assert lines[-1].startswith("after  ")
    assert " to " in lines[-1]


def test_clusters_are_the_answers_that_were_learned(taught):
    taught("teach", "--instruction", MOOD, "examples.jsonl")
    document = taught("cluster", "--instruction", MOOD, "--json").document
    assert {group["label"] for group in document["clusters"]} == {"cross", "glad"}
    shown = taught("cluster", "--instruction", MOOD).out
    assert shown.count("6 examples") == 1
    assert len(taught("cluster", "--instruction", MOOD, "-k", "3", "--json").document["clusters"]) == 3


def test_as_json(taught):
    document = taught("teach", "--instruction", f" {MOOD} ", "examples.jsonl", "--json").document
    assert list(document) == ["schema_version", "instruction", "taught"]
    assert document["instruction"] == MOOD
    lessons = document["taught"]
    assert list(lessons) == ["view", "answers", "before", "after", "held_out", "created", "tuned", "right", "unlearned"]
    assert {answer: 0 <= right <= 3 for answer, right in lessons["right"].items()} == {"cross": True, "glad": True}
    assert lessons["tuned"] is None
    assert lessons["answers"] == {"cross": 3, "glad": 3}
    assert list(lessons["after"]) == ["value", "low", "high"]
    (view,) = [one for one in taught("views", "--json").document["views"] if one["instruction"] == MOOD]
    assert view["taught"] == lessons
    assert taught("status", "--json").document["views"][-1]["taught"] == lessons


def test_answers_and_examples_are_kept_and_what_was_not_learned_is_named(taught):
    with Index(Path("indexes/default")) as index:
        index.teaching.name_answers(MOOD, {"glad": "likes it", "shipping": "", "odd": ""})
        index.teaching.label(MOOD, "t7", "odd")
    ran = taught("teach", "--instruction", MOOD, "examples.jsonl")
    assert "shipping: no example, not learned; an answer needs 3.\n" in ran.err
    with Index(Path("indexes/default")) as index:
        labels = index.teaching.labels(MOOD)
        assert (len(labels.examples), set(labels.answers)) == (7, {"glad", "cross", "shipping", "odd"})
        index.teaching.label(MOOD, "t6", "cross")
        index.teaching.label(MOOD, "t7", "odd")
    ran = taught("teach", "--instruction", MOOD)
    assert ran.out.splitlines()[0] == "What mood?: learned from 7 examples."
    assert "odd: 1 example, not learned; an answer needs 3.\n" in ran.err


class Tunable(KeywordEncoder):
    """Looks at products, and at moods once it is tuned."""

    def answers(self, text, instruction):
        return super().answers(text, instruction or "product")

    def tune(self, texts, labels, *, steps, on_step=None):
        for _ in range(steps):
            on_step()
        return Tuning(json.dumps(texts).encode(), {"kind": "keywords"})

    def tuned(self, tuning):
        return Moody(self.spec.name, tuning.fingerprint(self.fingerprint))


class Moody(KeywordEncoder):
    def __init__(self, name, fingerprint):
        super().__init__(name + fingerprint)

    def answers(self, text, instruction):
        return super().answers(text, "mood")


@pytest.fixture
def tunable(run, monkeypatch, write):
    """Run commands on an index like `taught` whose base encoder can be tuned, and is asked for by name."""

    def load(name="default", *, device="auto", **options):
        return Tunable(name) if name == "st:tunable" else KeywordEncoder("keywords" if name == "default" else name)

    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", load)
    assert run("index", write(ROWS), "--base", "st:tunable").code == 0
    write([{"id": row["id"], "answer": answer(row["text"])} for row in ROWS[:6]], "examples.jsonl")
    return run


def test_a_fine_tuning_that_helps_is_said(tunable):
    ran = tunable("teach", "--instruction", UNFOLLOWED, "examples.jsonl", "--tune")
    assert ran.code == 0, ran.err
    assert "The base encoder was fine-tuned for this question.\n" in ran.err
    assert ran.out.splitlines()[0] == "What product?: learned from 6 examples."
    (view,) = [one for one in tunable("views", "--json").document["views"] if one["instruction"] == UNFOLLOWED]
    assert view["taught"]["tuned"] is True
    assert tunable("verify", "--deep").code == 0
    assert "fine-tuned" not in tunable("teach", "--instruction", UNFOLLOWED, "examples.jsonl").err


def test_views_show_it_and_searches_use_it(taught):
    lessons = taught("teach", "--instruction", MOOD, "examples.jsonl", "--json").document["taught"]
    assert (
        f"6 examples, {lessons['before']['value']:.0%} before, {lessons['after']['value']:.0%} after ("
        in taught("views").out
    )
    found = taught("search", "love", "--instruction", MOOD, "--json", "-k", "4").document
    assert found["view"] == lessons["view"]
    assert {answer(hit["text"]) for hit in found["hits"]} == {"glad"}
    clusters = taught("cluster", "--instruction", MOOD, "-k", "2", "--json").document
    assert clusters["view"] == lessons["view"]


@pytest.mark.parametrize("command", [["cluster", "-k", "2"], ["cluster", "--into", "glad, cross"]])
def test_clusters_and_categories_go_by_it_and_say_so(taught, command):
    asked = [*command, "--instruction", MOOD]
    assert taught(*asked, "--json").document["taught"] is None
    assert "set aside for testing" not in taught(*asked).out
    taught("teach", "--instruction", MOOD, "examples.jsonl")
    assert taught(*asked, "--json").document["taught"]["answers"] == {"cross": 3, "glad": 3}
    assert taught(*asked).out.startswith("6 examples gave no gain: 100% of the examples set aside")
    taught("teach", "--instruction", MOOD, "--forget")
    assert taught(*asked, "--json").document["taught"] is None


def test_another_encoder_is_taught_anew_or_says_what_to_run(taught):
    taught("views", "--complete", MOOD)
    taught("teach", "--instruction", MOOD, "examples.jsonl")
    ran = taught("reembed", "--encoder", "other")
    assert "What mood? was taught again with its 6 examples: " in ran.out
    assert "of held-out examples are answered correctly (" in ran.out
    assert taught("views", "--json").document["views"][-1]["taught"]["answers"] == {"cross": 3, "glad": 3}
    taught("delete", "t0")
    ran = taught("reembed", "--encoder", "third")
    assert (
        "What mood? could not be taught again: 1 of its 6 examples were deleted. These answers have fewer than 3 "
        "examples: 'cross' (2). Teach it yourself: retriever teach --index "
    ) in ran.err
    assert "--instruction 'What mood?' EXAMPLES.jsonl" in ran.err


def test_forgetting(taught):
    taught("teach", "--instruction", MOOD, "examples.jsonl")
    assert taught("teach", "--instruction", MOOD, "--forget").out == (
        "What mood?: forgotten; the encoder serves the question now. The index keeps the examples.\n"
    )
    assert taught("views", "--json").document["views"][-1]["taught"] is None
    assert taught("teach", "--instruction", MOOD, "--forget", "--json").failed_with(1, "was taught nothing")


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (["--instruction", MOOD], 2, "There are no examples."),
        (["examples.jsonl"], 2, "--instruction"),
        (["--instruction", MOOD, "examples.jsonl", "--forget"], 2, "--forget takes no examples."),
        (["--instruction", MOOD, "--forget", "--tune"], 2, "--forget fine-tunes nothing."),
        (["--instruction", MOOD, "examples.jsonl", "--tune"], 1, "cannot be fine-tuned on a few examples."),
        (["--instruction", MOOD, "gone.jsonl"], 1, "gone.jsonl cannot be read"),
        (["--instruction", MOOD, "strange.jsonl"], 1, "strange.jsonl, line 1 (document 'x') is no document"),
    ],
)
def test_what_cannot_be_done_says_why(taught, write, argv, code, says):
    write([{"id": "x", "answer": "glad"}], "strange.jsonl")
    assert taught("teach", *argv).failed_with(code, says)
    assert taught("views", "--json").document["views"][-1]["taught"] is None
