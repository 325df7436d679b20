"""Verdicts whether a question is followed, held to the truth: labelled kinds of question, known and unmet.

    python benchmarks/verdict_read.py DATA DATA2 CACHE --seconds 420     (again, until it says that all is read)
    python benchmarks/verdict.py CACHE --output benchmarks/results/verdict.json --write

Truth, from the labels: of triplets (a text, one with the same answer, one with another) at least `LEAST` percent come
right under the question, and at most `LOSS` points fewer than under none. The verdict sees no labels. Its chances are
those of a logistic model that was fitted without the file whose question it judges. ``--write`` fits all files, and
writes what ships: ``retriever/index/verdicts/measured.json``.
"""

import argparse
import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import write
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from verdict_read import read_file

from retriever.evaluation.reversal import Alike, Grid, grid_triplets
from retriever.index.verdicts.arithmetic import features
from retriever.index.verdicts.judging import TEXTS

LEAST, LOSS = 60.0, 5.0
LEAST_ANCHORS = 25
FALSE_ASSURANCE, FALSE_ALARM = 0.2, 0.15
"""Most of the questions called followed that are not; most of those called hardly followed that are."""

STRENGTH = 0.3
"""C of the logistic regression: the smaller, the nearer all weights are to none."""

MEASURED = Path(__file__).parents[1] / "retriever/index/verdicts/measured.json"
DRAWS = 300
COUNTS = (20, 30, 40, 50)
USED = ("words_steady", "steady", "spread")
"""The features that ship, chosen among all that are told of: more of them on so few questions fit these alone."""


@dataclass(frozen=True, slots=True)
class Case:
    """A labelled question: where from, the share of triplets asked and not asked, its features by texts looked at."""

    source: str
    kind: str
    question: str
    unmet: bool
    asked: float
    unasked: float
    features: Mapping[int, Mapping[str, float]]

    @property
    def followed(self) -> bool:
        """The truth."""
        return self.asked >= LEAST and self.unasked - self.asked <= LOSS


def main() -> None:
    """Parse the options, measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--write", action="store_true", help="Write what ships.")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    files = sorted(options.cache.glob("*.npz"))
    found = [case for file in files for case in cases(file)]
    truth = np.array([case.followed for case in found])
    chances = {count: left_out(found, count) for count in COUNTS}
    shown = chances[TEXTS].round(3)  # as the table tells them, so that the table and the counts agree
    followed, hardly = thresholds(shown, truth)
    fingerprint = read_file(files[0]).fingerprint
    report = {
        "fingerprint": fingerprint,
        "truth": {"least": LEAST, "loss": LOSS, "followed": int(truth.sum()), "questions": len(truth)},
        "texts": TEXTS,
        "used": USED,
        "most_texts": max(len(read_file(file).source.texts) for file in files),
        "auc": {str(count): round(float(roc_auc_score(truth, one)), 3) for count, one in chances.items()},
        "auc_of": {
            "all": area(truth, shown),
            "known": area(truth, shown, [not case.unmet for case in found]),
            "unmet": area(truth, shown, [case.unmet for case in found]),
        },
        "auc_of_single_features": singles(found, truth),
        "thresholds": {"followed": followed, "hardly": hardly},
        "levels": levels(shown, truth, followed, hardly),
        "questions": [told(case, chance) for case, chance in zip(found, shown.tolist(), strict=True)],
    }
    if options.write:
        MEASURED.write_text(json.dumps(shipped(found, fingerprint, followed, hardly), indent=2) + "\n")
    write("verdict", options, report)


def cases(file: Path) -> list[Case]:
    """Return the questions of a file that was read, those that have enough triplets."""
    read = read_file(file)
    cosines = Alike(read.cosines(""), [[read.cosines(one.wordings[0])] for one in read.source.questions])
    triplets = {
        one.kind: one for one in grid_triplets(Grid(file.stem, read.source.texts, read.source.questions), cosines)
    }
    found = []
    for question in read.source.questions:
        measured = triplets.get(question.kind)
        if measured is None or measured.unasked.size < LEAST_ANCHORS:
            continue
        asked = question.wordings[0]
        seen = {count: features(read.evidence(asked, count)) for count in COUNTS}
        shares = 100 * float(measured.asked.mean()), 100 * float(measured.unasked.mean())
        found.append(Case(file.stem, question.kind, asked, question.kind in read.source.unmet, *shares, seen))
    return found


def left_out(found: Sequence[Case], count: int) -> NDArray[np.float64]:
    """Return the chance of every question by a model of all sources but its own, on so many texts."""
    sources = np.array([case.source for case in found])
    _, values, truth = matrix(found, count, USED)
    chances = np.zeros(len(found))
    for source in np.unique(sources):
        own = sources == source
        mean, deviation = scale(values[~own])
        model = LogisticRegression(C=STRENGTH).fit((values[~own] - mean) / deviation, truth[~own])
        chances[own] = model.predict_proba((values[own] - mean) / deviation)[:, 1]
    return chances


def shipped(found: Sequence[Case], fingerprint: str, followed: float, hardly: float) -> dict[str, Any]:
    """Return the model of all sources as the package reads it."""
    names, values, truth = matrix(found, TEXTS, USED)
    mean, deviation = scale(values)
    model = LogisticRegression(C=STRENGTH).fit((values - mean) / deviation, truth)
    columns = zip(names, model.coef_[0], mean, deviation, strict=True)
    return {
        "measured_by": "benchmarks/verdict.py",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "fingerprint": fingerprint,
        "questions": len(found),
        "followed": followed,
        "hardly": hardly,
        "bias": round(float(model.intercept_[0]), 4),
        "weights": {
            name: {
                "weight": round(float(weight), 4),
                "mean": round(float(mean), 4),
                "deviation": round(float(width), 4),
            }
            for name, weight, mean, width in columns
        },
    }


def matrix(
    found: Sequence[Case], count: int, names: Sequence[str] = ()
) -> tuple[Sequence[str], NDArray[np.float64], NDArray[np.bool_]]:
    """Return names of features, all where none are given, their values (questions, features), and the truth."""
    names = names or list(found[0].features[count])
    values = np.array([[case.features[count][name] for name in names] for case in found])
    return names, values, np.array([case.followed for case in found])


def scale(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation of every column."""
    return values.mean(axis=0), np.maximum(values.std(axis=0), 1e-6)


