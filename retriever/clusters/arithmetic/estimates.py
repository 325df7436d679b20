"""Shares and differences of a corpus of which only a sample was read, with 95 % intervals.

A total is estimated as the sum of the predictions plus what the predictions miss by in the texts drawn, scaled to all:
the difference estimator of survey sampling (Särndal, Swensson and Wretman, "Model assisted survey sampling", 1992,
section 6.3), which is prediction-powered inference (Angelopoulos et al., Science 2023). Predictions may be as wrong as
they like, as long as no text was predicted by a model that had seen its answer; wrong ones make intervals wide, not
false. Without predictions it is the share among the texts drawn.

The corpus is fixed: intervals are about the texts there are, and where all were read they have no width.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from retriever.clusters.arithmetic.intervals import LEVEL, Interval, wilson
from retriever.clusters.arithmetic.sampling import Floats, Sample

LEAST = 10
"""Texts drawn that must have an answer for its share to be told."""

_PRIOR = 1.0
"""Errors added, with the spread of the answers: that none of a few was wrong does not mean that all are right."""

_ROUNDING = 1e-6  # texts


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate, or that there are too few texts for it.

    Attributes:
        interval: the value and its 95 % interval; None where too few texts have the answer.
        cases: texts with the answer among those drawn and read.
        read: texts that were drawn and read.
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


def share(outcome: Outcome, sample: Sample) -> Estimate:
    """Return the share of the corpus that has an answer; too few below `LEAST` cases, unless all texts were read.

    The interval is Wilson's for the texts that were not drawn, with the number of texts that would give the estimated
    variance, and with the t distribution; its degrees of freedom are the cases or, if fewer, the texts without the
    answer, `LEAST` at least (Korn and Graubard, "Confidence intervals for proportions with small expected number of
    positive counts", Survey Methodology 1998; Franco et al., "Comparative study of confidence intervals for
    proportions in complex sample surveys", 2019). Its ends are whole numbers of texts, the next ones outside: where few
    texts are left, it could else lie between two numbers that are possible. Nor does it hold numbers that the texts
    read beside the sample rule out.

    Args:
        outcome: of n texts.
        sample: of the same texts.
    """
    drawn, total = int(sample.drawn.sum()), len(sample.read)
    cases = _cases(outcome.has, sample)
    rest = total - drawn
    if total and not rest:
        return Estimate(_exact(cases / total), cases, drawn)
    if cases < LEAST:
        return Estimate(None, cases, drawn)
    smoothed = (cases + 1) / (drawn + 2)
    estimated, variance = _total(outcome.has, _predicted(outcome, sample), sample, smoothed * (1 - smoothed))
    value = min(max((estimated - cases) / rest, 0.0), 1.0)
    inner = min(max(value, smoothed / drawn), 1 - (1 - smoothed) / drawn)  # a share of 0 would have no variance
    effective = inner * (1 - inner) * rest**2 / variance
    low, high = wilson(value, effective, _quantile(max(min(cases, drawn - cases), LEAST)))
    having = int(np.count_nonzero(outcome.has[sample.read]))
    least, most = having, total - (int(sample.read.sum()) - having)
    ends = np.floor(cases + rest * low + _ROUNDING), np.ceil(cases + rest * high - _ROUNDING)
    numbers = np.clip([cases + rest * value, *ends], least, most) / total
    return Estimate(Interval(*numbers.tolist()), cases, drawn)


def answer_difference(first: Outcome, second: Outcome, sample: Sample) -> Estimate:
    """Return by how much the share of one answer is larger than that of another among the same texts.

    It is the mean of 1, -1 and 0 for texts with the first answer, the second, and neither or both. Cases are texts with
    either. The interval is symmetrical, with the t distribution.
    """
    values = first.has - second.has
    cases, drawn = _cases(values, sample), int(sample.drawn.sum())
    if drawn and drawn == len(values):
        return Estimate(_exact(float(values.mean())), cases, drawn)
    if cases < LEAST:
        return Estimate(None, cases, drawn)
    expected = _predicted(first, sample) - _predicted(second, sample)
    estimated, variance = _total(values, expected, sample, float(values[sample.drawn].var()))
    half = _quantile(cases) * float(np.sqrt(variance))
    ends = np.array([estimated, estimated - half, estimated + half]) / len(values)
    return Estimate(Interval(*np.clip(ends, -1.0, 1.0).tolist()), cases, drawn)


def _cases(values: Floats, sample: Sample) -> int:
    return int(np.count_nonzero(values[sample.drawn]))


def _exact(value: float) -> Interval:
    return Interval(value, value, value)


def _predicted(outcome: Outcome, sample: Sample) -> Floats:
    """Return the predictions, or the share of the texts drawn where nothing is predicted."""
    if outcome.predicted is not None:
        return outcome.predicted
    return np.full(len(outcome.has), float(outcome.has[sample.drawn].mean()))


def _total(values: Floats, predicted: Floats, sample: Sample, spread: float) -> tuple[float, float]:
    """Return the estimated total of some values (n,), and its variance given the corpus.

    The variance is that of simple random sampling without replacement. Errors are mixed with `_PRIOR` more that have
    the variance ``spread``.
    """
    errors = (values - predicted)[sample.drawn]
    drawn, total = len(errors), len(values)
    apart = errors - errors.mean()
    squared = (float(apart @ apart) + _PRIOR * spread) / (drawn - 1 + _PRIOR)
    return float(predicted.sum() + total * errors.mean()), squared * total * (total - drawn) / drawn


def _quantile(freedom: float) -> float:
    from scipy import special

    return float(special.stdtrit(max(freedom, 1), (1 + LEVEL) / 2))
