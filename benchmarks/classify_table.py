"""The part of docs/evaluation.md on categories, from what benchmarks/classify.py found.

python benchmarks/classify_table.py
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from retriever.evaluation.run.report import table

RESULTS = Path(__file__).parent / "results"
_WAYS = ("retriever", "MiniLM", "nearest cluster", "view alone", "half MiniLM", "cosine", "answered words")
_ABOUT = """`retriever classify` puts texts to categories by the names of these alone: accuracy and, in brackets, macro
F1, in percent. *MiniLM* is the nearest name by all-MiniLM-L6-v2 without a question; *nearest cluster* is k-means over
the view into as many clusters as there are names, each called by the name that fits its centroid best. The last four
are what else was tried: without MiniLM's small part in the score, with MiniLM for half of it, the cosine under the
question with nothing taken off, and the name nearest by MiniLM to the words that the model answers. Names are the
labels' own, with blanks for underscores; of sentences with several labels a choice is right where it is one of them."""
_NONE = """A text belongs to none of the categories where its cosine with the best is below {floor} of the length of the
view's mean. Each name left out in turn, so many in a hundred go to none: of the texts that have that label alone, and
of those that have another. The floor was set on the rows of the choice, so that few of the latter are given up; how
many of the former are seen depends on how near the missing category is to those that are there."""


def categories_section() -> list[str]:
    """Return the lines of the section, its heading first."""
    test, choice = (json.loads((RESULTS / f"{name}.json").read_text()) for name in ("classify", "classify_choice"))
    date, machine = test["machine"]["date"][:10], f"{test['machine']['cpu']}, {test['machine']['cores']} cores"
    said = (
        "`python benchmarks/classify.py DATA --vectors FOLDER --output benchmarks/results/classify.json`, the shipped "
        f"`default` ({test['fingerprint'][:12]}), {date}, {machine}. Texts are test rows; the model was trained on "
        "other rows of these files, intents and aspects among them (its card). The rules were chosen on the rows of "
        "`--rows choice`: development rows, ten other intents, and sentences of ACOS, which is in no training."
    )
    both = [("test", test), ("choice", choice)]
    figures = [[name, *_figures(one)] for _, part in both for name, one in _named(part)]
    none = [[name, *_none(one)] for _, part in both for name, one in _named(part)]
    several = [
        [name, *(_pair(one[key], "micro F1", "macro F1") for key in ("one", "several"))]
        for _, part in both
        for name, one in _named(part)
        if "several" in one
    ]
    return [
        "## Categories",
        "",
        *_ABOUT.split("\n"),
        "",
        said,
        "",
        *table(["set", "texts", "names", *_WAYS], figures),
        "",
        *_NONE.format(floor=test["settings"]["floor"]).split("\n"),
        "",
        *table(["set", "category missing", "category there"], none),
        "",
        "Of sentences with several labels, micro and macro F1 of the sets that one category and several give:",
        "",
        *table(["set", "one", "several"], several),
        "",
    ]


def _named(part: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the sets with their names, those that the rules were chosen on marked."""
    chosen = part["options"]["rows"] == "choice"
    return [(f"{name}, rows of the choice" if chosen else name, one) for name, one in part["sets"].items()]


def _figures(one: Mapping[str, Any]) -> list[str]:
    cells = [_pair(one[way], "accuracy", "macro F1") for way in _WAYS]
    return [str(one["texts"]), str(len(one["categories"])), *cells]


def _none(one: Mapping[str, Any]) -> list[str]:
    found = one["none"]
    return ["-" if found[key] is None else str(found[key]) for key in ("category missing", "category there")]


def _pair(found: Mapping[str, float], first: str, second: str) -> str:
    return f"{found[first]} ({found[second]})"


if __name__ == "__main__":
    print("\n".join(categories_section()))
