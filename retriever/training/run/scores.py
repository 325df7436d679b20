"""Judge a fine-tuning: by a task made of the rows it did not see and by a general score, with the verdict on both.

Any rows of questions and answers can be measured with: where answers repeat, by triplets of texts, else by finding a
row's own answer.
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from retriever.core.errors import InputError
from retriever.core.protocols import Encoder
from retriever.evaluation.asked import encode_each
from retriever.evaluation.metrics import triplet_successes
from retriever.evaluation.scores import PERCENT, Difference, Score, difference, mean_score
from retriever.training.row_negatives import embed_queries
from retriever.training.rows import TrainingRow, normalise_answer

MOST_ITEMS = 500  # triplets, or rows whose answer is looked for
LEAST_TRIPLETS = 20
ALLOWED_LOSS = 1.0  # points of the general score


@dataclass(frozen=True, slots=True)
class RowTriplet:
    """A held-out row, a text with its answer to its question, and a text with another answer to it."""

    anchor: TrainingRow
    same: str
    other: str


@dataclass(frozen=True, slots=True)
class TripletTask:
    """The share of triplets whose anchor is nearer to the text with the same answer, all read under its question."""

    triplets: Sequence[RowTriplet]

    def measure(self, encoder: Encoder, *, seed: int) -> Score:
        """Return the share in percent; chance is 50."""
        texts = [text for one in self.triplets for text in (one.anchor.text, one.same, one.other)]
        asked = [one.anchor.instruction for one in self.triplets for _ in range(3)]
        vectors = encode_each(encoder, texts, asked).reshape(len(self.triplets), 3, -1)
        won = triplet_successes(vectors[:, 0], vectors[:, 1], vectors[:, 2])
        return mean_score("held-out triplets", "successes", won, seed=seed, scale=PERCENT, headline=True)


@dataclass(frozen=True, slots=True)
class AnswerTask:
    """The mean reciprocal rank of a row's own answer among all distinct held-out answers.

    Queries are texts under their questions, answers are read under the default instruction. Of equal cosines the own
    answer comes last.

    Attributes:
        own: the place of every row's answer among them.
        right: the places of all answers that are right for every row; the others of them do not count.
    """

    rows: Sequence[TrainingRow]
    answers: Sequence[str]
    own: Sequence[int]
    right: Sequence[frozenset[int]]

    def measure(self, encoder: Encoder, *, seed: int) -> Score:
        """Return the mean reciprocal rank in percent."""
        cosines = embed_queries(self.rows, encoder) @ encoder.encode(self.answers).T  # (rows, answers)
        found = np.empty(len(self.rows))
        for number, (own, right) in enumerate(zip(self.own, self.right, strict=True)):
            wrong = np.ones(len(self.answers), dtype=bool)
            wrong[list(right)] = False
            found[number] = 1 / (1 + (cosines[number, wrong] >= cosines[number, own]).sum())
        note = f"among {len(self.answers)} answers"
        return mean_score(
            "held-out answers", "reciprocal rank", found, seed=seed, scale=PERCENT, headline=True, note=note
        )


HeldOutTask: TypeAlias = TripletTask | AnswerTask


def held_out_task(rows: Sequence[TrainingRow], *, seed: int) -> HeldOutTask:
    """Build the task that measures an encoder on held-out rows, at most 500 of them, drawn with the seed.

    Triplets where at least half of these, and twenty, can be an anchor: the question has another held-out text with the
    same answer, and one with another. Else answers to find.

    Raises:
        InputError: the rows have fewer than two different answers.
    """
    draw = random.Random(seed)
    chosen = [rows[one] for one in sorted(draw.sample(range(len(rows)), min(MOST_ITEMS, len(rows))))]
    triplets = _triplets(rows, chosen, draw)
    if len(triplets) >= max(LEAST_TRIPLETS, len(chosen) / 2):
        return TripletTask(triplets)
    return _answer_task(rows, chosen)


def _triplets(rows: Sequence[TrainingRow], anchors: Sequence[TrainingRow], draw: random.Random) -> list[RowTriplet]:
    """Return a triplet for every anchor that has one among the rows."""
    texts: dict[str, dict[str, str]] = defaultdict(dict)
    answers: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows:
        texts[row.group][row.text_key] = row.text
        answers[row.group, row.text_key].add(row.answer_key)
    found = []
    for row in (one for one in anchors if not one.positives):
        mates = {key: row.answer_key in answers[row.group, key] for key in texts[row.group] if key != row.text_key}
        same = [texts[row.group][key] for key, is_same in mates.items() if is_same]
        other = [texts[row.group][key] for key, is_same in mates.items() if not is_same]
        if same and other:
            found.append(RowTriplet(row, draw.choice(same), draw.choice(other)))
    return found


def _answer_task(rows: Sequence[TrainingRow], chosen: Sequence[TrainingRow]) -> AnswerTask:
    answers = {normalise_answer(one): one for row in chosen for one in row.right}
    if len(answers) < 2:
        raise InputError(
            f"The {len(chosen)} held-out rows have {len(answers)} different answers.",
            hint="Two are needed to measure with: give more rows, or a larger held_out in [data].",
        )
    places = {key: place for place, key in enumerate(answers)}
    right: dict[tuple[str, str], set[int]] = defaultdict(set)
    for row in rows:
        keys = map(normalise_answer, row.right)
        right[row.group, row.text_key].update(places[key] for key in keys if key in places)
    return AnswerTask(
        chosen,
        list(answers.values()),
        [places[normalise_answer(row.right[0])] for row in chosen],
        [frozenset(right[row.group, row.text_key]) for row in chosen],
    )


@dataclass(frozen=True, slots=True)
class Change:
    """One score before and after, over the same items and resamples."""

    before: Score
    after: Score

    @property
    def difference(self) -> Difference:
        """After less before, with its paired 95 % interval."""
        return difference(self.after, self.before)

    def __str__(self) -> str:
        change = self.difference
        return (
            f"{self.before.task}, {self.before.metric}: {_bounded(self.before)} -> {_bounded(self.after)}, "
            f"{change.value:+.1f} [{change.low:+.1f}, {change.high:+.1f}]"
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a model may become the default, and a sentence that says why, with the numbers."""

    passed: bool
    sentence: str


def judge(held_out: Change, general: Change) -> Verdict:
    """Return whether a model got better on held-out rows without losing more than a point in general."""
    gained, kept = held_out.difference, general.difference
    gain = f"held-out {held_out.before.value:.1f} -> {held_out.after.value:.1f}"
    cost = f"general {general.before.value:.1f} -> {general.after.value:.1f}"
    if not gained.value > 0:
        return Verdict(False, f"It did not get better on the held-out rows ({gain}; {cost}).")
    if not kept.value >= -ALLOWED_LOSS:
        lost = f"{-kept.value:.1f} points, more than {ALLOWED_LOSS:g}"
        return Verdict(False, f"It got better on the held-out rows, but lost {lost}, in general ({gain}; {cost}).")
    doubt = "" if gained.certain else "; the gain may be chance, its interval holds zero"
    return Verdict(True, f"It got better on the held-out rows and kept its general quality ({gain}; {cost}{doubt}).")


def _bounded(score: Score) -> str:
    return f"{score.value:.1f} [{score.low:.1f}, {score.high:.1f}]"
