"""Predict the answers of texts that were not read from their stored vectors, and test whether that is worth anything.

Texts that were read are dealt into folds, and every fold is predicted by a model of the others; a text that was not
read by the mean of all models. So no text is predicted by a model that saw its answer, as the estimates need it
(Zrnic and Candès, "Cross-prediction-powered inference", PNAS 2024). A model is a ridge regression of each answer's
indicator, whose penalty is chosen by leave-one-out error: it minimises the squared error, which is the variance of the
estimates, and a rare answer that vectors say nothing of shrinks to its share.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from retriever.clusters.arithmetic.estimates import Estimate, Outcome, answer_difference, share
from retriever.clusters.arithmetic.sampling import Floats, Sample
from retriever.core.contexts import single_threaded

Answers = NDArray[np.int64]
"""(n,) number of a text's answer, from 0 on; `UNREAD` where there is none."""

UNREAD = -1
FOLDS = 5
LEAST_READ = 20
"""Texts that must have been read for anything to be predicted."""

_PENALTIES = np.logspace(-3, 3, 13)
_FOLDS_OF = 0xF0  # keeps folds apart from other uses of one seed


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """Predicted answers of all texts of a corpus.

    Attributes:
        probabilities: (n, classes) of every answer; rows come to 1.
    """

    probabilities: Floats


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often predictions agree with answers that the models did not see, over the corpus.

    Attributes:
        predicted: the share of texts that the likeliest answer is right for.
        commonest: the share of the commonest answer, right for as many where it is said of all.
        gain: by how much the first is larger.
    """

    predicted: Estimate
    commonest: Estimate
    gain: Estimate

    @property
    def better(self) -> bool:
        """Whether prediction is surely better than the commonest answer; where it is not, use the sample alone."""
        return self.gain.interval is not None and self.gain.interval.low > 0


def predict(vectors: Sequence[ArrayLike], answers: Answers, classes: int, *, seed: int = 0) -> Prediction | None:
    """Return cross-fitted probabilities of all texts; the same for the same seed.

    Args:
        vectors: blocks (n, dim), as one view each; all weigh the same, whatever their lengths.
        answers: (n,) of the texts that were read, in the sample or not.
        classes: how many answers there are.
        seed: of the folds.

    Returns:
        None where there are no vectors, fewer than `LEAST_READ` texts were read, or all have the same answer: nothing
        can be learned.
    """
    read = np.flatnonzero(answers != UNREAD)
    if not vectors or len(read) < LEAST_READ or len(np.unique(answers[read])) == 1:
        return None
    rows = np.hstack([_scaled(np.asarray(block, dtype=np.float32)) for block in vectors])
    folds = np.random.default_rng((_FOLDS_OF, seed)).permutation(len(read)) % FOLDS
    truth = np.eye(classes)[answers[read]]
    together, apart = np.zeros((len(answers), classes)), np.zeros((len(read), classes))
    with single_threaded():
        for fold in range(FOLDS):
            inside = folds == fold
            scores = _scores(rows[read[~inside]], truth[~inside], rows)
            together += scores / FOLDS
            apart[inside] = scores[read[inside]]
    together[read] = apart
    return Prediction(_probabilities(together))


def agreement(prediction: Prediction, answers: Answers, sample: Sample) -> Agreement:
    """Return how often the likeliest answers are right, estimated from the sample alone, with 95 % intervals.

    Args:
        prediction: of n texts, as `predict` made it from ``answers``.
        answers: (n,) of the texts that were read.
        sample: of the same texts; those read beside it do not count.
    """
    counts = np.bincount(answers[sample.drawn], minlength=prediction.probabilities.shape[1])
    right = Outcome((prediction.probabilities.argmax(axis=1) == answers).astype(np.float64))
    commonest = Outcome((answers == counts.argmax()).astype(np.float64))
    return Agreement(share(right, sample), share(commonest, sample), answer_difference(right, commonest, sample))


def outcome(answers: Answers, category: int, prediction: Prediction | None = None) -> Outcome:
    """Return which texts have an answer, with its predicted probability where something is predicted.

    Pass no prediction where `Agreement.better` says that it is no better than the commonest answer.
    """
    predicted = None if prediction is None else prediction.probabilities[:, category]
    return Outcome((answers == category).astype(np.float64), predicted)


def _scaled(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a block of vectors (n, dim) about its mean, with a mean squared length of 1."""
    centred: NDArray[np.float32] = rows - rows.mean(axis=0)
    size = float(np.sqrt(np.mean(np.sum(centred.astype(np.float64) ** 2, axis=1))))
    return np.asarray(centred / np.float32(size)) if size > 0 else centred


def _scores(rows: NDArray[np.float32], truth: Floats, everything: NDArray[np.float32]) -> Floats:
    """Return scores (n, classes) of all rows by a model of some rows and their indicators (m, classes)."""
    from sklearn.linear_model import RidgeCV

    model = RidgeCV(alphas=_PENALTIES, alpha_per_target=True).fit(rows.astype(np.float64), truth)
    scores: Floats = everything @ model.coef_.T.astype(np.float32) + model.intercept_
    return scores


def _probabilities(scores: Floats) -> Floats:
    """Return scores (n, classes) cut to 0 and more and scaled to a sum of 1; equal where all are 0."""
    cut = np.clip(scores, 0.0, 1.0)
    sums = cut.sum(axis=1, keepdims=True)
    scaled: Floats = np.where(sums > 0, cut / np.maximum(sums, np.finfo(np.float64).tiny), 1 / scores.shape[1])
    return scaled
