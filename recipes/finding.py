"""Rows that teach to look for something: instructions to find the texts that hold a label, answered yes or no.

    python recipes/finding.py DATA OUT --texts 900 --seed 3

A search puts a query and the documents under one instruction. Labels asked as questions (`mixture.py`) teach what a
document answers to it; here queries that say little take part, and are answered as a document that is looked for. Half
of a text's instructions look for what it holds, half for something else, often the same thing judged otherwise. All
wordings were written for this project (`finding_wordings.json`).
"""

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from label_types import LabelType, load_label_types
from mixture import SOURCES, Row, Source, evaluation_texts, in_turn, named_aspects, parse, permitted, write_rows

QUESTIONS = 4
"""Instructions of a text, every other one of which it is no answer to."""
QUERIES = 0.4
"""Queries for every instruction that a text is an answer to."""
LONGEST = 30
"""Most letters of a thing: an aspect in the text's words can be half a sentence."""
QUALITIES = {"NEG": "bad", "POS": "good", "negative": "bad", "positive": "good"}
OPPOSITE = {"bad": "good", "good": "bad"}
ANY = "any"
FINDING = "finding-"
"""Prefix of the names of the files of rows, before the name of the source."""

Wordings = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Held:
    """The content of a text or of a search: a thing, and how it is judged; ``any`` where that does not matter."""

    quality: str
    thing: str

    def __str__(self) -> str:
        return self.thing if self.quality == ANY else f"{self.quality} {self.thing}"

    def fits(self, wanted: "Held") -> bool:
        """Return whether a text that holds this is looked for."""
        return self.thing == wanted.thing and wanted.quality in (ANY, self.quality)


@dataclass(frozen=True, slots=True)
class Finding:
    """A source of texts in which something is looked for.

    Attributes:
        source: its name in `mixture.SOURCES`.
        family: its wordings.
        share: of all texts.
        held: what a row holds.
    """

    source: str
    family: str
    share: float
    held: Callable[[Row, Mapping[str, LabelType]], Iterable[Held]]


def of_aspects(row: Row, _: Mapping[str, LabelType]) -> Iterator[Held]:
    """Yield the aspects of a row that all its mentions judge alike; ``neutral`` where it is neither good nor bad."""
    judged: dict[str, set[str]] = defaultdict(set)
    for aspect in named_aspects(row):
        name = aspect["aspect"].lower()
        if name != "miscellaneous" and len(name) <= LONGEST:
            judged[name].add(QUALITIES.get(aspect["polarity"], "neutral"))
    yield from (Held(qualities.pop(), name) for name, qualities in judged.items() if len(qualities) == 1)


def of_review(row: Row, kinds: Mapping[str, LabelType]) -> Iterator[Held]:
    """Yield what a product review is about, judged as the review does."""
    goods = kinds["review_category"].answers_to(row["labels"]["category"])[0]
    yield Held(QUALITIES.get(row["labels"]["polarity"], "neutral"), goods)


def of_label(kind: str, label: str) -> Callable[[Row, Mapping[str, LabelType]], Iterable[Held]]:
    """Return a reader of one label in words."""
    return lambda row, kinds: [Held(ANY, kinds[kind].answers_to(row["labels"][label])[0])]


FINDINGS = (
    Finding("reviews", "goods", 0.25, of_review),
    Finding("product-aspects", "aspect", 0.15, of_aspects),
    Finding("products", "aspect", 0.15, of_aspects),
    Finding("restaurants", "aspect", 0.25, of_aspects),
    Finding("intents", "intent", 0.1, of_label("banking_intent", "intent")),
    Finding("emotions", "emotion", 0.1, of_label("emotion", "emotion")),
)


def main() -> None:
    """Parse the options and write the rows."""
    options = parse(__doc__, texts=900)
    wordings = json.loads(Path(__file__).with_name("finding_wordings.json").read_text(encoding="utf-8"))
    sources = {source.name: source for source in SOURCES}
    kinds, forbidden = load_label_types(), evaluation_texts(options.data)
    for finding in FINDINGS:
        draw = random.Random(f"{options.seed}:{finding.source}")
        texts = holding(
            sources[finding.source], permitted(sources[finding.source], options.data, forbidden), finding, kinds, draw
        )
        chosen = dict(list(texts.items())[: round(options.texts * finding.share)])
        rows = list(Searcher(wordings[finding.family], texts, draw).rows(chosen))
        write_rows(options.output / f"{FINDING}{finding.source}.jsonl", rows, len(chosen), len(texts))


def holding(
    source: Source, rows: Sequence[Row], finding: Finding, kinds: Mapping[str, LabelType], draw: random.Random
) -> dict[str, list[Held]]:
    """Return what each text of a source holds, those that hold anything, in an order in which nothing is rare."""
    by_text: dict[str, list[Held]] = {}
    for row in rows:
        by_text.setdefault(row["text"], []).extend(finding.held(row, kinds))
    texts = [text for text, held in by_text.items() if held]
    draw.shuffle(texts)
    return {text: by_text[text] for text in in_turn(texts, lambda text: draw.choice(by_text[text]))}


class Searcher:
    """Makes rows that look for something.

    Args:
        wordings: of the instructions by quality, and of the queries.
        texts: all texts with what they hold; what is looked for in vain comes from another of them.
        draw: decides wordings and what is looked for.
    """

    def __init__(self, wordings: Wordings, texts: Mapping[str, Sequence[Held]], draw: random.Random) -> None:
        self._wordings = wordings
        self._texts = list(texts.values())
        self._draw = draw

    def rows(self, texts: Mapping[str, Sequence[Held]]) -> Iterator[dict[str, str]]:
        """Yield rows of text, question, answer and group: those of the texts, and queries between them."""
        for text, held in texts.items():
            for number in range(QUESTIONS):
                right = number % 2 == 0
                own = self._draw.choice(held)
                wanted = self._loose(own) if right else self._wrong(own, held)
                answer = f"yes {wanted}" if right else f"no {self._nearest(wanted, held)}"
                yield self._row(text, wanted, answer)
                if right and self._draw.random() < QUERIES:
                    query = self._draw.choice(self._wordings["queries"]).format(thing=wanted.thing)
                    yield self._row(query, wanted, f"yes {wanted}")

    def _row(self, text: str, wanted: Held, answer: str) -> dict[str, Any]:
        question = self._draw.choice(self._wordings[wanted.quality]).format(thing=wanted.thing)
        return {"text": text, "question": question, "answer": answer, "group": f"finding {wanted}"}

    def _loose(self, held: Held) -> Held:
        """Return what would be looked for to find this: the thing as it is judged, or now and then however it is."""
        judged = held.quality in OPPOSITE and self._draw.random() < 0.8
        return held if judged else Held(ANY, held.thing)

    def _wrong(self, own: Held, held: Sequence[Held]) -> Held:
        """Return something that the text does not hold: often its own thing, judged otherwise."""
        turned = Held(OPPOSITE.get(own.quality, self._draw.choice(list(OPPOSITE))), own.thing)
        if own.quality != ANY and self._draw.random() < 0.5:
            return turned
        for _ in range(20):
            other = self._loose(self._draw.choice(self._draw.choice(self._texts)))
            if not any(item.fits(other) for item in held):
                return other
        return turned if own.quality != ANY else Held(ANY, "something else")

    def _nearest(self, wanted: Held, held: Sequence[Held]) -> Held:
        """Return what a text holds on the thing that is looked for, or else anything that it holds."""
        return next((item for item in held if item.thing == wanted.thing), self._draw.choice(held))


if __name__ == "__main__":
    main()
