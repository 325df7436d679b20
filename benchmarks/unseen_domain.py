"""What 500 rows of a domain that the shipped model has not learned from bring there, and what they cost elsewhere.

    python benchmarks/unseen_domain.py DATA --output benchmarks/results/unseen_domain.json

The domain is the restaurant sentences of ACOS, of which no row is trained on for what ships. Sentences of their train
part, asked for aspect and opinion in words written for this benchmark, make the rows; those of the other parts are what
the suite ``awareness`` measures with, in words of its own. The settings are those of `retriever finetune`.
"""

import argparse
import itertools
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import headline_scores, write

from retriever import load_encoder
from retriever.evaluation.labelled import LABELLED, LabelledText, load_texts
from retriever.training.run.finetuning import FinetuneRequest, finetune

SOURCE = LABELLED["restaurants"]
QUESTIONS = (
    (
        "Which side of the restaurant does the guest bring up?",
        "Name the part of the visit that this is about.",
        "What exactly is being judged here, such as the drinks or the location?",
    ),
    (
        "Did the guest leave happy or unhappy with it?",
        "Is this praise, blame or neither?",
        "Judge the tone towards the restaurant.",
    ),
)
"""For each of the source's two labels."""
SUITE, TASKS = ("awareness",), ("restaurants",)


def main() -> None:
    """Parse the options, fine-tune, measure before and after, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--base", default="pretrained:default")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        learned, measured = parts(options.data / SOURCE.file, folder)
        rows = list(itertools.islice(training_rows(load_texts(learned, SOURCE), options.seed), options.rows))
        file = folder / "rows.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        before = headline_scores(load_encoder(options.base), measured, SUITE, tasks=TASKS)
        request = FinetuneRequest([str(file)], folder / "model", base=options.base, promote=False)
        report = finetune(request, on_progress=lambda _, at: print(at.step, at.losses, file=sys.stderr, flush=True))
        after = headline_scores(load_encoder(str(folder / "model")), measured, SUITE, tasks=TASKS)
        told: dict[str, Any] = report.to_json()
    kept = {key: told[key] for key in ("scores", "verdict", "config", "steps")}
    write("unseen_domain", options, {"rows": len(rows), "before": before, "after": after, "finetune": kept})


def parts(file: Path, folder: Path) -> tuple[Path, Path]:
    """Write a data folder of the train part of a file and one of the others; return both."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    trained = [json.loads(line)["split"] == "train" for line in lines]
    found = folder / "learned", folder / "measured"
    for one, wanted in zip(found, (True, False), strict=True):
        one.mkdir()
        kept = (line for line, train in zip(lines, trained, strict=True) if train == wanted)
        (one / file.name).write_text("".join(kept), encoding="utf-8")
    return found


def training_rows(texts: list[LabelledText], seed: int) -> Iterator[dict[str, str]]:
    """Yield a row for each label of every text, the texts shuffled, the wordings in turn."""
    wordings = [itertools.cycle(questions) for questions in QUESTIONS]
    for text in random.Random(seed).sample(texts, len(texts)):
        for label, questions in zip(text.labels, wordings, strict=True):
            yield {"text": text.text, "question": next(questions), "answer": label}


if __name__ == "__main__":
    main()
