"""Fine-tune the base encoder for one question, and keep that only where it helps with examples it did not see.

On questions that the model does not follow, a head on vectors made without them goes only so far. The base encoder is
small enough to be fine-tuned on a few examples in seconds: once without each of a few folds of them, to see what that
brings, and once on all.

The examples that an encoder was tuned on lie where they should, whatever it makes of others. So the head's settings are
chosen by those left out of the folds as well.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from retriever.core.protocols import Encoder, Tuning
from retriever.core.types import Ids
from retriever.index.sources.head import softmax
from retriever.index.teaching.learning import RIDGES, Lesson, Settings, choose, learn, scores_by_ridge
from retriever.index.teaching.scoring import HeldOut, folds, nearest_mean, scored

STEPS = 30
"""Of one fine-tuning."""
FOLDS = 3

_ROUNDING = 1e-9  # one example lost alone is its standard error exactly

OnSteps = Callable[[int, int], None]
"""Called with steps done and steps there are; what it raises ends the fine-tuning."""


@dataclass(frozen=True, slots=True, eq=False)
class Tried:
    """The outcome of fine-tuning a base encoder.

    Attributes:
        tuning: what it changes of the encoder, learned from all examples; None where it does not help.
        settings: of the head on top.
        score: over examples left out, with encoder, head and settings of the others.
    """

    tuning: Tuning | None
    settings: Settings
    score: HeldOut


def try_tuning(
    base: Encoder, texts: Sequence[str], names: Sequence[str], lesson: Lesson, on_steps: OnSteps | None = None
) -> Tried:
    """Fine-tune a base encoder on a lesson's examples, and tell whether that helps with those it did not see.

    It is refused where clearly fewer examples left out are answered rightly: by more than a standard error of the
    difference. By so few examples a stricter rule refuses fine-tunings that help with other texts. There is a text of
    each of n examples, and a name of each of k answers.

    Raises:
        EncoderError: the base encoder cannot be fine-tuned.
    """
    labels, k = lesson.labels, len(lesson.answers)
    parts = list(folds(labels, most=FOLDS))
    done, total = 0, STEPS * (len(parts) + 1)

    def count() -> None:
        nonlocal done
        done += 1
        if on_steps is not None:
            on_steps(done, total)

    def tuned(rows: Ids) -> Tuning:
        return base.tune([texts[row] for row in rows], labels[rows], steps=STEPS, on_step=count)

    before = np.zeros(len(labels))
    untuned = np.zeros((len(labels), k), np.float32)
    scores = {ridge: np.zeros((len(labels), k)) for ridge in RIDGES}
    for tested in parts:
        known = np.setdiff1d(np.arange(len(labels)), tested)
        taught, left_out = lesson.part(known), lesson.part(tested)
        before[tested] = nearest_mean(taught, left_out, k) == labels[tested]
        untuned[tested] = learn(taught).probabilities(left_out.vectors, left_out.plain)
        again = _reread(lesson, base.tuned(tuned(known)), texts, names)
        for ridge, logits in scores_by_ridge(again.part(known), again.part(tested)).items():
            scores[ridge][tested] = logits
    probable = _probable(lesson, scores, parts)
    without, right = ((probabilities.argmax(axis=1) == labels).astype(float) for probabilities in (untuned, probable))
    tuning = None if _clearly_fewer(right - without) else tuned(np.arange(len(labels)))
    return Tried(tuning, choose(lesson, scores), scored(before, right, labels, k))


def _clearly_fewer(more: NDArray[np.float64]) -> bool:
    """Return whether the mean of differences (n,) is below nought by more than its standard error."""
    return bool(more.mean() + more.std(ddof=1) / len(more) ** 0.5 < -_ROUNDING)


def _probable(lesson: Lesson, scores: Mapping[float, NDArray[np.float64]], parts: Sequence[Ids]) -> NDArray[np.float32]:
    """Return how probable examples' answers are (n, k), with settings that are chosen without the fold of each."""
    probable = np.zeros((len(lesson.labels), len(lesson.answers)), np.float32)
    for tested in parts:
        known = np.setdiff1d(np.arange(len(lesson.labels)), tested)
        settings = choose(lesson.part(known), {ridge: logits[known] for ridge, logits in scores.items()})
        probable[tested] = softmax(settings.sharpness * scores[settings.ridge][tested])
    return probable


def _reread(lesson: Lesson, encoder: Encoder, texts: Sequence[str], names: Sequence[str]) -> Lesson:
    """Return a lesson with its examples and the answers' names read by another base encoder."""
    plain = encoder.encode(texts)
    return replace(lesson, plain=plain, plain_names=encoder.encode(names), plain_mean=plain.mean(axis=0))
