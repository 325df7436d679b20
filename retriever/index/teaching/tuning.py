"""Fine-tune the plain reader for one question, and keep that only where it helps with examples it did not see.

On questions that the model does not follow, a head on vectors made without them goes only so far. The plain reader is
small enough to be fine-tuned on a few examples in seconds: once without each of a few folds of them, to see what that
brings, and once on all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from retriever.core.encoder import Encoder, Tuning
from retriever.core.types import Ids
from retriever.index.teaching.learning import Lesson, learn, log_loss
from retriever.index.teaching.scoring import HeldOut, balanced, folds, nearest_mean

STEPS = 30
"""Of one fine-tuning."""
FOLDS = 3

OnSteps = Callable[[int, int], None]
"""Called with steps done and steps there are; what it raises ends the fine-tuning."""


@dataclass(frozen=True, slots=True, eq=False)
class Tried:
    """What came of fine-tuning a plain reader.

    Attributes:
        tuning: what it changes of the reader, learned from all examples; None where it does not help.
        score: over examples left out, with the reader tuned on the others; of no use where ``tuning`` is None.
    """

    tuning: Tuning | None
    score: HeldOut


@dataclass(frozen=True, slots=True, eq=False)
class _LeftOut:
    """What a head says of examples left out: (n,) whether it is right, (n, k) how probable it calls each answer."""

    right: np.ndarray
    probable: np.ndarray


def try_tuning(base: Encoder, texts: Sequence[str], lesson: Lesson, on_steps: OnSteps | None = None) -> Tried:
    """Fine-tune a plain reader on examples, and tell whether that helps with those it did not see.

    It is kept unless both speak against it: fewer examples left out are answered rightly, and their own answers are
    called less probable. By so few examples either alone refuses fine-tunings that help with other texts.

    Args:
        base: the plain reader, which stays as it is.
        texts: n of the examples.
        lesson: theirs, with vectors by ``base``.
        on_steps: called after every step.

    Raises:
        EncoderError: the plain reader cannot be fine-tuned.
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
    plain, other = (_LeftOut(np.zeros(len(labels)), np.zeros((len(labels), k), np.float32)) for _ in range(2))
    for tested in parts:
        known = np.setdiff1d(np.arange(len(labels)), tested)
        before[tested] = nearest_mean(lesson.part(known), lesson.part(tested), k) == labels[tested]
        again = reread(lesson, base.tuned(tuned(known)), texts)
        for one, found in ((lesson, plain), (again, other)):
            asked = one.part(tested)
            found.probable[tested] = learn(one.part(known)).probabilities(asked.vectors, asked.plain)
            found.right[tested] = found.probable[tested].argmax(axis=1) == asked.labels
    scores = [balanced(one, labels, k, 0) for one in (before, other.right, plain.right)]
    worse = scores[1].value < scores[2].value
    less_sure = log_loss(other.probable, labels) > log_loss(plain.probable, labels)
    tuning = None if worse and less_sure else tuned(np.arange(len(labels)))
    return Tried(tuning, HeldOut(scores[0], scores[1], len(labels)))


def reread(lesson: Lesson, encoder: Encoder, texts: Sequence[str]) -> Lesson:
    """Return a lesson with its examples and the answers' names read by another plain reader."""
    plain = encoder.encode(texts)
    return replace(lesson, plain=plain, plain_names=encoder.encode(list(lesson.answers)), plain_mean=plain.mean(axis=0))
