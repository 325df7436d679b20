"""How often do the 95 % intervals of a corpus of which a sample was read hold the true value, which is known here?

    python benchmarks/sample_coverage.py --runs 250 --output benchmarks/results/sample_coverage.json

A corpus has texts of five categories and vectors that tell these apart by nothing, a little, well or perfectly. In some
settings a search has read 50 texts before, most of them of one category; the rest of the budget is drawn. Then
everything is predicted and estimated, as the product does it. A setting is repeated with new corpora and new draws.
Every estimate has: how often it was given (it is not where there are too few cases), in how much of all runs it was
given and missed the truth, how often it holds where it was given, and its mean width, also without predictions.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from common import write

from retriever.clusters.arithmetic import estimates
from retriever.clusters.arithmetic.estimates import Estimate, Outcome
from retriever.clusters.arithmetic.prediction import UNREAD, Answers, Prediction, agreement, outcome, predict
from retriever.clusters.arithmetic.sampling import Floats, Mask, Sample, due, permanent_numbers, threshold_for

SHARES = (0.05, 0.1, 0.2, 0.5, 0.15)
PREDICTORS = {"useless": 0.0, "weak": 1.5, "good": 4.0, "perfect": 12.0}
TEXTS, READS, SEARCHES = (600, 3_000), (100, 300, 500), (None, 0.2)
SEARCH_READ = 50
WANTED = 0.93
ROUNDED = 4

_DIMENSIONS = 8


@dataclass(frozen=True, slots=True)
class Setting:
    """A corpus and how it is read: texts, those read in all, the predictor, the share of the searched category."""

    texts: int
    reads: int
    predictor: str
    searched: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """The truth: categories (n,) and vectors (n, dim)."""

    categories: Answers
    vectors: Floats


def main() -> None:
    """Parse the options, simulate every setting, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=250)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rows = []
    for setting in settings():
        rows += measured(setting, options.runs)
        print(setting, flush=True)
    write("sample_coverage", options, {"summary": summary(rows)})


def settings() -> Iterator[Setting]:
    """Yield every setting."""
    return (Setting(*values) for values in product(TEXTS, READS, PREDICTORS, SEARCHES))


def measured(setting: Setting, runs: int) -> list[dict[str, Any]]:
    """Return one row for every estimate of a setting."""
    seen: dict[str, list[tuple[float, Estimate, Estimate]]] = defaultdict(list)
    for run in range(runs):
        corpus = made(setting, np.random.default_rng((run, setting.texts, setting.reads)))
        sample, answers = read(corpus, setting, run)
        for name, truth, estimate, alone in estimated(corpus, sample, answers, run):
            seen[name].append((truth, estimate, alone))
    return [asdict(setting) | {"estimate": name} | row(values) for name, values in seen.items()]


def made(setting: Setting, rng: np.random.Generator) -> Corpus:
    """Return a random corpus whose categories have exactly their shares."""
    counts = np.round(np.array(SHARES[:-1]) * setting.texts).astype(int)
    categories = rng.permutation(np.repeat(np.arange(len(SHARES)), [*counts, setting.texts - counts.sum()]))
    vectors = rng.standard_normal((setting.texts, _DIMENSIONS))
    vectors[np.arange(setting.texts), categories] += PREDICTORS[setting.predictor]
    return Corpus(categories, vectors)


def read(corpus: Corpus, setting: Setting, seed: int) -> tuple[Sample, Answers]:
    """Return a sample, and the answers (n,) of all texts that were read."""
    known: Mask = np.zeros(setting.texts, dtype=bool)
    if setting.searched is not None:
        noise = np.random.default_rng((seed, 1)).standard_normal(setting.texts)
        scores = 1.5 * (corpus.categories == SHARES.index(setting.searched)) + noise
        known[np.argsort(-scores)[:SEARCH_READ]] = True
    numbers = permanent_numbers(f"{seed} {row}".encode() for row in range(setting.texts))
    threshold = threshold_for(setting.reads, numbers, known)
    answered = known.copy()
    answered[due(setting.reads, threshold, numbers, known)] = True
    return Sample.to(threshold, numbers, answered), np.where(answered, corpus.categories, UNREAD)


def predicted(corpus: Corpus, sample: Sample, answers: Answers, seed: int) -> Prediction | None:
    """Return a prediction that is better than the commonest answer, or None."""
    prediction = predict([corpus.vectors], answers, len(SHARES), seed=seed)
    if prediction is None:
        return None
    return prediction if agreement(prediction, answers, sample).better else None


def estimated(
    corpus: Corpus, sample: Sample, answers: Answers, seed: int
) -> Iterator[tuple[str, float, Estimate, Estimate]]:
    """Yield name, truth, estimate, and estimate without predictions."""
    prediction = predicted(corpus, sample, answers, seed)
    for category, part in enumerate(SHARES[:-1]):
        has = corpus.categories == category
        both = outcomes(answers, category, prediction)
        yield f"share {part:.0%}", float(has.mean()), *(estimates.share(answer, sample) for answer in both)
    has, other = corpus.categories == 2, corpus.categories == 1
    both, others = outcomes(answers, 2, prediction), outcomes(answers, 1, prediction)
    pairs = zip(both, others, strict=True)
    gap = float(has.mean() - other.mean())
    yield "between answers", gap, *(estimates.answer_difference(*pair, sample) for pair in pairs)


def outcomes(answers: Answers, category: int, prediction: Prediction | None) -> tuple[Outcome, Outcome]:
    """Return an answer with its predictions and without."""
    return outcome(answers, category, prediction), outcome(answers, category)


def row(values: list[tuple[float, Estimate, Estimate]]) -> dict[str, Any]:
    """Return how often an estimate was given, missed and held, and its mean widths."""
    given = [(truth, e.interval, alone.interval) for truth, e, alone in values if e.interval and alone.interval]
    held = sum(interval.low - 1e-9 <= truth <= interval.high + 1e-9 for truth, interval, _ in given)
    widths = [[interval.high - interval.low for interval in pair] for _, *pair in given]
    mean = np.mean(widths, axis=0) if widths else (None, None)
    return {
        "given": round(len(given) / len(values), ROUNDED),
        "missed": round((len(given) - held) / len(values), ROUNDED),
        "held": round(held / len(given), ROUNDED) if given else None,
        "width": None if mean[0] is None else round(float(mean[0]), ROUNDED),
        "width_alone": None if mean[1] is None else round(float(mean[1]), ROUNDED),
    }


def summary(rows: list[dict[str, Any]]) -> Mapping[str, Any]:
    """Return for every estimate the mean and the worst coverage, and widths against the sample alone."""
    report = {}
    for name in dict.fromkeys(row["estimate"] for row in rows):
        ours = [row for row in rows if row["estimate"] == name and row["given"] >= 0.5]
        entry: dict[str, Any] = {"settings": len(ours)}
        if ours:
            entry["held_mean"] = round(float(np.mean([row["held"] for row in ours])), ROUNDED)
            entry["held_lowest"] = min(row["held"] for row in ours)
            entry["below_wanted"] = sum(row["held"] < WANTED for row in ours)
            entry["width_ratio"] = {
                predictor: round(float(np.mean([row["width"] / row["width_alone"] for row in group])), 3)
                for predictor in PREDICTORS
                if (group := [row for row in ours if row["predictor"] == predictor])
            }
        entry["missed_most"] = max(row["missed"] for row in rows if row["estimate"] == name)
        report[name] = entry
    return report


if __name__ == "__main__":
    main()
