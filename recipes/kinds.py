"""Rows of many kinds of question: labels of many sources, questions written for single texts, and texts in many voices.

    python recipes/kinds.py DATA OUT --seed 0

DATA holds a file of labelled rows for each source, ``kinds.json`` with how each of their labels is asked, and
``asked.jsonl`` with grids of texts under questions. Three files go into OUT, as `retriever finetune` reads them.
Sources without a licence stay out, those whose licence asks for the same, and kinds and wordings to measure with.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kept_out import kept_out
from mixture import SOURCES as MIXTURE
from mixture import write_rows
from voices import KINDS, held_out, voices, wordings

from retriever.evaluation.rows import read_rows

UNMET = Path(__file__).resolve().parents[1] / "retriever" / "evaluation" / "unmet.json"
"""Kinds of question that a test suite measures with."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A file of rows that are made here: its name, what it is made of, and the licences of that."""

    name: str
    file: str
    licence: str


LABELLED = {
    "abstract_roles": "Apache-2.0 (allenai, CSAbstruct)",
    "causality": "CC0 1.0 (CausalNewsCorpus)",
    "clickbait": "MIT (bhargaviparanjape/clickbait)",
    "code_comments": "CC0 1.0 (NLBSE 2023)",
    "comparisons": "CC BY 4.0 (Jindal and Liu)",
    "empathy": "CC BY 4.0 (wwbp/empathic_reactions)",
    "encyclopedia_fields": "MIT (CrossNER)",
    "grammar_errors": "CC BY (BLiMP)",
    "intended_sarcasm": "MIT (iSarcasmEval)",
    "medical_answers": "CC BY 4.0 (MedQuAD)",
    "negotiation": "CC BY 4.0 (CaSiNo)",
    "novel_passages": "CC BY 4.0 (LitBank)",
    "question_types": "MIT (harvardnlp/sent-conv-torch, TREC)",
    "situation": "Apache-2.0 (annefried/sitent)",
    "subjectivity": "MIT (harvardnlp/sent-conv-torch, Pang and Lee)",
    "talk_page_requests": "MIT, CC BY 4.0 (TyDiP)",
    "word_relations": "MIT (Relation-Classification, SemEval-2010)",
}
"""Licences of the sources of labels by their file; of the others some are kept to measure verdicts with."""

FILES = (
    Rows("labels", "labels.jsonl", "; ".join(f"{name}: {licence}" for name, licence in LABELLED.items())),
    Rows("asked", "asked.jsonl", "questions and answers written for this project, about texts of the files above"),
    Rows("voices", "voices.jsonl", "written for this project (recipes/voices.jsonl.xz)"),
)


def main() -> None:
    """Parse the options and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    draw = random.Random(options.seed)
    for name, rows in (
        ("labels", labelled(options.data, draw)),
        ("asked", asked(options.data, draw)),
        ("voices", voiced(draw)),
    ):
        made = list(rows)
        texts = len({row["text"] for row in made})
        write_rows(options.output / f"{name}.jsonl", made, texts, texts)


def labelled(data: Path, draw: random.Random) -> Iterator[dict[str, str]]:
    """Yield the labels of all sources, each asked in one of the wordings that are trained on."""
    unmet = {kind["kind"] for kind in json.loads(UNMET.read_text(encoding="utf-8"))["kinds"]}
    for kind in json.loads((data / "kinds.json").read_text(encoding="utf-8"))["kinds"]:
        name, source = kind["name"], kind["source"]
        if source not in LABELLED or name in unmet:
            continue
        questions = [wording["text"] for wording in kind["instructions"] if not wording["held_out"]]
        for row in read_rows(data, f"{source}.jsonl"):
            if row.values["split"] == "train" and name in row.values["labels"] and not kept_out(row.values["text"]):
                yield _row(row.values["text"], questions, row.values["labels"][name], f"label {name}", draw)


def asked(data: Path, draw: random.Random) -> Iterator[dict[str, str]]:
    """Yield the questions that were written for texts of the files of `mixture.py`, with their answers."""
    sources = {source.file.removesuffix(".jsonl") for source in MIXTURE}
    for grid in (row.values for row in read_rows(data, "asked.jsonl")):
        if grid["split"] != "train" or grid["source"] not in sources:
            continue
        for number, question in enumerate(grid["questions"]):
            group = f"asked {grid['grid']} {question['kind']}"
            for row in grid["rows"]:
                yield _row(row["text"], question["wordings"], row["answers"][number], group, draw)


def voiced(draw: random.Random) -> Iterator[dict[str, str]]:
    """Yield every question about the texts of the voices that are not held out."""
    for written in voices():
        if not held_out(written.voice):
            for kind in KINDS:
                questions = wordings()[kind]["trained"]
                yield _row(written.text, questions, written.answers[kind], f"voice {kind}", draw)


def _row(text: str, questions: Sequence[str], answer: str, group: str, draw: random.Random) -> dict[str, str]:
    return {"text": text, "instruction": draw.choice(questions), "answer": answer, "group": group}


if __name__ == "__main__":
    sys.exit(main())
