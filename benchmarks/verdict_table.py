"""The part of docs/evaluation.md on verdicts, from what `verdict.py` found."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from retriever.evaluation.run.report import table

RESULTS = Path(__file__).parent / "results/verdict.json"

_ABOUT = """\
Does what `retriever diagnose`, search and clusters say of a question hold? {questions} labelled questions of {sources}
files were asked in one wording each, by the shipped `default`, of at most {limit} texts that nothing is trained on, or
whose question nothing is trained on. In truth a question is followed where at least {least:.0f} % of the triplets come
right under it, and at most {loss:.0f} points fewer than under none: {followed} are. The verdict sees no labels. Its
chance is that of a logistic model over three of the features below ({used}; see `retriever/index/verdicts`), fitted on
all files but the question's own, on {texts} texts. From the others nothing was gained: a question that asks for the
topic is followed although its view is much like that of none. Thresholds are such that of those called followed at most
one in five is not, and of those called hardly followed at most one in six is. A star marks a wrong call. Fingerprint
{fingerprint}, {date}, {cpu}, {cores} cores: `{command}`.
"""


def verdict_lines(file: Path = RESULTS) -> list[str]:
    """Return the lines of the page; few where nothing is measured yet."""
    if not file.is_file():
        return ["## verdict", "", "Not measured yet: `python benchmarks/verdict.py`.", ""]
    found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    questions = found["questions"]
    about = _ABOUT.format(
        questions=len(questions),
        sources=len({one["source"] for one in questions}),
        limit=found["most_texts"],
        texts=found["texts"],
        followed=found["truth"]["followed"],
        used=", ".join(found["used"]),
        least=found["truth"]["least"],
        loss=found["truth"]["loss"],
        fingerprint=found["fingerprint"][:12],
        date=found["machine"]["date"][:10],
        cpu=found["machine"]["cpu"],
        cores=found["machine"]["cores"],
        command="python benchmarks/verdict.py CACHE",
    )
    rows = [[name, str(one["questions"]), _ranged(one)] for name, one in found["auc_of"].items()]
    rows += [[f"all, on {count} texts", str(len(questions)), f"{value:.3f}"] for count, value in found["auc"].items()]
    levels = [
        [name, one["questions"], one["followed in truth"], one["questions"] - one["followed in truth"]]
        for name, one in found["levels"].items()
    ]
    single = sorted(found["auc_of_single_features"].items(), key=lambda one: -one[1])
    asked = [
        [
            one["kind"],
            "unmet" if one["unmet"] else "",
            one["asked"],
            one["not_asked"],
            one["chance"],
            _called(found, one),
        ]
        for one in sorted(questions, key=lambda one: -one["chance"])
    ]
    return [
        "## verdict",
        "",
        about,
        *table(["questions", "how many", "AUC"], rows),
        "",
        *table(["level", "questions", "followed in truth", "not followed in truth"], _text(levels)),
        "",
        *table(["feature alone", "AUC"], [[name, f"{value:.3f}"] for name, value in single]),
        "",
        *table(["kind", "", "asked", "not asked", "chance", "called"], _text(asked)),
        "",
    ]


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
