"""The rows the shipped models learn from: labels of the permitted files as answers to differently worded questions.

    python recipes/mixture.py DATA OUT --texts 24000

Writes one JSON Lines file a source into OUT, as `retriever finetune` reads them. Texts of evaluation files and the
test and dev parts of every file stay out, and so do whole label types and some wordings (recipes/wordings.json).
"""

import argparse
import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kept_out import kept_out
from label_types import DERIVED, LabelType, load_label_types

from retriever.evaluation.rows import LabelledRow, read_rows, split_of
from retriever.training.rows import normalise_text

QUESTIONS = 4
"""Most questions of a text made from its labels."""
OWN_QUESTIONS = 12
"""Most questions of a text that people asked of it."""
TURNS = 3
TIMES = 2
"""How often a text's label is asked for where there are few, each time in other words."""
DERIVED_SHARE = 0.25
"""Share of a text's questions that ask for something plain code can see, so that kinds of question are many."""
EVALUATION = (
    "triplets_dmaste.jsonl",
    "aspects_restaurant_acos.jsonl",
    "qa_subjqa.jsonl",
    "stsb.jsonl",
    "retrieval_msmarco_corpus.jsonl",
    "retrieval_msmarco_queries.jsonl",
)
MOST_ASPECTS = 3
"""Most aspects that are named together as what a text is about."""
POLARITIES = {"POS": "positive", "NEG": "negative", "NEU": "neutral"}
TEXT_KEYS = ("text", "anchor", "same_category", "same_polarity", "a", "b")

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Label:
    """A label type with a value, such as the polarity of an aspect.

    Attributes:
        kind: its name in wordings.json.
        value: as the data file has it.
        names: what the wordings have in braces, such as the aspect.
    """

    kind: str
    value: str
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Source:
    """A data file to learn from.

    Attributes:
        name: of the rows' file.
        file: in the data folder.
        labels: the labels of a row.
        share: of all texts.
        licence: of the file, with where it is from.
        even: texts are taken in turn from the groups that this tells apart, so that rare labels are learned too.
    """

    name: str
    file: str
    labels: Callable[[Row], Iterable[Label]]
    share: float
    licence: str
    even: Callable[[Row], Hashable] | None = None


def reviews(row: Row) -> Iterator[Label]:
    """Yield what a product review is about and how its writer feels."""
    yield Label("review_category", row["labels"]["category"])
    yield Label("review_polarity", row["labels"]["polarity"])


def category_and_polarity(row: Row) -> tuple[str, str]:
    """Return both labels of a product review: most of them are positive, and neutral ones are few."""
    return row["labels"]["category"], row["labels"]["polarity"]


def product_aspects(row: Row) -> Iterator[Label]:
    """Yield the labels of a product review and what it says of single aspects."""
    yield Label("review_category", row["labels"]["category"])
    yield Label("product_subcategory", row["labels"]["subcategory"])
    polarities = {aspect["polarity"] for aspect in row["aspects"]}
    if len(polarities) == 1:
        yield Label("review_polarity", POLARITIES[polarities.pop()])
    yield from aspects(row)
    for aspect in named_aspects(row):
        if (aspect.get("opinion") or " ") in row["text"]:  # some opinions are two words from far apart
            yield Label("aspect_opinion", aspect["opinion"].strip(), {"aspect": aspect["aspect"]})


def aspects(row: Row) -> Iterator[Label]:
    """Yield what a text is about, and the sentiment towards each of its aspects."""
    polarities: dict[str, set[str]] = defaultdict(set)
    for aspect in named_aspects(row):
        polarities[aspect["aspect"]].add(aspect["polarity"])
    telling = sorted(set(polarities) - {"miscellaneous"})
    if len(polarities) == 1 or 2 <= len(telling) <= MOST_ASPECTS:
        yield Label("aspect_mentioned", " and ".join(telling or polarities))
    for name, signs in polarities.items():
        if len(signs) == 1 and name != "miscellaneous":
            yield Label("aspect_sentiment", next(iter(signs)), {"aspect": name})


def named_aspects(row: Row) -> list[Row]:
    """Return the aspects that a row names; an opinion may stand on something unsaid."""
    return [aspect for aspect in row["aspects"] if aspect["aspect"]]


