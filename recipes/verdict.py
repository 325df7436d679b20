"""Verdicts whether a question is followed, held to the truth: labelled and judged questions of many kinds of text.

    OMP_NUM_THREADS=1 python recipes/verdict_read.py DATA DATA2 CACHE --seconds 420     (again, until all is read)
    python recipes/verdict.py CACHE --output verdict.json --write

In truth a question is followed where its groups and its answers are right (`Case.followed`), and the verdict sees no
labels. Its chances are those of a logistic model over features of what was read, fitted without the texts of that kind.
The level counts that answers which go by the topics are unclear at best (`features.by_topic`). ``--write`` fits all
kinds, and writes what ships: ``retriever/index/verdicts/measured.json``.
"""

import argparse
import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from verdict_read import read_file
from verdict_truth import Remembered, Truth, truths
from verdict_unlike import judged_sources, misread

from retriever.core.protocols import Encoder
from retriever.core.verdicts import LEVELS, Level, worse
from retriever.evaluation.run.results import write_json
from retriever.index.sources.encoders import load_base
from retriever.index.verdicts.features import by_topic, features_of
from retriever.index.verdicts.judging import TEXTS
from retriever.index.verdicts.measured import Measured, measured_of

TINY = 1e-3
FALSE_ASSURANCE, UNLIKE, FALSE_ALARM = 0.05, 0.125, 0.1
"""Most of the questions called followed that are not, of all and of those on texts unlike training's, which are few;
and most of those called not followed that are."""

STRENGTH = 0.3
"""C of the logistic regression: the smaller, the nearer all weights are to none."""

MEASURED = Path(__file__).parents[1] / "retriever/index/verdicts/measured.json"
DRAWS = 300
USED = ("words_near", "topic", "first_share")
"""The features that make the chance."""

KIN = {
    "asked_reviews": "reviews",
    "asked_messages_open": "asked_messages",
    **dict.fromkeys(("complaints", "customer_support", "software_issues"), "asked_messages"),
    **dict.fromkeys(("examples_open", "examples_faults"), "examples"),
}
"""Sources whose texts are of another's kind."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A question in a wording, asked of the texts of a source.

    Attributes:
        source: where the texts are from, `kind` of the question.
        unlike: whether texts and wordings were chosen to be unlike training's.
        truth: how the labels lie in its view; None where there are none.
        misread: whether most answers are wrong.
        features: by name.
        say: what the case counts in fitting; wordings share that of their question.
    """

    source: str
    kind: str
    question: str
    unlike: bool
    truth: Truth | None
    misread: bool
    features: Mapping[str, float]
    say: float = 1.0

    @property
    def followed(self) -> bool:
        """Whether groups and answers are right."""
        return self.truth is not None and self.truth.right and not self.misread

    @property
    def kin(self) -> str:
        """The kind of text: sources with the same texts, or such, are left out together."""
        name = self.source.removeprefix("unlike_")
        return KIN.get(name, name)


