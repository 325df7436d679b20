"""Verdicts whether a question is followed, held to the truth: labelled kinds of question, known and unmet.

    python recipes/verdict_read.py DATA DATA2 CACHE --seconds 420     (again, until it says that all is read)
    python recipes/verdict.py CACHE --output verdict.json --write

Truth, from the labels: of triplets (a text, one with the same answer, one with another) at least `LEAST` percent come
right under the question, and at most `LOSS` points fewer than under none. The verdict sees no labels. Its chances are
those of a logistic model that was fitted without the file whose question it judges: over features of what was read, and
over the question's own vector by the base encoder, since a model that does not follow one question about style does not
follow the next. A question that is answered by the topic without asking for it is not called followed, whatever its
chance (`features.at_most`); the levels count that. ``--write`` fits all files, and writes what ships:
``retriever/index/verdicts/measured.json``.
"""

import argparse
import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from verdict_candidates import candidates
from verdict_read import Read, read_file

from retriever.core.protocols import Encoder
from retriever.core.types import Embeddings
from retriever.core.verdicts import LEVELS, Level, worse
from retriever.evaluation.grids import Alike, Grid, grid_triplets
from retriever.evaluation.run.results import write_json
from retriever.index.sources.encoders import load_base
from retriever.index.verdicts.features import at_most, features_of
from retriever.index.verdicts.judging import TEXTS
from retriever.index.verdicts.measured import WORDING, Measured, measured_of

LEAST, LOSS = 60.0, 5.0
LEAST_ANCHORS = 25
PERCENT, TINY = 100.0, 1e-3
FALSE_ASSURANCE, FALSE_ALARM = 0.1, 0.1
"""Most of the questions called followed that are not; most of those called not followed that are."""

STRENGTH = 0.3
"""C of the logistic regression: the smaller, the nearer all weights are to none."""
SAY = 2.0
"""Length of the questions' vectors, in the root mean square, beside features whose deviation is 1."""

MEASURED = Path(__file__).parents[1] / "retriever/index/verdicts/measured.json"
DRAWS = 300
COUNTS = (20, 30, 40, 50)
USED = ("words_near", "words_spread")
"""The features that ship, chosen among all that are told of: more of them on so few questions fit these alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A labelled question in one wording.

    Attributes:
        source: the file.
        kind: of the question.
        question: the wording.
        unmet: whether training never asks it.
        asked: share of the triplets that come right under it, in percent, ``unasked`` under none.
        features: by name, by the number of texts looked at.
        vector: (e,) the wording's by the base encoder.
        say: what the case counts in fitting; wordings share that of their question.
    """

    source: str
    kind: str
    question: str
    unmet: bool
    asked: float
    unasked: float
    features: Mapping[int, Mapping[str, float]]
    vector: Embeddings
    say: float = 1.0

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
    files, plain = sorted(options.cache.glob("*.npz")), load_base()
    samples = [case for file in files for case in cases(file, plain)]
    truth = np.array([case.followed for case in samples])
    chances = {count: left_out(samples, count) for count in COUNTS}
    shown = chances[TEXTS].round(3)  # as the table tells them, so that the table and the counts agree
    followed, not_followed = thresholds(shown, truth)
    allowed = [at_most(case.features[TEXTS]) for case in samples]
    fingerprint = read_file(files[0]).fingerprint
    report = {
        "fingerprint": fingerprint,
        "plain": plain.fingerprint,
        "truth": {"least": LEAST, "loss": LOSS, "followed": int(truth.sum()), "cases": len(truth)},
        "texts": TEXTS,
        "used": USED,
        "most_texts": max(len(read_file(file).source.texts) for file in files),
        "auc": {str(count): round(float(roc_auc_score(truth, chance)), 3) for count, chance in chances.items()},
        "auc_of": {
            "all": area(samples, shown),
            "known": area(samples, shown, [not case.unmet for case in samples]),
            "unmet": area(samples, shown, [case.unmet for case in samples]),
            "all, without the question's own vector": area(samples, left_out(samples, TEXTS, say=0.0).round(3)),
        },
        "auc_of_single_features": singles(samples, truth),
        "wrong_at_most": {"followed": FALSE_ASSURANCE, "not_followed": FALSE_ALARM},
        "thresholds": {"followed": followed, "not_followed": not_followed},
        "levels": levels(shown, truth, followed, not_followed, allowed),
        "levels_by_chance_alone": levels(shown, truth, followed, not_followed),
        "cases": [told(case, chance) for case, chance in zip(samples, shown.tolist(), strict=True)],
    }
    if options.write:
        write_measured(
            {
                **fitted(samples),
                **named(samples, fingerprint, plain),
                "followed": followed,
                "not_followed": not_followed,
            }
        )
    print(json.dumps(report, indent=2))
    if options.output:
        write_json(options.output, report)