def products(row: Row) -> Iterator[Label]:
    """Yield the product of a sentence, how it is spoken of, and its aspects."""
    yield Label("product_name", row["labels"]["product"])
    polarities = {aspect["polarity"] for aspect in row["aspects"]}
    if len(polarities) == 1:
        yield Label("review_polarity", polarities.pop())
    yield from aspects(row)


def intents(row: Row) -> Iterator[Label]:
    """Yield what a bank's customer wants."""
    yield Label("banking_intent", row["labels"]["intent"])


def emotions(row: Row) -> Iterator[Label]:
    """Yield the feeling in a comment."""
    yield Label("emotion", row["labels"]["emotion"])
    yield Label("ekman_emotion", row["labels"]["ekman"])
    yield Label("comment_sentiment", row["labels"]["sentiment"])


def relations(row: Row) -> Iterator[Label]:
    """Yield the relation of two names in a sentence, and the second name given the first."""
    relation = row["labels"]["relation"]
    yield Label("relation", relation, {"head": row["head"], "tail": row["tail"]})
    yield Label("relation_unnamed", relation)
    yield Label("tail_entity", row["tail"], {"head": row["head"], "relation": relation})


def nothing(row: Row) -> Iterator[Label]:
    """Yield nothing: the rows bring their own questions."""
    yield from ()


DMASTE = "MIT (NJUNLP/DMASTE)"
SOURCES = (
    Source("reviews", "reviews_dmaste.jsonl", reviews, 0.30, DMASTE, category_and_polarity),
    Source("product-aspects", "aspects_dmaste.jsonl", product_aspects, 0.10, DMASTE),
    Source("products", "aspects_huliu.jsonl", products, 0.12, "CC BY 4.0 (Hu and Liu, 2004 and 2007)"),
    Source("restaurants", "aspects_mams.jsonl", aspects, 0.12, "Apache-2.0 (siat-nlp/MAMS-for-ABSA)"),
    Source("intents", "banking77.jsonl", intents, 0.09, "CC BY 4.0 (PolyAI, BANKING77)"),
    Source("emotions", "goemotions.jsonl", emotions, 0.09, "Apache-2.0 (Google, GoEmotions)"),
    Source("relations", "fewrel_nyt_pubmed.jsonl", relations, 0.05, "MIT (thunlp/FewRel)"),
    Source("sentences", "qa_qamr.jsonl", nothing, 0.07, "MIT (uwnlp/qamr)"),
    Source("stories", "qa_fairytale.jsonl", nothing, 0.06, "Apache-2.0 (uci-soe/FairytaleQA)"),
)


def main() -> None:
    """Parse the options and write the rows."""
    options = parse(__doc__, texts=24000)
    kinds = load_label_types()
    forbidden = evaluation_texts(options.data)
    for source in SOURCES:
        rows = permitted(source, options.data, forbidden)
        draw = random.Random(f"{options.seed}:{source.name}")
        made = list(questions(source, rows, Questioner(kinds, draw), round(options.texts * source.share), draw))
        texts = len({row["text"] for row in made})
        write_rows(options.output / f"{source.name}.jsonl", made, texts, len({row["text"] for row in rows}))


def parse(description: str | None, *, texts: int) -> argparse.Namespace:
    """Return the options of a script that makes rows, the output folder made.

    Args:
        description: of the script.
        texts: how many it takes by default.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--texts", type=int, default=texts, help="How many texts, over all sources.")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    return options


def write_rows(target: Path, rows: Sequence[Mapping[str, str]], texts: int, every: int) -> None:
    """Write rows as JSON Lines, and say on how many of how many texts they are."""
    target.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    print(f"{target}: {len(rows)} rows on {texts} of {every} texts", file=sys.stderr)


def evaluation_texts(folder: Path) -> set[str]:
    """Return all texts that no model may learn from, normalised.

    Those of the files that are for evaluation only, and the dev and test parts of the others: a review that one file
    has in its test part is in the training part of another.
    """
    texts = set()
    for file in EVALUATION:
        for row in read_rows(folder, file):
            texts |= {normalise_text(row.values[key]) for key in TEXT_KEYS if isinstance(row.values.get(key), str)}
    for source in SOURCES:
        texts |= {
            normalise_text(row.get("text", str)) for row in read_rows(folder, source.file) if not _for_training(row)
        }
    return texts


def permitted(source: Source, folder: Path, forbidden: set[str]) -> list[Row]:
    """Return a file's training rows whose texts are neither forbidden (`evaluation_texts`) nor `kept_out`."""
    return [
        row.values
        for row in read_rows(folder, source.file)
        if _for_training(row)
        and normalise_text(row.get("text", str)) not in forbidden
        and not kept_out(row.get("text", str))
    ]


