"""Learn a head from examples: ridge regression to the answers, all its settings chosen by leaving examples out.

The answers are coded as the corners of a simplex: 1 for an example's own, -1 / (k - 1) for every other. Rows are
weighed so that every answer has the same say, however many examples it has. A large ridge gives the means of the
answers' examples (prototypes), a small one what sets them apart (a linear discriminant), so one family goes from the
first, which three examples carry, to the second, which fifty do. Which vectors are looked at (those under the
question, the plain reader's, both), the ridge and the sharpness are those with the least log loss where every example
is left out in turn. For ridge regression that takes one decomposition:

    y_i without i = (h_i y - h_ii y_i) / (1 - h_ii),   H = K (K + a I)^-1

(Allen, "The relationship between variable selection and data augmentation", Technometrics 1974; Rifkin and Lippert,
"Notes on regularized least squares", 2007).

Nothing here reads a text or knows an index.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from retriever.core.types import Embeddings, Ids
from retriever.index.teaching.head import Head, softmax

RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
"""Beside rows whose length is about 1."""

SHARPNESS = (1.0, 2.0, 3.0, 5.0, 8.0, 12.0)
SHARE = 0.8
"""Of the answers in a taught vector."""

NAME_WEIGHT = 0.5
"""Of an answer's own name beside an example's 1."""

_LEAST_SPREAD = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """The material that a head is learned from.

    Attributes:
        answers: k names.
        labels: (n,) the number of each example's answer.
        vectors: (n, d) the examples' in the view.
        plain: (n, e) theirs in the base view; None where there is no other.
        names: (k, d) the answers' own names under the question; None where they are not known.
        plain_names: (k, e) and by the plain reader.
        mean: (d,) of the view's vectors.
        plain_mean: (e,) of the base view's.
    """

    answers: Sequence[str]
    labels: Ids
    vectors: Embeddings
    plain: Embeddings | None
    names: Embeddings | None
    plain_names: Embeddings | None
    mean: NDArray[np.float32]
    plain_mean: NDArray[np.float32] | None

    def part(self, rows: Ids) -> "Lesson":
        """Return the lesson of some of the examples."""
        plain = None if self.plain is None else self.plain[rows]
        return replace(self, labels=self.labels[rows], vectors=self.vectors[rows], plain=plain)


@dataclass(frozen=True, slots=True, eq=False)
class _Features:
    """What is looked at: rows less their mean, each part scaled to length 1 in the root mean square.

    Attributes:
        name: question, plain or both.
        rows: (n, D) the examples'.
        names: (m, D) the answers' own names'; none where they are not known.
        scales: of the view's vectors and of the base view's; 0 for what is not looked at.
    """

    name: str
    rows: NDArray[np.float64]
    names: NDArray[np.float64]
    scales: tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Choice:
    """Settings, and their log loss over the examples left out."""

    loss: float
    features: int
    ridge: float
    sharpness: float


def learn(lesson: Lesson) -> Head:
    """Return the head that answers best where examples are left out; every answer needs two of them."""
    features = list(_features(lesson))
    choice = min((one for place, each in enumerate(features) for one in _left_out(lesson, each, place)), key=_order)
    chosen = features[choice.features]
    weights = _weights(lesson, chosen, choice.ridge)  # (D, k)
    d = len(lesson.mean) if chosen.scales[0] else 0
    question = np.zeros((len(lesson.mean), len(lesson.answers)), dtype=np.float32)
    if d:
        question = (chosen.scales[0] * weights[:d]).astype(np.float32)
    plain_mean = np.empty(0, dtype=np.float32)
    plain = np.empty((0, len(lesson.answers)), dtype=np.float32)
    if chosen.scales[1] and lesson.plain_mean is not None:
        plain_mean, plain = lesson.plain_mean, (chosen.scales[1] * weights[d:]).astype(np.float32)
    return Head(lesson.answers, lesson.mean, question, plain_mean, plain, choice.sharpness, SHARE)


def _order(choice: _Choice) -> tuple[float, float]:
    return round(choice.loss, 6), -choice.ridge


def _features(lesson: Lesson) -> Iterator[_Features]:
    """Yield what can be looked at."""
    question = _scaled(lesson.vectors, lesson.names, lesson.mean)
    yield _Features("question", question[0], question[1], (question[2], 0.0))
    if lesson.plain is None or lesson.plain_mean is None:
        return
    plain = _scaled(lesson.plain, lesson.plain_names, lesson.plain_mean)
    yield _Features("plain", plain[0], plain[1], (0.0, plain[2]))
    both = np.concatenate([question[0], plain[0]], axis=1)
    names = np.concatenate([question[1], plain[1]], axis=1)
    yield _Features("both", both, names, (question[2], plain[2]))


def _scaled(
    vectors: Embeddings, names: Embeddings | None, mean: NDArray[np.float32]
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    centred = (vectors - mean).astype(np.float64)
    scale = 1 / max(float(np.sqrt(np.square(centred).sum(axis=1).mean())), _LEAST_SPREAD)
    named = np.empty((0, vectors.shape[1])) if names is None else (names - mean).astype(np.float64)
    return scale * centred, scale * named, scale


def _codes(labels: Ids, k: int) -> NDArray[np.float64]:
    """Return the corners of the simplex that stand for some answers, (n, k)."""
    return np.where(labels[:, None] == np.arange(k), 1.0, -1.0 / (k - 1))


@dataclass(frozen=True, slots=True, eq=False)
class _Regression:
    """A weighted regression, decomposed once for every ridge.

    Attributes:
        roots: (n + m,) of the rows' weights; the names stand behind the examples.
        targets: (n + m, k) the codes times the roots.
        rows: (n + m, D) the rows times the roots.
        left: (n + m, r) left singular vectors of the rows.
        squares: (r,) their singular values squared.
    """

    roots: NDArray[np.float64]
    targets: NDArray[np.float64]
    rows: NDArray[np.float64]
    left: NDArray[np.float64]
    squares: NDArray[np.float64]


def _regression(lesson: Lesson, features: _Features) -> _Regression:
    k, m = len(lesson.answers), len(features.names)
    counts = np.bincount(lesson.labels, minlength=k)
    weights = len(lesson.labels) / (k * np.maximum(counts, 1))[lesson.labels]
    roots = np.sqrt(np.concatenate([weights, np.full(m, NAME_WEIGHT)]))
    labels = np.concatenate([lesson.labels, np.arange(m)])
    rows = roots[:, None] * np.concatenate([features.rows, features.names])
    if rows.shape[0] <= rows.shape[1]:
        squares, left = np.linalg.eigh(rows @ rows.T)
    else:
        squares, right = np.linalg.eigh(rows.T @ rows)
        kept = squares > 1e-9 * squares[-1]
        squares, left = squares[kept], (rows @ right[:, kept]) / np.sqrt(squares[kept])
    return _Regression(roots, roots[:, None] * _codes(labels, k), rows, left, np.maximum(squares, 0.0))


def _left_out(lesson: Lesson, features: _Features, place: int) -> Iterator[_Choice]:
    """Yield every ridge and sharpness with its loss over the examples, each left out in turn."""
    found, n = _regression(lesson, features), len(lesson.labels)
    projected = found.left.T @ found.targets  # (r, k)
    counts = np.bincount(lesson.labels, minlength=len(lesson.answers))
    share = 1 / (counts[lesson.labels] * np.count_nonzero(counts))
    for ridge in RIDGES:
        kept = found.squares / (found.squares + ridge)  # (r,)
        fitted = (found.left * kept) @ projected  # (n + m, k)
        own = (np.square(found.left) @ kept)[:, None]  # (n + m, 1)
        scores = ((fitted - own * found.targets) / np.maximum(1 - own, 1e-9) / found.roots[:, None])[:n]
        for sharpness in SHARPNESS:
            probable = softmax(sharpness * scores)[np.arange(n), lesson.labels]
            yield _Choice(float(-(share * np.log(np.maximum(probable, 1e-9))).sum()), place, ridge, sharpness)


def _weights(lesson: Lesson, features: _Features, ridge: float) -> NDArray[np.float64]:
    """Return the map (D, k) from features to scores."""
    found = _regression(lesson, features)
    # (A^T A + a I)^-1 A^T y = A^T U (S + a I)^-1 U^T y; what U does not span, A^T takes to zero
    solved = found.left @ ((found.left.T @ found.targets) / (found.squares + ridge)[:, None])
    return np.asarray(found.rows.T @ solved)
