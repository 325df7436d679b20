"""Rows from labels of many kinds: the permitted files of a folder of label files, each text asked for all its labels.

    python recipes/labels.py OUT DATA --texts 400 --seed 0

DATA holds JSON Lines files of texts with labels, and `kinds.json`, which says how each kind of label is asked. Only the
files of `PERMITTED` are read, and of them only what is marked for training; wordings marked as held out are not used.
A part of the questions name the possible answers, in another order each time and with answers of other kinds among
them. What plain code sees in a text (`derived.py`) is asked beside, so that texts with one label stand under several
questions.
"""

import argparse
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from derived import DERIVED, DerivedLabel
from kept_out import kept_out
from mixture import write_rows

from retriever.evaluation.rows import read_rows

PERMITTED: Mapping[str, str] = {
    "abstract_roles": "Apache-2.0 (allenai/sequential_sentence_classification)",
    "causality": "CC0 1.0 (tanfiona/CausalNewsCorpus)",
    "clickbait": "MIT (bhargaviparanjape/clickbait)",
    "code_comments": "CC0 1.0 (nlbse2023/code-comment-classification)",
    "comparisons": "CC BY 4.0 (Jindal and Liu, by nltk/nltk_data)",
    "crisislex": "MIT (sajao/CrisisLex)",
    "customer_support": "CDLA-Sharing-1.0 (bitext/customer-support-intent-detection-training-dataset)",
    "debate_points": "CC BY-SA 4.0 (CogComp/perspectrum)",
    "email_requests": "Apache-2.0 (ParakweetLabs/EmailIntentDataSet)",
    "emobank": "CC BY-SA 4.0 (JULIELab/EmoBank)",
    "empathy": "CC BY 4.0 (wwbp/empathic_reactions)",
    "encyclopedia_fields": "MIT (zliucr/CrossNER)",
    "grammar_errors": "CC BY (alexwarstadt/blimp)",
    "gum": "CC BY 4.0 (amir-zeldes/gum)",
    "home_assistant": "CC BY 4.0 (xliuhw/NLU-Evaluation-Data)",
    "intended_sarcasm": "MIT (iabufarha/iSarcasmEval)",
    "medical_answers": "CC BY 4.0 (abachaa/MedQuAD)",
    "negotiation": "CC BY 4.0 (kushalchawla/CaSiNo)",
    "novel_passages": "CC BY 4.0 (dbamman/litbank)",
    "pros_and_cons": "CC BY 4.0 (Liu, by nltk/nltk_data)",
    "query_form": "CC BY-SA 4.0 (google-research-datasets/query-wellformedness)",
    "question_types": "MIT (harvardnlp/sent-conv-torch)",
    "service_dialogues": "CC BY-SA 4.0 (google-research-datasets/dstc8-schema-guided-dialogue)",
    "situation": "Apache-2.0 (annefried/sitent)",
    "subjectivity": "MIT (harvardnlp/sent-conv-torch)",
    "talk_page_requests": "CC BY 4.0 (Genius1237/TyDiP)",
    "trivia": "CC BY-SA 4.0 (uberspot/OpenTriviaQA)",
    "voice_requests": "CC0 1.0 (sonos/nlu-benchmark)",
    "web_sentences": "CC BY-SA 4.0 (UniversalDependencies/UD_English-EWT)",
    "word_relations": "MIT (sahitya0000/Relation-Classification)",
}
"""Files that a shipped model may be trained on, with licence and origin; the others are for evaluation."""

NAMED = 0.25
"""Share of the questions that name the possible answers."""
MOST_NAMED = 6
"""Most answers that a question names."""
BESIDE = 3
"""Questions beside those for a text's labels, answered by plain code."""
BLOCK = 32
"""Texts that are asked the same questions beside."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of label.

    Attributes:
        name: such as ``verb_aspect``.
        values: that a text can have.
        wordings: that ask for it in training.
    """

    name: str
    values: Sequence[str]
    wordings: Sequence[str]


def kinds(folder: Path) -> dict[str, Kind]:
    """Read the kinds of label of the permitted files by name, without the wordings that are held out."""
    found = {}
    for one in json.loads((folder / "kinds.json").read_text(encoding="utf-8"))["kinds"]:
        if one["source"] in PERMITTED:
            asked = [each["text"] for each in one["instructions"] if not each["held_out"]]
            found[one["name"]] = Kind(one["name"], one["values"], asked)
    return found


def sample(rows: Sequence[Mapping[str, Any]], texts: int, draw: random.Random) -> list[Mapping[str, Any]]:
    """Return rows so that every value of every label is as frequent as the file allows, at most ``texts``."""
    order = draw.sample(list(rows), len(rows))
    seen: dict[tuple[str, str], int] = {}
    chosen: list[Mapping[str, Any]] = []
    waiting = order
    for most in (8, 16, 32, 64, 128, 256, 512, len(rows)):
        rest = []
        for row in waiting:
            labels = list(row["labels"].items())
            if len(chosen) < texts and any(seen.get(label, 0) < most for label in labels):
                chosen.append(row)
                for label in labels:
                    seen[label] = seen.get(label, 0) + 1
            else:
                rest.append(row)
        waiting = rest
    return chosen


def questions(
    rows: Sequence[Mapping[str, Any]], known: Mapping[str, Kind], draw: random.Random
) -> Iterator[dict[str, str]]:
    """Yield a row of text, question, answer and group for every label of every text, and some that code answers."""
    others = [value for kind in known.values() for value in kind.values]
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        beside = answered_most([row["text"] for row in block], draw)
        for row in block:
            text = row["text"]
            for name, value in row["labels"].items():
                kind = known[name]
                question = draw.choice(kind.wordings)
                if draw.random() < NAMED:
                    question = naming(question, kind.values, value, others, draw)
                yield {"text": text, "question": question, "answer": value, "group": name}
            for one in beside:
                if (answer := one.rule(text)) is not None:
                    yield {"text": text, "question": draw.choice(one.wordings), "answer": answer, "group": one.name}


def answered_most(texts: Sequence[str], draw: random.Random) -> list[DerivedLabel]:
    """Return a few of the kinds that code sees, which it sees in more of these texts than others drawn beside them."""
    drawn = draw.sample([one for one in DERIVED if not one.held_out_type], 4 * BESIDE)
    return sorted(drawn, key=lambda one: -sum(one.rule(text) is not None for text in texts))[:BESIDE]


def naming(question: str, values: Sequence[str], value: str, others: Sequence[str], draw: random.Random) -> str:
    """Return a question with the possible answers behind it, the right one and some of another kind among them."""
    wrong = [one for one in values if one != value]
    offered = [value, *draw.sample(wrong, min(len(wrong), MOST_NAMED - 2)), draw.choice(others)]
    offered = draw.sample(list(dict.fromkeys(offered)), len(set(offered)))
    return f"{question.rstrip('.?!:')}: {', '.join(offered[:-1])} or {offered[-1]}?"


def main() -> None:
    """Parse the options and write one file of rows a source."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--texts", type=int, default=400, help="most texts of a source")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    known = kinds(options.data)
    for source in PERMITTED:
        draw = random.Random(f"{options.seed}:{source}")
        read = [row.values for row in read_rows(options.data, f"{source}.jsonl") if row.split == "train"]
        rows = [row for row in read if not kept_out(row["text"])]
        made = list(questions(sample(rows, options.texts, draw), known, draw))
        write_rows(options.output / f"labels-{source}.jsonl", made, len({row["text"] for row in made}), len(rows))


if __name__ == "__main__":
    main()
