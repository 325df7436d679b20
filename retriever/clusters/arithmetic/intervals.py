"""How sure a number is: intervals for shares, for their differences and for what a group costs in stars.

The reviews there are count as a sample of those that could have been written. docs/numbers.md says how often the
intervals hold the true value. Levels are `LEVEL`, two-sided. `scipy.stats` is not used: it takes longer
to load than a saved clustering to be counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Floats: TypeAlias = NDArray[np.float64]

LEVEL = 0.95
"""How often an interval is to hold the true value."""
FEW = 10
"""Reviews of which fewer make no percentage."""
LEAST_RATED = 2
"""Rated reviews that either side of an impact must have."""

_Z = float(special.ndtri((1 + LEVEL) / 2))
_PRIOR = 1.0  # ratings that have the spread of all: the few of a group are often equal, and its true spread is not 0
_STEPS = 101  # points that stand for a distribution
_ROUNDING = 1e-7
_TENTH, _LEAST_SHOWN = 0.1, 0.001


@dataclass(frozen=True, slots=True)
class Interval:
    """A value and the ends of its interval."""

    value: float
    low: float
    high: float

    @property
    def certain(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0

    def to_json(self) -> dict[str, float]:
        """Return the documented JSON object, rounded to six decimals."""
        return {"value": round(self.value, 6), "low": round(self.low, 6), "high": round(self.high, 6)}


@dataclass(frozen=True, slots=True)
class Share(Interval):
    """A share of some reviews; as a text it is a percentage, or of fewer than `FEW` what was counted: ``3 of 5``."""

    count: int
    total: int

    @property
    def few(self) -> bool:
        """Whether the reviews are too few for a percentage."""
        return self.total < FEW

    def __str__(self) -> str:
        return f"{self.count} of {self.total}" if self.few else percentage(self.value)


def percentage(value: float) -> str:
    """Format a share, 0 to 1: below a tenth with one decimal, so that a few of many are not 0%."""
    if 0 < value < _LEAST_SHOWN:
        return f"under {_LEAST_SHOWN:.1%}"
    return f"{value:.1%}" if 0 < value < _TENTH else f"{value:.0%}"


def share(count: int, total: int) -> Share:
    """Return which share ``count`` of ``total`` is; of nothing it is 0, and anything is possible.

    Source: Wilson, "Probable inference, the law of succession, and statistical inference", JASA 1927.
    """
    if total == 0:
        return Share(0.0, 0.0, 1.0, count, total)
    low, high = wilson(count / total, total, _Z)
    # The ends of none and of all are 0 and 1 but for rounding.
    return Share(count / total, 0.0 if count == 0 else low, 1.0 if count == total else high, count, total)


def wilson(value: float, total: float, quantile: float) -> tuple[float, float]:
    """Return the ends of Wilson's interval for a share of ``total`` texts, given a quantile of its distribution."""
    room = quantile * quantile / total
    middle = (value + room / 2) / (1 + room)
    half = quantile * float(np.sqrt(value * (1 - value) / total + room / (4 * total))) / (1 + room)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def difference(one: Interval, other: Interval) -> Interval:
    """Return by how much one share is larger than another, of other reviews; both as `share` gives them.

    Source: Newcombe, "Interval estimation for the difference between independent proportions", Statistics in Medicine
    1998, method 10.
    """
    value = one.value - other.value
    low = value - float(np.hypot(one.value - one.low, other.high - other.value))
    high = value + float(np.hypot(one.high - one.value, other.value - other.low))
    return Interval(value, low, high)


def chance(count: int, total: int, other_count: int, other_total: int) -> float:
    """Return how likely two shares are to differ as much or more where there is no difference (Fisher's exact test)."""
    both = count + other_count
    cases = np.arange(max(0, both - other_total), min(both, total) + 1)  # that the first share may have

    def log_choose(of: int, chosen: NDArray[np.int64]) -> Floats:
        return np.asarray(special.gammaln(of + 1) - special.gammaln(chosen + 1) - special.gammaln(of - chosen + 1))

    logs = log_choose(total, cases) + log_choose(other_total, both - cases)
    weights = np.exp(logs - logs.max())
    return float(weights[logs <= logs[count - int(cases[0])] + _ROUNDING].sum() / weights.sum())


def holm(chances: Sequence[float]) -> list[float]:
    """Correct `chance` for having looked at many: those below 0.05 are all real differences in 95 % of the cases.

    Source: Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 1979. It
    holds however the comparisons hang together, as the shares of one clustering do.
    """
    order = np.argsort(chances, kind="stable")
    left = np.arange(len(chances), 0, -1)
    grown = np.minimum(1.0, np.maximum.accumulate(np.asarray(chances, dtype=np.float64)[order] * left))
    corrected = np.empty_like(grown)
    corrected[order] = grown
    return [float(value) for value in corrected]


def impact(inside: ArrayLike, outside: ArrayLike) -> Interval | None:
    """Return the mean stars without a group's reviews minus those of all: what the mean would gain were they not there.

    With p the group's share of the rated reviews and d the mean of the others minus that of the group, it is p d. Both
    are estimated apart and nearly independent. The interval is that of their product, p with the Beta distribution of
    Jeffreys' prior, d with the t distribution of Welch, each as equally likely points. Variances are mixed with that of
    all ratings, as if one rating more had it: that three ratings of a group are equal does not mean that all would be.

    Args:
        inside: (n,) the stars of the group's rated reviews.
        outside: (m,) those of the others.

    Returns:
        None where either side has fewer than `LEAST_RATED`.
    """
    ours, theirs = (np.asarray(ratings, dtype=np.float64).ravel() for ratings in (inside, outside))
    if min(len(ours), len(theirs)) < LEAST_RATED:
        return None
    spread = float(np.concatenate([ours, theirs]).var(ddof=1))
    sides = [_uncertainty(ratings, spread) for ratings in (ours, theirs)]
    squared = sum(variance for variance, _ in sides)
    gap = float(theirs.mean() - ours.mean())
    value = gap * len(ours) / (len(ours) + len(theirs))
    if squared == 0:  # all ratings are equal
        return Interval(value, value, value)
    freedom = squared**2 / sum(variance**2 / free for variance, free in sides)
    points = (np.arange(_STEPS) + 0.5) / _STEPS
    shares = special.betaincinv(len(ours) + 0.5, len(theirs) + 0.5, points)
    gaps = gap + special.stdtrit(freedom, points) * np.sqrt(squared)
    low, high = np.quantile(np.outer(shares, gaps), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(value, float(low), float(high))


def _uncertainty(ratings: Floats, spread: float) -> tuple[float, float]:
    """Return the variance of the mean of some ratings (n,), and its degrees of freedom."""
    free = len(ratings) - 1 + _PRIOR
    variance = (float(((ratings - ratings.mean()) ** 2).sum()) + _PRIOR * spread) / free
    return variance / len(ratings), free
