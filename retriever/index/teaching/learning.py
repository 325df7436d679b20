"""Learn a head from examples: ridge regression to the answers, all its settings chosen by leaving examples out.

The answers are coded as the corners of a simplex: 1 for an example's own, -1 / (k - 1) for every other. Rows are
weighed so that every answer has the same say, however many examples it has. A large ridge gives the means of the
answers' examples (prototypes), a small one what sets them apart (a linear discriminant), so one family goes from the
first, which three examples carry, to the second, which fifty do. The one with the least log loss is taken where every
example is left out in turn. For ridge regression that takes one decomposition:

    y_i without i = (h_i y - h_ii y_i) / (1 - h_ii),   H = K (K + a I)^-1

(Allen, "The relationship between variable selection and data augmentation", Technometrics 1974; Rifkin and Lippert,
"Notes on regularized least squares", 2007).

A text's vectors by both encoders are looked at, side by side and with the same say: on questions that the model does
not follow the base encoder's tell most, on those it follows its own. Choosing between them by so few examples does
worse than taking both. The answers' own names are examples too, of half the weight.

How sharply scores become probabilities is chosen by what the new vectors are for: of all triples of an example, one
with its answer and one with another, all left out, the first two should be nearer. Probabilities that are true of an
unsure head are all alike, and would leave everything to the rest of the vector.

Nothing here reads a text or knows an index.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.core.similarity import normalise
from retriever.core.types import Embeddings, Ids
from retriever.index.sources.head import Head, softmax

RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
"""Beside rows whose length is about 1."""

SHARPNESS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
SHARE = 0.8
"""Of the answers in a taught vector."""

NAME_WEIGHT = 0.5
"""Of an answer's own name beside an example's 1."""

FEW, USUAL_SHARPNESS = 15, 2.0
"""With fewer examples than the first, triples tell too little of the sharpness."""

TRIPLES_OF = 400
"""Most examples whose triples are looked at."""

_LEAST_SPREAD = 1e-6
_LEAST_PROBABLE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """The material that a head is learned from.

    Attributes:
        answers: k names.
        labels: (n,) the number of each example's answer.
        vectors: (n, d) the examples' in the view.
        plain: (n, e) theirs in the base view.
        names: (k, d) the answers' own names under the question.
        plain_names: (k, e) and by the base encoder.
        mean: (d,) of the view's vectors.
        plain_mean: (e,) of the base view's.
    """

    answers: Sequence[str]
    labels: Ids
    vectors: Embeddings
    plain: Embeddings
    names: Embeddings
    plain_names: Embeddings
    mean: NDArray[np.float32]
    plain_mean: NDArray[np.float32]

    def part(self, rows: Ids) -> "Lesson":
        """Return the lesson of some of the examples."""
        return replace(self, labels=self.labels[rows], vectors=self.vectors[rows], plain=self.plain[rows])


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a head that examples left out choose.

    Attributes:
        ridge: of the regression, one of `RIDGES`.
        sharpness: one of `SHARPNESS`.
    """

    ridge: float
    sharpness: float


def learn(lesson: Lesson, settings: Settings | None = None) -> Head:
    """Return the head that answers best where examples are left out; every answer needs two of them.

    Settings that were chosen by examples left out elsewhere are taken; None chooses here, leaving out each in turn.
    """
    rows = _rows(lesson)
    return _head(lesson, rows, choose(lesson, _left_out(lesson, rows)) if settings is None else settings)


def choose(lesson: Lesson, scores: Mapping[float, NDArray[np.float64]]) -> Settings:
    """Return the settings that do best, by the scores (n, k) that examples left out get with every ridge."""
    losses = {
        ridge: min(log_loss(softmax(sharpness * logits), lesson.labels) for sharpness in SHARPNESS)
        for ridge, logits in scores.items()
    }
    ridge = min(losses, key=lambda candidate: (round(losses[candidate], 6), -candidate))
    return Settings(ridge, _sharpness(lesson, scores[ridge]))


def scores_by_ridge(lesson: Lesson, tested: Lesson) -> dict[float, NDArray[np.float64]]:
    """Return the scores (m, k) that the heads of a lesson give the examples of another, with every ridge."""
    rows, scores = _rows(lesson), {}
    for ridge in RIDGES:
        head = _head(lesson, rows, Settings(ridge, USUAL_SHARPNESS))
        scores[ridge] = np.asarray(head.scores(tested.vectors, tested.plain), dtype=np.float64)
    return scores


