import json

import pytest
from cli_fakes import KeywordEncoder

ROWS = [
    {"id": f"{row}", "text": f"I {mood} this {product}, says number {row}."}
    for row, (product, mood) in enumerate([(a, b) for a in ("kettle", "lamp", "toy") for b in ("love", "hate")] * 2)
]
ASKED = ["--instruction", "Which product is it?"]


@pytest.fixture
def diagnose(run, fake, write):
    """Run the command over the texts of a file."""
    name = write(ROWS)
    return lambda *argv: run("diagnose", "--corpus", name, *argv)


def test_what_the_verdict_rests_on(diagnose):
    ran = diagnose(*ASKED)
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0].split() == ["against", "vectors", "moved", "texts", "regrouped"]
    assert [
        line for line in lines if line.startswith("the instruction in other words (should be near)") and "0.000" in line
    ]
    assert "answers over 12 texts: kettle (4), lamp (4), toy (4)" in lines
    assert "likely that it does; followed from " in lines[-1]


def test_an_encoder_that_does_not_read_it_hardly_follows_it(diagnose, monkeypatch):
    class Blind(KeywordEncoder):
        def answers(self, text, instruction):
            return super().answers(text, "")

    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", lambda *name, **options: Blind())
    document = diagnose(*ASKED, "--json").document
    assert (document["schema_version"], document["level"]) == (1, "hardly")
    assert document["verdict"].startswith("This model hardly follows this question; teach it with examples: retriever")


def test_pairs_are_shown_and_decide(diagnose, write):
    texts = [row["text"] for row in ROWS]
    rows = [{"a": texts[0], "b": texts[1], "same": True}, {"a": texts[0], "b": texts[2], "same": False}]
    ran = diagnose(*ASKED, "--pairs", write(rows, "pairs.jsonl"))
    assert "2 pairs: AUC 1.000 (base view " in ran.out
    assert "in 100% of cases" in ran.out
    rows = [{**row, "same": not row["same"]} for row in rows]
    document = diagnose(*ASKED, "--pairs", write(rows, "pairs.jsonl"), "--json").document
    assert (document["pairs"]["auc"], document["level"]) == (0, "hardly")


def test_an_index_is_looked_at_with_its_own_encoder(run, fake, write):
    run("index", write(ROWS))
    document = run("diagnose", *ASKED, "--limit", "9", "--json").document
    assert (document["texts"], document["encoder"]["name"]) == (9, "keywords")


@pytest.mark.parametrize(
    ("argv", "code", "parts"),
    [
        (["--instruction", " "], 2, ["The instruction is empty"]),
        ([*ASKED, "--limit", "0"], 2, ["--limit is 0"]),
        ([*ASKED, "--limit", "3"], 2, ["3 different texts", "at least 8"]),
        ([*ASKED, "--pairs", "none.jsonl"], 1, ["none.jsonl cannot be read"]),
        ([], 2, ["--instruction"]),
    ],
)
def test_mistakes_are_named(diagnose, argv, code, parts):
    assert diagnose(*argv).failed_with(code, *parts)


def test_no_index_is_said(run, fake):
    assert run("diagnose", *ASKED).failed_with(1, "indexes/default")


def test_control_characters_in_words_never_reach_the_terminal(diagnose, monkeypatch):
    class Hostile(KeywordEncoder):
        def answers(self, text, instruction):
            return ["a\x1b[31mred", *super().answers(text, instruction)]

    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", lambda *name, **options: Hostile())
    ran = diagnose(*ASKED)
    assert "\x1b" not in ran.out + ran.err
    assert "a [31mred (12)" in ran.out
    assert json.loads(diagnose(*ASKED, "--json").out)["words"][0]["word"] == "a\x1b[31mred"