def cases(file: Path, plain: Encoder) -> list[Case]:
    """Return the questions of a file that was read, in every wording, those that have enough triplets."""
    read = read_file(file)
    cosines = [[read.cosines(wording) for wording in question.wordings] for question in read.source.questions]
    grid = Grid(file.stem, read.source.texts, read.source.questions)
    triplets = {item.kind: item for item in grid_triplets(grid, Alike(read.cosines(""), cosines))}
    result = []
    for question in read.source.questions:
        measured = triplets.get(question.kind)
        if measured is None or measured.unasked.size < LEAST_ANCHORS:
            continue
        unmet, unasked = question.kind in read.source.unmet, PERCENT * float(measured.unasked.mean())
        vectors = plain.encode(list(question.wordings))
        for wording, right, vector in zip(question.wordings, measured.asked, vectors, strict=True):
            seen = {count: seen_on(read, wording, count, plain) for count in COUNTS}
            share, say = PERCENT * float(right.mean()), 1 / len(question.wordings)
            result.append(Case(file.stem, question.kind, wording, unmet, share, unasked, seen, vector, say))
    return result


def seen_on(read: Read, wording: str, count: int, plain: Encoder) -> Mapping[str, float]:
    """Return the features of what was read of the first texts."""
    evidence, unasked = read.evidence(wording, count), read.evidence("", count).asked
    return {**features_of(evidence, wording, plain), **candidates(evidence, unasked)}


def left_out(found: Sequence[Case], count: int, say: float = SAY, used: Sequence[str] = USED) -> NDArray[np.float64]:
    """Return the chance of every case by a model of all sources but its own, on so many texts."""
    chances = np.zeros(len(found))
    for source in {case.source for case in found}:
        model = model_of(fitted([case for case in found if case.source != source], count, say, used))
        for row, case in enumerate(found):
            if case.source == source:
                chances[row] = model.chance({**case.features[count], **model.of_vector(case.vector)})
    return chances


def fitted(found: Sequence[Case], count: int = TEXTS, say: float = SAY, used: Sequence[str] = USED) -> dict[str, Any]:
    """Return bias and weights of a logistic model of some cases, as the package reads them.

    Args:
        found: the cases.
        count: texts looked at.
        say: in place of `SAY`; 0 leaves the questions' own vectors out.
        used: the features besides.
    """
    values, says = matrix(found, count, used), np.array([case.say for case in found])
    mean, deviation = scale(values)
    vectors = np.stack([case.vector for case in found]).astype(np.float64)
    centre = vectors.mean(axis=0)
    width = say / max(float(np.sqrt(np.square(vectors - centre).sum(axis=1).mean())), TINY)
    rows = np.concatenate([(values - mean) / deviation, width * (vectors - centre)], axis=1)
    model = LogisticRegression(C=STRENGTH, max_iter=1000)
    model.fit(rows, [case.followed for case in found], sample_weight=says)
    weights, wording = np.split(model.coef_[0], [len(used)])
    wording = (width * wording).round(3)
    ours = vectors @ wording
    weights = [*weights, max(float(ours.std()), TINY)]  # what the vector says counts as it is
    columns = zip([*used, WORDING], weights, [*mean, ours.mean()], [*deviation, max(ours.std(), TINY)], strict=True)
    return {
        "bias": round(float(model.intercept_[0]), 4),
        "weights": {
            name: {"weight": round(float(weight), 4), "mean": round(float(at), 4), "deviation": round(float(wide), 4)}
            for name, weight, at, wide in columns
        },
        "wording": wording.tolist(),
    }


def named(found: Sequence[Case], fingerprint: str, plain: Encoder) -> dict[str, Any]:
    """Return what tells a measurement from others."""
    return {
        "measured_by": "recipes/verdict.py",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "fingerprint": fingerprint,
        "plain": plain.fingerprint,
        "questions": len({(case.source, case.kind) for case in found}),
        "wordings": len(found),
    }