def _head(lesson: Lesson, rows: "_Rows", settings: Settings) -> Head:
    from sklearn.linear_model import Ridge  # loads for a second

    fit = Ridge(settings.ridge, fit_intercept=False).fit(rows.vectors, rows.codes, sample_weight=rows.weights)
    question, plain = np.split(fit.coef_.T, [len(lesson.mean)])  # (d, k), (e, k)
    return Head(
        lesson.answers,
        lesson.mean,
        np.asarray(rows.scales[0] * question, dtype=np.float32),
        lesson.plain_mean,
        np.asarray(rows.scales[1] * plain, dtype=np.float32),
        settings.sharpness,
        SHARE,
    )


def _scale(centred: NDArray[np.float32]) -> float:
    """Return what brings rows (n, d) to length 1 in the root mean square."""
    return 1 / max(float(np.sqrt(np.square(centred).sum(axis=1).mean())), _LEAST_SPREAD)


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """The rows of a regression: the examples, and behind them the answers' names.

    Attributes:
        scales: what both vectors are multiplied by.
        vectors: (n + k, d + e) both vectors less their means, scaled.
        codes: (n + k, k) the corners of the simplex that stand for the answers.
        weights: (n + k,) of the rows.
    """

    scales: tuple[float, float]
    vectors: NDArray[np.float64]
    codes: NDArray[np.float64]
    weights: NDArray[np.float64]


def _rows(lesson: Lesson) -> _Rows:
    scales, k = (_scale(lesson.vectors - lesson.mean), _scale(lesson.plain - lesson.plain_mean)), len(lesson.answers)
    question = scales[0] * (np.concatenate([lesson.vectors, lesson.names]) - lesson.mean)
    plain = scales[1] * (np.concatenate([lesson.plain, lesson.plain_names]) - lesson.plain_mean)
    labels = np.concatenate([lesson.labels, np.arange(k)])
    codes = np.where(labels[:, None] == np.arange(k), 1.0, -1.0 / (k - 1))
    counts = np.bincount(lesson.labels, minlength=k)
    weights = len(lesson.labels) / (k * np.maximum(counts, 1))[lesson.labels]
    vectors = np.concatenate([question, plain], axis=1).astype(np.float64)
    return _Rows(scales, vectors, codes, np.concatenate([weights, np.full(k, NAME_WEIGHT)]))


def _left_out(lesson: Lesson, rows: _Rows) -> dict[float, NDArray[np.float64]]:
    """Return the scores (n, k) that the examples get, each left out in turn, with every ridge."""
    from sklearn.linear_model import RidgeCV

    search = RidgeCV(RIDGES, fit_intercept=False, scoring="r2", store_cv_results=True)  # the scoring keeps the scores
    scores = search.fit(rows.vectors, rows.codes, sample_weight=rows.weights).cv_results_[: len(lesson.labels)]
    return {ridge: scores[:, :, number] for number, ridge in enumerate(RIDGES)}


def _sharpness(lesson: Lesson, scores: NDArray[np.float64]) -> float:
    """Return the sharpness at which most triples of examples come right, by the scores (n, k) of those left out.

    Of several that do equally well it is the one with the least log loss.
    """
    if len(scores) < FEW:
        return USUAL_SHARPNESS
    rows = np.random.default_rng(0).permutation(len(scores))[:TRIPLES_OF]
    labels, rest = lesson.labels[rows], normalise(lesson.vectors[rows] - lesson.mean)
    beside = (1 - SHARE) * rest @ rest.T

    def rank(sharpness: float) -> tuple[float, float]:
        probable = softmax(sharpness * scores[rows])
        answers = np.sqrt(probable)
        right = triples_right(SHARE * answers @ answers.T + beside, labels)
        return -round(right, 3), log_loss(probable, labels)

    return min(SHARPNESS, key=rank)


def log_loss(probable: NDArray[np.float32], labels: Ids) -> float:
    """Return the log loss of probabilities (n, k), every answer having the same say."""
    counts = np.bincount(labels)
    losses = -np.log(np.maximum(probable[np.arange(len(labels)), labels], _LEAST_PROBABLE))
    return float((losses / counts[labels]).sum() / np.count_nonzero(counts))


def triples_right(cosines: NDArray[np.floating[Any]], labels: Ids) -> float:
    """Return the share of triples of a row, one with its label and one with another whose first two are nearer.

    The rows have cosines (n, n) and labels (n,). Every label has the same say; equal cosines count as half.
    """
    shares: dict[int, list[float]] = {}
    for row, label in enumerate(labels.tolist()):
        same = labels == label
        same[row] = False
        ours, others = cosines[row][same], np.sort(cosines[row][labels != label])
        if len(ours) and len(others):
            below = np.searchsorted(others, ours, "left") + np.searchsorted(others, ours, "right")
            shares.setdefault(label, []).append(float(below.mean()) / (2 * len(others)))
    return float(np.mean([np.mean(label_shares) for label_shares in shares.values()])) if shares else 0.5
