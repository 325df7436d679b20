"""Search as a reader judges it: 24 questions on held-out product reviews, the hits of several systems read blind.

    python benchmarks/reading_panel.py search DATA RUNS --name minilm --encoder minilm --plain
    python benchmarks/reading_panel.py search DATA RUNS --name default
    python benchmarks/reading_panel.py sheet DATA RUNS JUDGED > sheet.jsonl
    python benchmarks/reading_panel.py score DATA RUNS JUDGED --output benchmarks/results/reading_panel.json

``search`` keeps the first ten hits of every question. ``sheet`` writes what nobody has judged yet, mixed, without a
word on who found it: a question and a text a line. A reader adds ``"relevant"``, true or false, and JUDGED has these;
``score`` reads it: the share of the ten that answer the query, by family of question, and what is between two systems,
with paired intervals over questions. The questions, of kinds that training knows, covers in other wordings, or has
never met, stand in ``reading_questions.json``.
"""

import argparse
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from common import write
from numpy.typing import NDArray

from retriever import load_encoder
from retriever.core.fingerprint import content_hash
from retriever.core.requests import SearchRequest
from retriever.core.types import Document
from retriever.evaluation.labelled import LABELLED, balanced_sample, load_texts
from retriever.evaluation.scores import Difference, difference, mean_score
from retriever.index.readers import load_plain
from retriever.workspace import Index

K = 10
TEXTS = 480
MOST_WORDS = 130
QUESTIONS: Sequence[Mapping[str, str]] = json.loads((Path(__file__).parent / "reading_questions.json").read_text())


def reviews(data: Path) -> dict[str, str]:
    """Return held-out product reviews by the first 12 digits of their hash, evenly over kinds of product and moods."""
    texts = [one for one in load_texts(data, LABELLED["reviews"]) if len(one.text.split()) <= MOST_WORDS]
    return {content_hash(one.text).hex()[:12]: one.text for one in balanced_sample(texts, TEXTS, seed=0)}


def search(options: argparse.Namespace) -> None:
    """Ask all questions of one system, and keep its hits: as indexes are by default, with whole views."""
    encoder = load_encoder(options.encoder)
    beside = "none" if options.plain else load_plain()
    with TemporaryDirectory() as folder, Index(Path(folder) / "index", encoder=encoder, plain=beside) as index:
        asked = [] if options.plain else sorted({one["instruction"] for one in QUESTIONS})
        index.add((Document(id, text) for id, text in reviews(options.data).items()), instructions=asked)
        found = {
            one["id"]: [
                hit.document.id
                for hit in index.search_many(
                    SearchRequest(
                        [one["query"]],
                        "" if options.plain else one["instruction"],
                        k=K,
                        mode="hybrid" if options.plain else "auto",
                    )
                )[0].hits
            ]
            for one in QUESTIONS
        }
    options.runs.mkdir(parents=True, exist_ok=True)
    run = {"name": options.name, "fingerprint": encoder.fingerprint, "hits": found}
    (options.runs / f"{options.name}.json").write_text(json.dumps(run, indent=1) + "\n")


def sheet(options: argparse.Namespace) -> None:
    """Print every question with every text that a system found for it and nobody has judged, in no order."""
    texts, known = reviews(options.data), judged(options.judged)
    pairs = {
        (one["id"], document) for run in runs(options.runs) for one in QUESTIONS for document in run["hits"][one["id"]]
    } - set(known)
    mixed = sorted(pairs)
    random.Random(0).shuffle(mixed)
    by_id = {one["id"]: one for one in QUESTIONS}
    for question, document in sorted(mixed, key=lambda pair: pair[0]):
        asked = by_id[question]
        row = {"question": question, "instruction": asked["instruction"], "query": asked["query"]}
        print(json.dumps(row | {"document": document, "text": texts[document]}, ensure_ascii=False))


def judged(file: Path) -> dict[tuple[str, str], bool]:
    """Return what was judged, by question and document.

    Raises:
        ValueError: a pair was judged twice, differently.
    """
    found: dict[tuple[str, str], bool] = {}
    for line in file.read_text().splitlines() if file.is_file() else ():
        row = json.loads(line)
        pair = row["question"], row["document"]
        if found.setdefault(pair, bool(row["relevant"])) != bool(row["relevant"]):
            raise ValueError(f"{file}: {pair} is judged twice, differently.")
    return found


def runs(folder: Path) -> list[dict[str, Any]]:
    """Return the hits of all systems."""
    return [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]


def score(options: argparse.Namespace) -> None:
    """Write every system's precision by family, and its difference from the peer's."""
    known, found = judged(options.judged), runs(options.runs)
    shares = {run["name"]: precisions(run["hits"], known) for run in found}
    families = ("known", "covered", "unmet")
    parts = {name: np.array([one["family"] == name for one in QUESTIONS]) for name in families}
    parts |= {"known and covered": ~parts["unmet"], "all": np.ones(len(QUESTIONS), bool)}
    scores = {
        name: {part: mean_score(name, "precision@10", values[rows], seed=0) for part, rows in parts.items()}
        for name, values in shares.items()
    }
    report = {
        "texts": TEXTS,
        "judged": len(known),
        "relevant": sum(known.values()),
        "fingerprints": {run["name"]: run["fingerprint"] for run in found},
        "peer": options.peer,
        "systems": {
            name: {
                part: {"value": round(one.value, 3), "interval": [round(one.low, 3), round(one.high, 3)]}
                | {"less_peer": _rounded(difference(one, scores[options.peer][part]))}
                for part, one in by_part.items()
            }
            for name, by_part in scores.items()
        },
        "questions": [
            {**one, "hits": {run["name"]: marked(run["hits"][one["id"]], one["id"], known) for run in found}}
            for one in QUESTIONS
        ],
    }
    write("reading_panel", options, report)


def precisions(hits: Mapping[str, Sequence[str]], known: Mapping[tuple[str, str], bool]) -> NDArray[np.float64]:
    """Return for every question the share of a system's hits that answer it.

    Raises:
        KeyError: one was not judged.
    """
    asked = [one["id"] for one in QUESTIONS]
    return np.array([sum(known[question, document] for document in hits[question]) / K for question in asked])


def marked(hits: Sequence[str], question: str, known: Mapping[tuple[str, str], bool]) -> list[tuple[str, bool]]:
    """Return hits in order, with whether they answer a question."""
    return [(document, known[question, document]) for document in hits]


def _rounded(found: Difference) -> list[float]:
    return [round(one, 3) for one in (found.value, found.low, found.high)]


def main() -> None:
    """Parse the options, and do one of the three steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(required=True)
    for step in (search, sheet, score):
        one = steps.add_parser(step.__name__)
        one.set_defaults(step=step)
        one.add_argument("data", type=Path)
        one.add_argument("runs", type=Path)
        if step is search:
            one.add_argument("--name", required=True)
            one.add_argument("--encoder", default="default")
            one.add_argument("--plain", action="store_true", help="Without the instructions, by vectors and words.")
        else:
            one.add_argument("judged", type=Path)
        if step is score:
            one.add_argument("--peer", default="minilm")
            one.add_argument("--output", type=Path)
    options = parser.parse_args()
    step = vars(options).pop("step")
    step(options)


if __name__ == "__main__":
    main()
