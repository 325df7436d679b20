"""Shares and differences of a corpus of which only a sample was read, with 95 % intervals.

A total is estimated as the sum of the predictions plus the weighted sum of what the predictions miss by in the texts
that were read: the difference estimator of survey sampling (Särndal, Swensson and Wretman, "Model assisted survey
sampling", 1992, section 6.3), which is prediction-powered inference (Angelopoulos et al., Science 2023), here with
chances that differ (Zrnic and Candès, "Active statistical inference", 2024). Predictions may be as wrong as they like,
as long as no text was predicted by a model that had seen its answer; wrong ones make intervals wide, not false.
Without predictions it is the weighted share of the texts read.

The corpus is fixed: intervals are about the texts there are, and where all were read they have no width.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from retriever.clusters.arithmetic.intervals import LEVEL, Interval, wilson
from retriever.clusters.arithmetic.sampling import Floats, Weights

LEAST = 10
"""Texts drawn by chance that must have an answer for its share to be told."""

_PRIOR = 1.0
"""Errors added, with the spread of the answers: that none of a few was wrong does not mean that all are right."""

_ROUNDING = 1e-6  # texts


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate, or that there are too few texts for it.

    Attributes:
        interval: the value and its 95 % interval; None where too few texts have the answer.
        cases: texts with the answer among those drawn by chance and read.
        read: texts that were read and count.
    """

    interval: Interval | None
    cases: int
    read: int

    @property
    def value(self) -> float | None:
        """The value; None where too few texts have the answer."""
        return None if self.interval is None else self.interval.value

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        interval = None if self.interval is None else self.interval.to_json()
        return {"share": interval, "cases": self.cases, "read": self.read}


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """An answer that texts have or have not.

    Attributes:
        has: (n,) 1 for texts that have it, 0 for the others; texts that were not read may hold anything.
        predicted: (n,) its probability by a model that saw no answer of the same text; None where nothing is predicted.
    """

    has: Floats
    predicted: Floats | None = None


def share(outcome: Outcome, weights: Weights) -> Estimate:
    """Return the share of the corpus that has an answer; too few below `LEAST` cases, unless all texts were read.

    The interval is Wilson's for the texts that were not read, with the number of texts that would give the estimated
    variance, and with the t distribution; its degrees of freedom are the cases or, if fewer, the texts without the
    answer, `LEAST` at least (Korn and Graubard, "Confidence intervals for proportions with small expected number of
    positive counts", Survey Methodology 1998; Franco et al., "Comparative study of confidence intervals for
    proportions in complex sample surveys", 2019). Its ends are whole numbers of texts, the next ones outside: where few
    texts are left, it could else lie between two numbers that are possible.

    Args:
        outcome: of n texts.
        weights: of the same texts.
    """
    counted = weights.texts > 0
    read, total = int(counted.sum()), len(counted)
    drawn = int(weights.random.sum())
    cases = _cases(outcome.has, weights)
    known, unread = float(outcome.has[counted].sum()), total - read
    if total and not unread:
        return Estimate(_exact(known / total), cases, read)
    if cases < LEAST:
        return Estimate(None, cases, read)
    smoothed = (cases + 1) / (drawn + 2)
    estimated, variance = _total(outcome.has, _predicted(outcome, weights), weights, smoothed * (1 - smoothed))
    value = min(max((estimated - known) / unread, 0.0), 1.0)
    inner = min(max(value, smoothed / drawn), 1 - (1 - smoothed) / drawn)  # a share of 0 would have no variance
    effective = inner * (1 - inner) * unread**2 / variance
    low, high = wilson(value, effective, _quantile(max(min(cases, drawn - cases), LEAST)))
    least = float(np.floor(known + unread * low + _ROUNDING))
    most = float(np.ceil(known + unread * high - _ROUNDING))
    return Estimate(Interval((known + unread * value) / total, least / total, most / total), cases, read)


def answer_difference(first: Outcome, second: Outcome, weights: Weights) -> Estimate:
    """Return by how much the share of one answer is larger than that of another among the same texts.

    It is the mean of 1, -1 and 0 for texts with the first answer, the second, and neither or both. Cases are texts with
    either. The interval is symmetrical, with the t distribution.
    """
    values = first.has - second.has
    expected = _predicted(first, weights) - _predicted(second, weights)
    counted = weights.texts > 0
    cases, read = _cases(values, weights), int(counted.sum())
    if read and read == len(counted):
        return Estimate(_exact(float(values.mean())), cases, read)
    if cases < LEAST:
        return Estimate(None, cases, read)
    estimated, variance = _total(values, expected, weights, float(values[weights.random].var()))
    half = _quantile(cases) * float(np.sqrt(variance))
    ends = np.array([estimated, estimated - half, estimated + half]) / len(counted)
    return Estimate(Interval(*np.clip(ends, -1.0, 1.0).tolist()), cases, read)


def _cases(values: Floats, weights: Weights) -> int:
    return int(np.count_nonzero(values[weights.random]))


def _exact(value: float) -> Interval:
    return Interval(value, value, value)


def _predicted(outcome: Outcome, weights: Weights) -> Floats:
    """Return the predictions, or the weighted share of the texts read where nothing is predicted."""
    if outcome.predicted is not None:
        return outcome.predicted
    counted = weights.texts > 0
    mean = np.average(outcome.has[counted], weights=weights.texts[counted]) if counted.any() else 0.0
    return np.full(len(outcome.has), float(mean))


def _total(values: Floats, predicted: Floats, weights: Weights, spread: float) -> tuple[float, float]:
    """Return the estimated total of some values (n,), and its variance given the corpus.

    The variance of a round is that of designs of high entropy (Hájek 1964; Brewer and Donadio, "The high entropy
    variance of the Horvitz-Thompson estimator", 2003), which is exact for simple random sampling. Errors are mixed with
    `_PRIOR` more that have the variance ``spread``. Rounds are uncorrelated.
    """
    counted = weights.texts > 0
    errors = np.where(counted, values - predicted, 0.0)
    total = float(predicted.sum() + weights.texts @ errors)
    variance = 0.0
    for part in (part for part in weights.rounds if len(part.rows)):
        apart = errors[part.rows] - np.average(errors[part.rows], weights=part.weights)
        factors = part.weights * np.maximum(part.weights - 1, 0)
        squared = factors @ apart**2 + _PRIOR * factors.mean() * spread
        drawn = len(part.rows)
        variance += part.share**2 * float(squared) * drawn / (drawn - 1 + _PRIOR)
    return total, variance


def _quantile(freedom: float) -> float:
    from scipy import special

    return float(special.stdtrit(max(freedom, 1), (1 + LEVEL) / 2))