def main() -> None:
    """Parse the options, measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--write", action="store_true", help="Write what ships.")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    files, plain = sorted(options.cache.glob("*.npz")), Remembered(load_base())
    found = [case for file in files for case in cases(file, plain)]
    chances = left_out(found).round(3)  # as the table tells them, so that the table and the counts agree
    followed, not_followed = thresholds(chances, found)
    fingerprint = read_file(files[0]).fingerprint
    report = {
        "fingerprint": fingerprint,
        "plain": plain.fingerprint,
        "thresholds": {"followed": followed, "not_followed": not_followed},
        "by_texts": {
            name: {**area(part, chances[rows]), "levels": levels(part, chances[rows], followed, not_followed)}
            for name, (rows, part) in parts(found).items()
        },
        "cases": [told(case, chance) for case, chance in zip(found, chances.tolist(), strict=True)],
    }
    if options.write:
        limits = {"followed": followed, "not_followed": not_followed}
        write_measured({**fitted(found), **named(found, fingerprint, plain), **limits})
    print(json.dumps({key: value for key, value in report.items() if key != "cases"}, indent=2))
    if options.output:
        write_json(options.output, report)


def cases(file: Path, plain: Encoder) -> Iterator[Case]:
    """Yield the questions of a file that was read, in every wording, those that labels or a reader judge."""
    read, wrong, unlike = read_file(file), misread(), file.stem in judged_sources()
    known = truths(read, plain)
    for question in read.source.questions:
        for wording in question.wordings:
            truth, is_wrong = known.get((question.kind, wording)), (file.stem, wording) in wrong
            if truth is None and not is_wrong:
                continue
            features = features_of(read.evidence(wording, TEXTS), wording, plain)
            say = 1 / len(question.wordings)
            yield Case(file.stem, question.kind, wording, unlike, truth, is_wrong, features, say)


def left_out(found: Sequence[Case]) -> NDArray[np.float64]:
    """Return the chance of every case by a model of all kinds of text but its own."""
    chances = np.zeros(len(found))
    for kin in {case.kin for case in found}:
        model = model_of(fitted([case for case in found if case.kin != kin]))
        for row, case in enumerate(found):
            if case.kin == kin:
                chances[row] = model.chance(case.features)
    return chances


def fitted(found: Sequence[Case]) -> dict[str, Any]:
    """Return bias and weights of a logistic model of some cases, as the package reads them."""
    values = np.array([[case.features[name] for name in USED] for case in found])
    mean, deviation = values.mean(axis=0), np.maximum(values.std(axis=0), TINY)
    model = LogisticRegression(C=STRENGTH, max_iter=1000)
    truth, says = [case.followed for case in found], [case.say for case in found]
    model.fit((values - mean) / deviation, truth, sample_weight=says)
    columns = zip(USED, model.coef_[0], mean, deviation, strict=True)
    return {
        "bias": round(float(model.intercept_[0]), 4),
        "weights": {
            name: {"weight": round(float(weight), 4), "mean": round(float(at), 4), "deviation": round(float(wide), 4)}
            for name, weight, at, wide in columns
        },
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


def thresholds(chances: NDArray[np.float64], found: Sequence[Case]) -> tuple[float, float]:
    """Return from which chance on, and up to which, few enough questions are called what they are not."""
    truth, order = np.array([case.followed for case in found]), np.sort(chances)
    free = np.array([not by_topic(case.features) for case in found])  # others are called followed by no chance
    unlike = np.array([case.unlike for case in found])

    def wrong(at: float, among: NDArray[np.bool_]) -> float:
        called = among & free & (chances >= at)
        return float((~truth[called]).mean()) if called.any() else 0.0

    few = (at for at in order if wrong(at, ~unlike | unlike) <= FALSE_ASSURANCE and wrong(at, unlike) <= UNLIKE)
    down = next((at for at in order[::-1] if truth[chances <= at].mean() <= FALSE_ALARM), 0.0)
    return round(float(max(next(few, 1.0), down + TINY)), 3), round(float(down), 3)


def level(case: Case, chance: float, followed: float, not_followed: float) -> Level:
    """Return what a case is called."""
    by_chance: Level = "followed" if chance >= followed else "not followed" if chance <= not_followed else "unclear"
    return worse(by_chance, "unclear" if by_topic(case.features) else "followed")


def levels(
    found: Sequence[Case], chances: NDArray[np.float64], followed: float, not_followed: float
) -> dict[str, dict[str, int]]:
    """Return how many cases get each level, and how many of these are followed in truth."""
    called = [level(case, chance, followed, not_followed) for case, chance in zip(found, chances, strict=True)]
    counted = {name: [case for case, one in zip(found, called, strict=True) if one == name] for name in LEVELS}
    return {
        name: {"cases": len(part), "followed in truth": sum(case.followed for case in part)}
        for name, part in counted.items()
    }


def parts(found: Sequence[Case]) -> dict[str, tuple[NDArray[np.intp], list[Case]]]:
    """Return rows and cases of all texts, of those like training's and of those unlike."""
    chosen = {"all": lambda case: True, "like": lambda case: not case.unlike, "unlike": lambda case: case.unlike}
    rows = {name: np.array([row for row, case in enumerate(found) if of(case)]) for name, of in chosen.items()}
    return {name: (of, [found[row] for row in of]) for name, of in rows.items()}


def area(found: Sequence[Case], chances: NDArray[np.float64]) -> dict[str, Any]:
    """Return the area under the ROC curve with a 95 % interval over questions, of which the wordings go together."""
    truth = np.array([case.followed for case in found])
    rows_of: dict[tuple[str, str], list[int]] = {}
    for row, case in enumerate(found):
        rows_of.setdefault((case.source, case.kind), []).append(row)
    questions, generator = list(rows_of.values()), np.random.default_rng(0)
    drawn = (
        np.concatenate([questions[place] for place in generator.choice(len(questions), len(questions))])
        for _ in range(DRAWS)
    )
    areas = [roc_auc_score(truth[sample], chances[sample]) for sample in drawn if 0 < truth[sample].sum() < len(sample)]
    low, high = np.percentile(areas, [2.5, 97.5])
    return {
        "questions": len(questions),
        "cases": len(found),
        "auc": round(float(roc_auc_score(truth, chances)), 3),
        "low": round(low, 3),
        "high": round(high, 3),
    }


def told(case: Case, chance: float) -> dict[str, Any]:
    """Return a case for the report."""
    return {
        "source": case.source,
        "kind": case.kind,
        "question": case.question,
        **({} if case.truth is None else case.truth.to_json()),
        "misread": case.misread,
        "followed": case.followed,
        "by_topic": by_topic(case.features),
        "chance": round(chance, 3),
        "features": {name: round(value, 4) for name, value in case.features.items()},
    }


if __name__ == "__main__":
    main()
