"""How well a taught question is answered, by examples that the head did not see: nested cross-validation.

In every fold all settings are chosen anew from the other examples, so that no choice has seen what it is judged by.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from retriever.core.lessons import Held
from retriever.core.similarity import normalise
from retriever.core.types import Ids
from retriever.index.teaching.learning import Lesson, learn

FOLDS = 5
"""Most of them."""
FEW, REPEATS = 100, 3
"""With fewer examples than the first, the folds are drawn as often as the second and the results averaged."""

MANY = 1000
"""With more examples, one fold of them says enough."""

_DRAWS = 4000
_LEVELS = (2.5, 97.5)


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Scores over examples that were left out.

    Attributes:
        before: each gets the answer whose other examples' mean is nearest in the untaught view.
        after: each gets the answer that the head gives.
        examples: how many were left out at some time.
        right: (k,) of each answer's examples, how many the head answers rightly, the mean of all repeats.
    """

    before: Held
    after: Held
    examples: int
    right: tuple[float, ...]


def held_out_score(lesson: Lesson, *, seed: int = 0) -> HeldOut:
    """Return how well examples are answered that were left out, before and after; every answer needs two."""
    n, k = len(lesson.labels), len(lesson.answers)
    before, after, times = np.zeros(n), np.zeros(n), np.zeros(n)
    for repeat in range(REPEATS if n < FEW else 1):
        for tested in islice(folds(lesson.labels, seed=seed + repeat), 1 if n > MANY else None):
            times[tested] += 1
            known = np.setdiff1d(np.arange(n), tested)
            taught, left_out = lesson.part(known), lesson.part(tested)
            right = left_out.labels
            before[tested] += nearest_mean(taught, left_out, k) == right
            after[tested] += learn(taught).probabilities(left_out.vectors, left_out.plain).argmax(axis=1) == right
    rows = np.flatnonzero(times)
    return scored(before[rows] / times[rows], after[rows] / times[rows], lesson.labels[rows], k, seed)


def scored(before: NDArray[np.float64], after: NDArray[np.float64], labels: Ids, k: int, seed: int = 0) -> HeldOut:
    """Return the scores over examples (n,) that were left out, by how often each was answered rightly, 0 to 1."""
    held = [balanced(right, labels, k, seed) for right in (before, after)]
    right = tuple(np.bincount(labels, weights=after, minlength=k).tolist())
    return HeldOut(held[0], held[1], len(labels), right)


def folds(labels: Ids, *, seed: int = 0, most: int = FOLDS) -> Iterator[Ids]:
    """Yield the rows of every fold, ascending; the examples of an answer are spread evenly over the folds."""
    fewest = int(np.bincount(labels)[np.unique(labels)].min())
    count = max(2, min(most, fewest))
    generator, fold = np.random.default_rng(seed), np.empty(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        rows = generator.permutation(np.flatnonzero(labels == label))
        fold[rows] = (np.arange(len(rows)) + generator.integers(count)) % count
    for number in range(count):
        yield np.flatnonzero(fold == number)


def nearest_mean(taught: Lesson, tested: Lesson, k: int) -> Ids:
    """Return the answers (n,) whose examples' mean has the largest cosine with a text in the untaught view."""
    means = np.stack([taught.vectors[taught.labels == number].mean(axis=0) for number in range(k)])
    return np.asarray((tested.vectors @ normalise(means).T).argmax(axis=1))


def balanced(right: NDArray[np.float64], labels: Ids, k: int, seed: int) -> Held:
    """Return the balanced accuracy of shares (n,) of right answers.

    Its interval is that of the mean of the answers' recalls, each a Beta(right + 1/2, wrong + 1/2).
    """
    counts = np.bincount(labels, minlength=k).astype(float)
    sums = np.bincount(labels, weights=right, minlength=k)
    generator = np.random.default_rng(seed)
    drawn = generator.beta(sums + 0.5, counts - sums + 0.5, size=(_DRAWS, k)).mean(axis=1)
    value = float((sums / np.maximum(counts, 1)).mean())
    low, high = np.percentile(drawn, _LEVELS).tolist()
    return Held(value, min(low, value), max(high, value))