def _for_training(row: LabelledRow) -> bool:
    """Return whether a row is of the training part: its own split where it has one, else by hash.

    Sections of FairytaleQA go by their story too, so that no section of a test story is seen.
    """
    story = row.values.get("meta", {}).get("story")
    return {row.split, split_of(story) if story else "train"} == {"train"}


def questions(
    source: Source, rows: Sequence[Row], questioner: "Questioner", texts: int, draw: random.Random
) -> Iterator[dict[str, str]]:
    """Yield rows of text, question, answer and group for as many texts as wanted, or as there are.

    Where there are fewer texts than wanted, texts come again with other questions, at most three times; questions that
    people asked do not.
    """
    by_text: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_text[row["text"]].append(row)
    order = list(by_text)
    draw.shuffle(order)
    if even := source.even:
        order = in_turn(order, lambda text: even(by_text[text][0]))
    for turn in range(TURNS):
        for text in order[: max(0, texts - turn * len(order))]:
            own = [asked(row) for row in by_text[text] if "question" in row]
            if own and turn:
                continue
            yield from draw.sample(own, min(len(own), OWN_QUESTIONS))
            labels = [label for row in by_text[text] for label in source.labels(row)]
            yield from questioner.ask(text, labels, room=2 if own else QUESTIONS)


def in_turn(texts: Sequence[str], group: Callable[[str], Hashable]) -> list[str]:
    """Return the texts so that their groups follow one another while each lasts; within one the order stays."""
    by_group: dict[Hashable, list[str]] = defaultdict(list)
    for text in texts:
        by_group[group(text)].append(text)
    places = {text: place for members in by_group.values() for place, text in enumerate(members)}
    return sorted(texts, key=places.__getitem__)


def asked(row: Row) -> dict[str, str]:
    """Return a row that brings its own question."""
    return {"text": row["text"], "question": row["question"], "answer": row["answer"]}


class Questioner:
    """Turns a text's labels into questions, and adds what plain code sees in it.

    Args:
        kinds: all label types.
        draw: decides labels and wordings.
    """

    def __init__(self, kinds: Mapping[str, LabelType], draw: random.Random) -> None:
        self._kinds = kinds
        self._draw = draw
        self._derived = [kind for kind in DERIVED if not kind.held_out_type]
        self._seen: dict[str, Counter[str]] = defaultdict(Counter)

    def ask(self, text: str, labels: Iterable[Label], *, room: int) -> Iterator[dict[str, str]]:
        """Yield at most ``room`` rows of text, question, answer and group."""
        usable = [label for label in labels if not self._kinds[label.kind].whole_type_held_out]
        spare = sum(self._draw.random() < DERIVED_SHARE for _ in range(room))
        chosen = [label for _ in range(TIMES) for label in self._draw.sample(usable, len(usable))]
        rows: dict[str, dict[str, str]] = {}
        for label in chosen[: max(1, room - spare)]:
            row = self._about(text, label)
            rows.setdefault(row["question"], row)
        yield from rows.values()
        yield from self._seen_by_code(text, room - len(rows))

    def _about(self, text: str, label: Label) -> dict[str, str]:
        kind = self._kinds[label.kind]
        names = {**label.names}
        if "relation" in names:
            names["relation"] = self._kinds["relation"].answers_to(names["relation"])[0]
        question = self._draw.choice(kind.wordings).format(**names)
        group = " ".join([label.kind, *names.values()])
        return {"text": text, "question": question, "answer": kind.answers_to(label.value)[0], "group": group}

    def _seen_by_code(self, text: str, room: int) -> Iterator[dict[str, str]]:
        for kind in self._draw.sample(self._derived, len(self._derived)):
            if room <= 0:
                return
            answer = kind.rule(text)
            if answer is not None and self._rare(kind.name, answer):
                room -= 1
                question = self._draw.choice(kind.wordings)
                yield {"text": text, "question": question, "answer": answer, "group": kind.name}

    def _rare(self, name: str, answer: str) -> bool:
        """Whether an answer is asked for no more than twice as often as the question's answers are on average."""
        counts = self._seen[name]
        fits = counts[answer] <= 5 + 2 * counts.total() / max(1, len(counts))
        counts[answer] += fits
        return fits


if __name__ == "__main__":
    main()
