"""A score with its uncertainty: a statistic over items, and a bootstrap interval from resampling them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1000
LEVEL = 0.95
PERCENT = 100.0

Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.int64]
Statistic: TypeAlias = Callable[[Rows], float]
"""The score of the items at some row numbers, which may repeat."""


@dataclass(frozen=True, slots=True)
class Score:
    """One figure of one task.

    Attributes:
        metric: what was computed, as the papers call it.
        value: on the scale the metric is published on; higher is better.
        low: lower end of the 95 % interval; equal to `value` where nothing can be resampled.
        resampled: (RESAMPLES,) the value on every resample. Two encoders scored with one seed share their resamples,
            so their difference has a paired interval. Empty where nothing can be resampled.
        headline: whether it enters the suite's mean and its picture.
        note: to know beside it.
    """

    task: str
    metric: str
    value: float
    low: float
    high: float
    items: int
    resampled: Floats = field(default_factory=lambda: np.empty(0), repr=False)
    headline: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """Score of one encoder minus that of another, over the same resamples, with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def certain(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


def score(
    task: str, metric: str, items: int, statistic: Statistic, *, seed: int, headline: bool = False, note: str = ""
) -> Score:
    """Return a statistic over so many items with its percentile bootstrap interval.

    The statistic gives the score of the items at some row numbers and is called with ``arange(items)`` for the value
    itself. The same seed and number of items give the same resamples; other arguments as the attributes of `Score`.

    Source: Efron, "Bootstrap Methods: Another Look at the Jackknife", Annals of Statistics 1979.
    """
    value = float(statistic(np.arange(items)))
    generator = np.random.default_rng([seed, items])
    resampled = np.array([statistic(generator.integers(0, items, items)) for _ in range(RESAMPLES)])
    low, high = _interval(resampled)
    return Score(task, metric, value, low, high, items, resampled, headline, note)


def mean_score(
    task: str, metric: str, values: Floats, *, seed: int, scale: float = 1.0, headline: bool = False, note: str = ""
) -> Score:
    """Return the mean of one value per item, times ``scale``, with its interval."""

    def statistic(rows: Rows) -> float:
        return scale * float(values[rows].mean())

    return score(task, metric, len(values), statistic, seed=seed, headline=headline, note=note)


def combine(
    task: str,
    metric: str,
    parts: list[Score],
    how: Callable[[Floats], Floats],
    *,
    headline: bool = False,
    note: str = "",
) -> Score:
    """Return a score made of others, such as their harmonic mean, with its interval from theirs.

    The parts were all resampled, or none of them was; ``how`` turns (parts, n) of their values into (n,) of the new
    score.
    """
    value = float(how(np.array([[part.value] for part in parts]))[0])
    resampled = np.asarray(how(np.array([part.resampled for part in parts])), dtype=np.float64)
    low, high = _interval(resampled) if resampled.size else (value, value)
    items = min(part.items for part in parts)
    return Score(task, metric, value, low, high, items, resampled, headline, note)


def difference(ours: Score, theirs: Score) -> Difference:
    """Compute the difference of one encoder's score from another's on the same items, with the paired interval."""
    value = ours.value - theirs.value
    if not ours.resampled.size or ours.items != theirs.items:
        return Difference(value, value, value)
    low, high = _interval(ours.resampled - theirs.resampled)
    return Difference(value, low, high)


def harmonic_mean(values: Floats) -> Floats:
    """Return the harmonic mean over the first axis; zero where any value is not above zero."""
    positive = (values > 0).all(axis=0)
    safe = np.where(values > 0, values, 1.0)
    return np.where(positive, values.shape[0] / (1.0 / safe).sum(axis=0), 0.0)


def _interval(resampled: Floats) -> tuple[float, float]:
    tail = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(resampled, [tail, 100 - tail])
    return float(low), float(high)
