"""The part of docs/evaluation.md on verdicts, from what `verdict.py` found."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from retriever.evaluation.run.report import table

RESULTS = Path(__file__).parent / "results/verdict.json"

_ABOUT = """\
Does what `retriever diagnose`, search and clusters say of a question hold? {questions} labelled questions of {sources}
files were asked by the shipped `default`, in three wordings each, {cases} in all, of at most {limit} texts that nothing
is trained on, or whose question nothing is trained on. In truth a wording is followed where at least {least:.0f} % of
the triplets come right under it, and at most {loss:.0f} points fewer than under none: {followed} are. The verdict sees
no labels. Its chance is that of a logistic model over features of {texts} texts as they were read ({used}; see
`retriever/index/verdicts`) and over the question's own vector by the plain reader (`wording`), fitted on all files but
the question's own. From the other features nothing was gained: a question that asks for the topic is followed although
its view is much like that of none. Which features are taken, and how much the vector counts, was chosen by this very
area, among some twenty candidates, so that it flatters a little. Thresholds are such that of those called followed at
most one in {wrong} is not, and of those called hardly followed at most one in {missed} is. A star marks a wrong call;
intervals are over questions. Fingerprint {fingerprint}, {date}, {cpu}, {cores} cores: `{command}`.
"""


def verdict_lines(file: Path = RESULTS) -> list[str]:
    """Return the lines of the page; few where nothing is measured yet."""
    if not file.is_file():
        return ["## verdict", "", "Not measured yet: `python benchmarks/verdict.py`.", ""]
    found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    cases = found["cases"]
    asked = _by_question(cases)
    about = _ABOUT.format(
        questions=len(asked),
        cases=len(cases),
        sources=len({one["source"] for one in cases}),
        limit=found["most_texts"],
        texts=found["texts"],
        followed=found["truth"]["followed"],
        used=", ".join(found["used"]),
        least=found["truth"]["least"],
        loss=found["truth"]["loss"],
        wrong=round(1 / found["wrong_at_most"]["followed"]),
        missed=round(1 / found["wrong_at_most"]["hardly"]),
        fingerprint=found["fingerprint"][:12],
        date=found["machine"]["date"][:10],
        cpu=found["machine"]["cpu"],
        cores=found["machine"]["cores"],
        command="python benchmarks/verdict.py CACHE",
    )
    rows = [[name, str(one["questions"]), str(one["cases"]), _ranged(one)] for name, one in found["auc_of"].items()]
    rows += [
        [f"all, on {count} texts", str(len(asked)), str(len(cases)), f"{value:.3f}"]
        for count, value in found["auc"].items()
    ]
    levels = [
        [name, one["cases"], one["followed in truth"], one["cases"] - one["followed in truth"]]
        for name, one in found["levels"].items()
    ]
    single = sorted(found["auc_of_single_features"].items(), key=lambda one: -one[1])
    return [
        "## verdict",
        "",
        about,
        *table(["", "questions", "wordings", "AUC"], rows),
        "",
        *table(["level", "wordings", "followed in truth", "not followed in truth"], _text(levels)),
        "",
        *table(["feature alone", "AUC"], [[name, f"{value:.3f}"] for name, value in single]),
        "",
        *table(["kind", "", "not asked", "asked: triplets, chance, called"], [_told(found, one) for one in asked]),
        "",
    ]


def _by_question(cases: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Return the wordings of every question, the likeliest questions first."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for one in cases:
        found.setdefault((one["source"], one["kind"]), []).append(one)
    return sorted(found.values(), key=lambda wordings: -sum(one["chance"] for one in wordings) / len(wordings))


def _told(found: Mapping[str, Any], wordings: Sequence[Mapping[str, Any]]) -> list[str]:
    first = wordings[0]
    said = "; ".join(f"{one['asked']} {one['chance']:.2f} {_called(found, one)}" for one in wordings)
    return [first["kind"], "unmet" if first["unmet"] else "", str(first["not_asked"]), said]


def _text(rows: Sequence[Sequence[object]]) -> list[list[str]]:
    return [[str(cell) for cell in row] for row in rows]


def _ranged(area: Mapping[str, Any]) -> str:
    return f"{area['auc']:.3f} [{area['low']:.3f}, {area['high']:.3f}]"


def _called(found: Mapping[str, Any], one: Mapping[str, Any]) -> str:
    """Return the level of a question, with a star where it is wrong."""
    followed, hardly = found["thresholds"]["followed"], found["thresholds"]["hardly"]
    if one["chance"] >= followed:
        return "followed" if one["followed"] else "followed*"
    if one["chance"] <= hardly:
        return "hardly*" if one["followed"] else "hardly"
    return "unclear"
