"""The part of docs/evaluation.md about hits as they read, of what `reading_panel.py` found."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from retriever.evaluation.run.report import table

RESULTS = Path(__file__).parent / "results" / "reading_panel.json"
_SIGNS = {True: "x", False: "."}


def reading_section(results: Path = RESULTS) -> list[str]:
    """Return the lines of the part."""
    title = "## Hits as they read"
    if not results.is_file():
        return [title, "", "Not measured yet: `python benchmarks/reading_panel.py`.", ""]
    found = json.loads(results.read_text(encoding="utf-8"))
    peer, machine = found["peer"], found["machine"]
    prints = ", ".join(f"{name} {print_[:12]}" for name, print_ in found["fingerprints"].items())
    lines = [
        title,
        "",
        f"{len(found['questions'])} questions of an analyst, each with the answer looked for, asked of",
        f"{found['texts']} held-out reviews of products (DMASTE test rows): kinds of question that training knows,",
        "such that the grids of `recipes/asked.jsonl` cover, and such that nothing asks. The first ten hits of all",
        "systems were mixed and judged without a word on who found them: does the text give the answer that was",
        "looked for? A language model read every text once, not people: a check of the order of things, no more.",
        f"{found['relevant']} of {found['judged']} do. `{peer}` searches by vectors and words without the question,",
        "the other by `auto` under the question, on a whole view and with both readers, as indexes are by default.",
        "Precision of the first ten, and in brackets",
        "how much more than the peer's, with the 95 % interval over questions.",
        f"`python benchmarks/reading_panel.py`, {prints}, {machine['date'][:10]}.",
        "",
        *_systems(found["systems"], peer),
        "",
        "Hits in order, x for one that answers. Ids and judgements are in `benchmarks/results/reading_panel.json` and",
        "`reading_judged.jsonl` beside it, by the beginning of the text's hash; the texts stay with their owner.",
        "",
        *_questions(found["questions"], list(found["systems"])),
        "",
    ]
    return lines


def _systems(systems: Mapping[str, Mapping[str, Any]], peer: str) -> list[str]:
    parts = list(next(iter(systems.values())))
    rows = [[name, *(_cell(one[part], name != peer) for part in parts)] for name, one in systems.items()]
    return table(["system", *parts], rows)


def _cell(score: Mapping[str, Any], against: bool) -> str:
    more, low, high = score["less_peer"]
    return f"{score['value']:.2f}" + (f" ({more:+.2f} [{low:+.2f}, {high:+.2f}])" if against else "")


def _questions(questions: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    rows = [
        [one["family"], one["instruction"], one["query"], *(_marks(one["hits"][name]) for name in names)]
        for one in questions
    ]
    return table(["family", "question", "answer looked for", *names], rows)


def _marks(hits: Sequence[Sequence[Any]]) -> str:
    return f"`{''.join(_SIGNS[relevant] for _, relevant in hits)}`"
