"""Texts in many voices with the answers to thirteen questions, written for this project by a language model.

    python recipes/voices.py FOLDER AREAS.jsonl    packs the pages of a folder, VOICE.jsonl each, into voices.jsonl.xz

A text says most of its answers indirectly; its area, such as kitchen, is that of the thing it is about. A row is
``{"voice": ..., "text": ..., "answers": {kind: answer}}``. How each kind is asked stands in voice_wordings.json, with
wordings that are never trained on. Every fifth voice is held out to measure how far a model carries over to kinds of
writing that it never saw.
"""

import hashlib
import json
import lzma
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from retriever.evaluation.rows import read_rows

FILE = Path(__file__).with_name("voices.jsonl.xz")
WORDINGS = Path(__file__).with_name("voice_wordings.json")
KINDS = (
    "thing",
    "mood",
    "judgement",
    "fault",
    "reason",
    "who",
    "place",
    "time",
    "effect",
    "blame",
    "beside",
    "tone",
    "area",
)


@dataclass(frozen=True, slots=True)
class Written:
    """A text with its voice, and its answers by kind of question."""

    voice: str
    text: str
    answers: Mapping[str, str]


def held_out(voice: str) -> bool:
    """Return whether nothing is trained on the texts of a voice."""
    return int(hashlib.sha256(voice.encode()).hexdigest(), 16) % 5 == 0


@cache
def voices() -> tuple[Written, ...]:
    """Return all texts, a voice behind the other."""
    with lzma.open(FILE, "rt", encoding="utf-8") as lines:
        return tuple(Written(**json.loads(line)) for line in lines)


@cache
def wordings() -> Mapping[str, Mapping[str, Sequence[str]]]:
    """Return how each kind is asked: ``trained``, and ``held_out`` to measure whether unmet wordings are followed."""
    kinds: Mapping[str, Mapping[str, Sequence[str]]] = json.loads(WORDINGS.read_text(encoding="utf-8"))
    return kinds


def faults(rows: Iterable[Written]) -> Iterator[str]:
    """Yield what is wrong with rows: their kinds, an answer's form, a text that is there twice."""
    seen: dict[str, str] = {}
    for row in rows:
        place = f"{row.voice}: {row.text[:40]!r}"
        if tuple(row.answers) != KINDS:
            yield f"{place} has answers of {', '.join(row.answers)}"
        for kind, answer in row.answers.items():
            if not answer.strip() or answer != answer.lower() or len(answer.split()) > 4:
                yield f"{place} has the {kind} {answer!r}"
        key = " ".join(row.text.casefold().split())
        if key in seen:
            yield f"{place} stands in {seen[key]} too"
        seen[key] = row.voice


def main() -> None:
    """Check the pages of a folder, and pack them."""
    folder, sorted_things = map(Path, sys.argv[1:3])
    areas = {row.get("thing", str): row.get("area", str) for row in read_rows(sorted_things.parent, sorted_things.name)}
    rows = []
    for row in (row.values for file in sorted(folder.glob("*.jsonl")) for row in read_rows(folder, file.name)):
        answers = row["answers"]
        rows.append(Written(row["voice"], row["text"], {**answers, "area": areas[answers["thing"]]}))
    if wrong := list(faults(rows)):
        raise SystemExit("\n".join(wrong))
    lines = "".join(
        f"{json.dumps({'voice': row.voice, 'text': row.text, 'answers': row.answers}, ensure_ascii=False)}\n"
        for row in rows
    )
    FILE.write_bytes(lzma.compress(lines.encode(), preset=lzma.PRESET_EXTREME | 9))
    print(f"{len(rows):,} texts in {len({row.voice for row in rows})} voices.")


if __name__ == "__main__":
    main()
