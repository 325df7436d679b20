import evaluation_fakes
import numpy as np
import pytest
from cli_fakes import KeywordEncoder


@pytest.fixture
def measure(run, fake, monkeypatch, tmp_path):
    """Run the command over suites of fake tasks, with a cache of its own."""
    monkeypatch.setenv("RETRIEVER_CACHE", str(tmp_path / "cache"))
    evaluation_fakes.register(monkeypatch, tmp_path / "data")
    return lambda *argv: run("eval", *argv)


class Constant(KeywordEncoder):
    def rows(self, texts, instruction):
        return np.full((len(texts), self.dim), self.dim**-0.5, dtype=np.float32)


@pytest.fixture
def two(monkeypatch):
    """Two encoders by name: one that sees keywords, one that sees nothing."""
    kinds = {"keywords": KeywordEncoder, "constant": Constant}
    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", lambda name, **options: kinds[name](name))


def test_a_table_with_value_interval_and_items(measure):
    ran = measure("toys", "--data", "data")
    assert ran.code == 0
    lines = [line.split() for line in ran.out.splitlines()]
    assert ran.out.splitlines()[0] == "toys: keywords, keywords"
    assert lines[1] == ["task", "metric", "value", "95", "%", "interval", "items"]
    assert [line[:2] for line in lines[2:6]] == [
        ["kettles", "half"], ["kettles", "share"], ["kettles", "unit"], ["first-hit", "P@1"]
    ]  # fmt: skip
    assert lines[3][2:] == ["50.00", "[0.000,", "100.00]", "4"]
    assert ran.out.splitlines()[-1] == "mean of the headline scores: 50.17"


def test_json_is_one_document_with_the_command(measure):
    ran = measure("toys", "--data", "./data/", "--task", "first-hit", "--limit", "3", "--seed", "0", "--json")
    assert ran.err == ""
    document = ran.document
    assert list(document) == ["schema_version", "evaluations", "against", "differences"]
    [one] = document["evaluations"]
    assert (one["suite"], one["limit"], one["encoder"]["name"]) == ("toys", 3, "keywords")
    assert one["command"] == "retriever eval toys --task first-hit --limit 3 --json"
    assert [(score["task"], score["value"]) for score in one["scores"]] == [("first-hit", 100)]


def test_two_encoders_side_by_side(measure, two):
    asked = ["toys", "--data", "data", "--encoder", "keywords", "--against", "constant"]
    document = measure(*asked, "--json").document
    assert [(one["task"], one["difference"], one["certain"]) for one in document["differences"]][1] == (
        "kettles", -50, False
    )  # fmt: skip
    assert [one["encoder"]["name"] for one in document["against"]] == ["constant"]
    share = measure(*asked).out.splitlines()[3].split()
    assert share[:3] + share[6:] == ["kettles", "share", "50.00", "100.00", "-50.00", "[-100.00,", "+0.00]", "open"]


def test_a_report_and_a_picture_beside_it(measure, tmp_path, two):
    ran = measure(
        "all", "--data", "data", "--encoder", "keywords", "--against", "constant", "--report", "found.md", "--json"
    )
    assert ran.code == 0
    text = (tmp_path / "found.md").read_text()
    assert "# Evaluation of keywords, keywords and constant, keywords" in text
    assert "![Headline scores with 95% intervals](found.svg)" in text
    assert "## bare" in text
    assert (tmp_path / "found.svg").read_bytes().startswith(b"<?xml")


def test_settings_reach_the_encoder_that_is_measured(measure, monkeypatch):
    asked = []

    def load(name, **options):
        asked.append((name, {key: options.get(key) for key in ("device", "pooling", "steps")}))
        return KeywordEncoder(name)

    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", load)
    measure("toys", "--data", "data", "--encoder", "x", "--against", "y", "--pooling", "last", "--steps", "3")
    assert asked == [
        ("x", {"device": "auto", "pooling": "last", "steps": 3}),
        ("y", {"device": "auto", "pooling": None, "steps": None}),
    ]


@pytest.mark.parametrize(
    ("argv", "code", "parts"),
    [
        (["toyz", "--data", "data"], 2, ["Unknown suite 'toyz'", "'toys'"]),
        (["toys", "--data", "data", "--task", "kettle"], 2, ["has no task 'kettle'", "'kettles'"]),
        (["all", "--data", "data", "--task", "kettles"], 2, ["--task needs one suite"]),
        (["toys", "--data", "nowhere"], 1, ["nowhere is not a folder", "--data"]),
        (["toys", "--data", "data", "--limit", "0"], 2, ["--limit is 0"]),
        (["toys", "--data", "data", "--report", "found.txt"], 2, ["not a .md file"]),
        (["toys", "--data", "data", "--report", "no/found.md"], 1, ["no/found.md cannot be written"]),
        ([], 2, ["suite"]),
    ],
)
def test_mistakes_are_named_before_anything_runs(measure, argv, code, parts):
    assert measure(*argv).failed_with(code, *parts)
    assert evaluation_fakes.RAN == []


def test_an_unknown_encoder_is_named(measure, monkeypatch):
    from retriever.encoders.catalog import resolve_name

    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", lambda name, **options: resolve_name(name))
    assert measure("toys", "--data", "data", "--encoder", "minilmm").failed_with(1, "'minilmm'", "'minilm'")