def model_of(fit: Mapping[str, Any]) -> Measured:
    """Return a model that only gives chances."""
    return measured_of({**fit, "fingerprint": "", "plain": "", "followed": 1.0, "not_followed": 0.0})


def write_measured(document: Mapping[str, Any]) -> None:
    """Write what ships, a key a line."""
    lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in document.items())
    MEASURED.write_text(f"{{\n{lines}\n}}\n")


def matrix(found: Sequence[Case], count: int, names: Sequence[str]) -> NDArray[np.float64]:
    """Return the values (cases, features) of some features."""
    return np.array([[case.features[count][name] for name in names] for case in found])


def scale(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation of every column."""
    return values.mean(axis=0), np.maximum(values.std(axis=0), TINY)


def thresholds(chances: NDArray[np.float64], truth: NDArray[np.bool_]) -> tuple[float, float]:
    """Return from which chance on, and up to which, few enough questions are called what they are not."""
    order = np.sort(chances)
    followed = next((chance for chance in order if (~truth[chances >= chance]).mean() <= FALSE_ASSURANCE), 1.0)
    not_followed = next((chance for chance in order[::-1] if truth[chances <= chance].mean() <= FALSE_ALARM), 0.0)
    return round(float(max(followed, not_followed + 1e-3)), 3), round(float(not_followed), 3)


def levels(
    chances: NDArray[np.float64],
    truth: NDArray[np.bool_],
    followed: float,
    not_followed: float,
    allowed: Sequence[Level] = (),
) -> dict[str, Any]:
    """Return how many cases get each level, none better than is allowed, and how many of these are followed."""
    names: list[Level] = [
        "followed" if chance >= followed else "not followed" if chance <= not_followed else "unclear"
        for chance in chances
    ]
    called = np.array([worse(*pair) for pair in zip(names, allowed, strict=True)] if allowed else names)
    parts = {level: called == level for level in LEVELS}
    return {
        name: {"cases": int(part.sum()), "followed in truth": int(truth[part].sum())} for name, part in parts.items()
    }


def area(found: Sequence[Case], chances: NDArray[np.float64], among: Sequence[bool] | None = None) -> dict[str, Any]:
    """Return the area under the ROC curve with a 95 % interval over questions, of which the wordings go together."""
    truth = np.array([case.followed for case in found])
    rows_of: dict[tuple[str, str], list[int]] = {}
    for row, case in enumerate(found):
        if among is None or among[row]:
            rows_of.setdefault((case.source, case.kind), []).append(row)
    questions, generator = list(rows_of.values()), np.random.default_rng(0)
    drawn = (
        np.concatenate([questions[place] for place in generator.choice(len(questions), len(questions))])
        for _ in range(DRAWS)
    )
    areas = [roc_auc_score(truth[sample], chances[sample]) for sample in drawn if 0 < truth[sample].sum() < len(sample)]
    low, high = np.percentile(areas, [2.5, 97.5])
    rows = np.concatenate(questions)
    return {
        "questions": len(questions),
        "cases": len(rows),
        "auc": round(float(roc_auc_score(truth[rows], chances[rows])), 3),
        "low": round(low, 3),
        "high": round(high, 3),
    }


def singles(found: Sequence[Case], truth: NDArray[np.bool_]) -> dict[str, float]:
    """Return the area of every feature alone, whichever way it counts; of wordings, by the other sources."""
    names = list(found[0].features[TEXTS])
    areas = {
        name: float(roc_auc_score(truth, column))
        for name, column in zip(names, matrix(found, TEXTS, names).T, strict=True)
    }
    found_alone = {name: max(value, 1 - value) for name, value in areas.items()}
    found_alone[WORDING] = float(roc_auc_score(truth, left_out(found, TEXTS, used=())))
    return {name: round(value, 3) for name, value in found_alone.items()}


def told(case: Case, chance: float) -> dict[str, Any]:
    """Return a case for the report."""
    return {
        "source": case.source,
        "kind": case.kind,
        "question": case.question,
        "unmet": case.unmet,
        "asked": round(case.asked, 1),
        "not_asked": round(case.unasked, 1),
        "followed": case.followed,
        "chance": round(chance, 3),
        "features": {name: round(value, 4) for name, value in case.features[TEXTS].items()},
    }


if __name__ == "__main__":
    main()
