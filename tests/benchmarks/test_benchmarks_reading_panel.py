import argparse
import json
from pathlib import Path

import pytest
import reading_panel
from reading_panel import QUESTIONS, judged, precisions, score, sheet
from reading_table import reading_section

ROOT = Path(__file__).parents[2]
DOCUMENTS = [f"{number:012x}" for number in range(20)]


@pytest.fixture
def runs(tmp_path):
    """Two systems: the first finds documents 0 to 9 for everything, the second 5 to 14."""
    folder = tmp_path / "runs"
    folder.mkdir()
    for name, start in (("minilm", 0), ("default", 5)):
        hits = {one["id"]: DOCUMENTS[start : start + 10] for one in QUESTIONS}
        (folder / f"{name}.json").write_text(json.dumps({"name": name, "fingerprint": "f" * 64, "hits": hits}))
    return folder


@pytest.fixture
def judgements(tmp_path):
    """Documents from the eighth on answer every question."""
    rows = [
        {"question": one["id"], "document": document, "relevant": row >= 8}
        for one in QUESTIONS
        for row, document in enumerate(DOCUMENTS[:15])
    ]
    file = tmp_path / "judged.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_precision_is_the_share_of_hits_that_answer(runs, judgements, tmp_path):
    score(argparse.Namespace(runs=runs, judged=judgements, peer="minilm", output=tmp_path / "report.json"))
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["judged"], report["relevant"]) == (15 * len(QUESTIONS), 7 * len(QUESTIONS))
    for part in ("known", "covered", "unmet", "known and covered", "all"):
        assert report["systems"]["minilm"][part]["value"] == 0.2
        assert report["systems"]["default"][part] == {
            "value": 0.7,
            "interval": [0.7, 0.7],
            "less_peer": [0.5, 0.5, 0.5],
        }
    page = "\n".join(reading_section(tmp_path / "report.json"))
    assert "| default | 0.70 (+0.50 [+0.50, +0.50]) |" in page
    assert "| `...xxxxxxx` | `........xx` |" in page


def test_a_hit_that_nobody_judged_stops_the_scoring(runs):
    with pytest.raises(KeyError):
        precisions(json.loads((runs / "default.json").read_text())["hits"], {})


def test_two_judgements_of_one_pair_have_to_agree(judgements):
    with judgements.open("a") as file:
        file.write(json.dumps({"question": QUESTIONS[0]["id"], "document": DOCUMENTS[0], "relevant": True}) + "\n")
    with pytest.raises(ValueError, match="judged twice"):
        judged(judgements)


def test_the_sheet_has_what_is_not_judged_and_not_who_found_it(runs, judgements, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(reading_panel, "reviews", lambda data: {one: f"text {one}" for one in DOCUMENTS})
    options = argparse.Namespace(data=None, runs=runs, judged=judgements)
    sheet(options)
    assert capsys.readouterr().out == ""
    judgements.write_text("")
    sheet(options)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 15 * len(QUESTIONS)
    assert set(rows[0]) == {"question", "instruction", "query", "document", "text"}
    shown = [row["document"] for row in rows if row["question"] == QUESTIONS[0]["id"]]
    assert sorted(shown) == DOCUMENTS[:15] != shown


def test_there_are_eight_questions_of_each_family():
    assert [sum(one["family"] == name for one in QUESTIONS) for name in ("known", "covered", "unmet")] == [8, 8, 8]
    assert len({one["id"] for one in QUESTIONS}) == len(QUESTIONS)


def test_the_page_has_what_was_judged():
    known = judged(ROOT / "benchmarks/results/reading_judged.jsonl")
    found = json.loads((ROOT / "benchmarks/results/reading_panel.json").read_text())
    hits = {(one["id"], *hit) for one in found["questions"] for of in one["hits"].values() for hit in of}
    assert all(known[question, document] is relevant for question, document, relevant in hits)
    assert "\n".join(reading_section()) in (ROOT / "docs/evaluation.md").read_text(encoding="utf-8")
