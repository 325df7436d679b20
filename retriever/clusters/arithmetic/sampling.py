"""Choose which texts of a corpus to read, and weight those that were read.

A sample is drawn in rounds. What earlier rounds drew, and what searches read before a round, is known when the round
is drawn; the round draws from the rest with chances that may depend on all that is known. So every round gives an
estimate of its own (what is known, plus what the drawn texts say of the rest) that is unbiased given the rounds before,
and errors of two rounds are uncorrelated (Des Raj, "Some estimators in sampling with varying probabilities without
replacement", JASA 1956). `weigh` puts these estimates together. A sample therefore grows, from 300 texts to 600, and
nothing that was read is lost or read twice.

This module knows positions of texts and chances; it knows nothing of what was answered.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

UNIFORM = 100
"""Of these, texts of the first round, which is drawn uniformly: there is nothing yet to predict by."""
EVEN_SHARE = 0.5
"""Share of every later round that is spread evenly over all texts, however sure their prediction."""

_DRAW = 0x5A  # keeps draws apart from other uses of one seed


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Which texts were drawn, when, and how likely that was.

    Attributes:
        rounds: (n,) the round from 1 on in which a text came into the sample; 0 where it is not in it.
        chances: (n,) its probability of being drawn in that round, given the rounds before; 1 for a text that a search
            had read before the round, 0 for one that is not in the sample.
    """

    rounds: NDArray[np.int64]
    chances: Floats

    @classmethod
    def empty(cls, texts: int) -> "Sample":
        """Return the sample of ``texts`` texts of which none is drawn."""
        return cls(np.zeros(texts, dtype=np.int64), np.zeros(texts))

    @property
    def last(self) -> int:
        """The number of rounds so far."""
        return int(self.rounds.max(initial=0))

    @property
    def random(self) -> Mask:
        """(n,) which texts are in the sample by chance."""
        return (self.rounds > 0) & (self.chances < 1)


@dataclass(frozen=True, slots=True)
class Round:
    """How one round counts in an estimate.

    Attributes:
        rows: (m,) the texts that it drew by chance and that were read.
        weights: (m,) how many of the texts that were unknown then each of them stands for.
        share: the round's share of the combined estimate; the shares of all rounds come to 1.
    """

    rows: NDArray[np.int64]
    weights: Floats
    share: float


@dataclass(frozen=True, slots=True)
class Weights:
    """How texts that were read count.

    Attributes:
        texts: (n,) how many texts each stands for; 0 where it does not count. They come to n.
        random: (n,) which of those that count were drawn by chance.
        rounds: the rounds that count.
    """

    texts: Floats
    random: Mask
    rounds: Sequence[Round]


def draw(
    sample: Sample, size: int, *, known: Mask | None = None, unsure: Floats | None = None, seed: int = 0
) -> Sample:
    """Return a sample with a round more, of exactly ``size`` texts or all that are left; the same for the same seed.

    The texts are drawn by systematic sampling from a random order, so every text has exactly its chance, and with equal
    chances it is simple random sampling. Sources: Madow, "On the theory of systematic sampling II", 1949; Hartley and
    Rao, "Sampling with unequal probabilities and without replacement", 1962. Chances are
    (1 - `EVEN_SHARE`) active + `EVEN_SHARE` uniform, the active ones proportional to ``unsure`` (Zrnic and Candès,
    "Active statistical inference", 2024).

    Args:
        sample: of the rounds before.
        size: how many texts to draw; those that searches read do not count.
        known: (n,) texts whose answers are known already, as from searches; they come in with a chance of 1.
        unsure: (n,) how far off the prediction of a text is expected to be, 0 or more; None draws uniformly. It may
            depend on all answers known so far.
        seed: of the whole sample; every round has its own numbers.
    """
    outside = sample.rounds == 0
    stratum = outside & known if known is not None else np.zeros_like(outside)
    pool = np.flatnonzero(outside & ~stratum)
    chances = _chances(np.ones(len(pool)) if unsure is None else unsure[pool], min(size, len(pool)))
    number = sample.last + 1
    drawn = _systematic(chances, np.random.default_rng((_DRAW, seed, number)))
    rounds, kept = sample.rounds.copy(), sample.chances.copy()
    rounds[stratum], kept[stratum] = number, 1.0
    rounds[pool[drawn]], kept[pool[drawn]] = number, chances[drawn]
    return Sample(rounds, kept)