def thresholds(chances: NDArray[np.float64], truth: NDArray[np.bool_]) -> tuple[float, float]:
    """Return from which chance on, and up to which, few enough questions are called what they are not."""
    order = np.sort(chances)
    followed = next((one for one in order if (~truth[chances >= one]).mean() <= FALSE_ASSURANCE), 1.0)
    hardly = next((one for one in order[::-1] if truth[chances <= one].mean() <= FALSE_ALARM), 0.0)
    return round(float(max(followed, hardly + 1e-3)), 3), round(float(hardly), 3)


def levels(chances: NDArray[np.float64], truth: NDArray[np.bool_], followed: float, hardly: float) -> dict[str, Any]:
    """Return how many questions get each level, and how many of these are what it says."""
    parts = {"followed": chances >= followed, "hardly": chances <= hardly}
    parts["unclear"] = ~(parts["followed"] | parts["hardly"])
    return {
        name: {"questions": int(part.sum()), "followed in truth": int(truth[part].sum())}
        for name, part in parts.items()
    }


def area(truth: NDArray[np.bool_], chances: NDArray[np.float64], among: Sequence[bool] | None = None) -> dict[str, Any]:
    """Return the area under the ROC curve with a 95 % interval over questions."""
    rows = np.flatnonzero(np.ones(len(truth), dtype=bool) if among is None else np.array(among))
    generator = np.random.default_rng(0)
    drawn = (generator.choice(rows, len(rows)) for _ in range(DRAWS))
    areas = [roc_auc_score(truth[one], chances[one]) for one in drawn if 0 < truth[one].sum() < len(one)]
    low, high = np.percentile(areas, [2.5, 97.5])
    value = roc_auc_score(truth[rows], chances[rows])
    return {"questions": len(rows), "auc": round(float(value), 3), "low": round(low, 3), "high": round(high, 3)}


def singles(found: Sequence[Case], truth: NDArray[np.bool_]) -> dict[str, float]:
    """Return the area of every feature alone, whichever way it counts."""
    names, values, _ = matrix(found, TEXTS)
    areas = [float(roc_auc_score(truth, column)) for column in values.T]
    return {name: round(max(one, 1 - one), 3) for name, one in zip(names, areas, strict=True)}


def told(case: Case, chance: float) -> dict[str, Any]:
    """Return a question for the report."""
    return {
        "source": case.source,
        "kind": case.kind,
        "question": case.question,
        "unmet": case.unmet,
        "asked": round(case.asked, 1),
        "not_asked": round(case.unasked, 1),
        "followed": case.followed,
        "chance": round(chance, 3),
        "features": {name: round(one, 4) for name, one in case.features[TEXTS].items()},
    }


if __name__ == "__main__":
    main()