def weigh(sample: Sample, read: Mask) -> Weights:
    """Return how the texts count that are in the sample and were read.

    Within a round the weights 1 / chance are scaled to the number of texts that were unknown (Hájek, 1971). That is
    also how failed readings are treated: a text that was drawn and not read stays unknown, and the texts of its round
    that were read stand for it. It is assumed that they would have been answered alike. A round's share is that of its
    precision under uniform draws, which no answer has an influence on; a round that read all that was left has all.

    Args:
        sample: of n texts.
        read: (n,) which have an answer; those outside the sample do not count.
    """
    counted = read & (sample.rounds > 0)
    certain = counted & (sample.chances >= 1)
    knowns = [
        counted & ((sample.rounds < number) | (certain & (sample.rounds == number)))
        for number in range(1, sample.last + 1)
    ]
    drawn = [np.flatnonzero(counted & ~certain & (sample.rounds == number)) for number in range(1, sample.last + 1)]
    populations = [len(read) - int(known.sum()) for known in knowns]
    shares = _shares([len(rows) for rows in drawn], populations)
    texts = np.zeros(len(read))
    rounds = []
    for rows, known, population, share in zip(drawn, knowns, populations, shares, strict=True):
        if share == 0:
            continue
        weights = 1 / sample.chances[rows]
        weights *= population / max(weights.sum(), 1)
        texts[known] += share
        texts[rows] += share * weights
        rounds.append(Round(rows, weights, share))
    return Weights(texts, counted & ~certain, rounds)


def _shares(drawn: Sequence[int], populations: Sequence[int]) -> list[float]:
    """Return each round's share of the combined estimate, by how many texts it drew from how many; all 0 of none."""
    complete = [count == population for count, population in zip(drawn, populations, strict=True)]
    if any(complete):  # the first round that leaves nothing unknown
        return [float(number == complete.index(True)) for number in range(len(drawn))]
    precisions = [
        count / (population * (population - count)) for count, population in zip(drawn, populations, strict=True)
    ]
    total = sum(precisions)
    return [precision / total if total else 0.0 for precision in precisions]


def _chances(unsure: Floats, size: int) -> Floats:
    """Return chances (m,) that come to ``size``: half even, half in proportion to ``unsure``, none above 1."""
    even = np.full(len(unsure), size / max(len(unsure), 1))
    return np.minimum(1.0, EVEN_SHARE * even + (1 - EVEN_SHARE) * _proportional(unsure, size))


def _proportional(unsure: Floats, size: int) -> Floats:
    """Return chances (m,) in proportion to ``unsure``, those that would be above 1 set to 1; equal where all are 0."""
    chances = np.zeros(len(unsure))
    free = np.ones(len(unsure), dtype=bool)
    while free.any():
        left, total = size - np.sum(~free), unsure[free].sum()
        chances[free] = unsure[free] * (left / total) if total > 0 else left / free.sum()
        above = free & (chances >= 1)
        chances[above] = 1.0
        if not above.any():
            break
        free &= ~above
    return chances


def _systematic(chances: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the positions drawn, ascending; each has exactly its chance, and there are as many as these sum to."""
    order = rng.permutation(len(chances))
    ends = np.cumsum(chances[order])
    if len(ends):
        ends *= round(float(ends[-1])) / ends[-1] if ends[-1] > 0 else 1  # the sum is a whole number but for rounding
    steps = np.floor(ends + rng.random())
    taken = np.diff(steps, prepend=0.0) > 0
    return np.sort(order[taken])
