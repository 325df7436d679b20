"""Judge a fine-tuning: by a task made of the rows it did not see and by a general score, with the verdict on both.

Any rows of questions and answers can be measured with: where answers repeat, by triplets of texts, else by finding a
row's own answer. A few searches of held-out rows show a person what the model finds before and after.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np

from retriever.core.errors import InputError
from retriever.core.protocols import Encoder
from retriever.evaluation.metrics import encode_each, triplet_successes
from retriever.evaluation.scores import PERCENT, Difference, Score, difference, mean_score
from retriever.training.negatives import embed_queries
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
        texts = [text for triplet in self.triplets for text in (triplet.anchor.text, triplet.same, triplet.other)]
        instructions = [triplet.anchor.instruction for triplet in self.triplets for _ in range(3)]
        vectors = encode_each(encoder, texts, instructions).reshape(len(self.triplets), 3, -1)
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
        reciprocals = np.empty(len(self.rows))
        for number, (own, right) in enumerate(zip(self.own, self.right, strict=True)):
            wrong = np.ones(len(self.answers), dtype=bool)
            wrong[list(right)] = False
            reciprocals[number] = 1 / (1 + (cosines[number, wrong] >= cosines[number, own]).sum())
        note = f"among {len(self.answers)} answers"
        return mean_score(
            "held-out answers", "reciprocal rank", reciprocals, seed=seed, scale=PERCENT, headline=True, note=note
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
    chosen = [rows[place] for place in sorted(draw.sample(range(len(rows)), min(MOST_ITEMS, len(rows))))]
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
    triplets = []
    for row in (anchor for anchor in anchors if not anchor.positives):
        mates = {key: row.answer_key in answers[row.group, key] for key in texts[row.group] if key != row.text_key}
        same = [texts[row.group][key] for key, is_same in mates.items() if is_same]
        other = [texts[row.group][key] for key, is_same in mates.items() if not is_same]
        if same and other:
            triplets.append(RowTriplet(row, draw.choice(same), draw.choice(other)))
    return triplets


def _answer_task(rows: Sequence[TrainingRow], chosen: Sequence[TrainingRow]) -> AnswerTask:
    answers = {normalise_answer(answer): answer for row in chosen for answer in row.right}
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


MOST_SEARCHES = 3
SHOWN_HITS = 3  # of a search
MOST_CANDIDATES = 30  # of a search


@dataclass(frozen=True, slots=True)
class Candidate:
    """A text with its answer, or an answer, that a search can find, and whether it should."""

    text: str
    answer: str
    right: bool


@dataclass(frozen=True, slots=True)
class ExampleSearch:
    """A held-out row that looks for its like: its text, under its question, is the query.

    The candidates are texts with the same question, or answers where no text has the same answer; some are right.
    """

    row: TrainingRow
    candidates: Sequence[Candidate]

    def find(self, encoder: Encoder) -> list[Candidate]:
        """Return the nearest three candidates; texts are read under the question, answers under the default one."""
        instruction = self.row.instruction if self.candidates[0].answer else ""
        query = encoder.encode([self.row.text], instruction=self.row.instruction)[0]
        vectors = encoder.encode([candidate.text for candidate in self.candidates], instruction=instruction)  # (n, dim)
        order = np.argsort(-(vectors @ query), kind="stable")[:SHOWN_HITS]
        return [self.candidates[place] for place in order]


def example_searches(rows: Sequence[TrainingRow]) -> list[ExampleSearch]:
    """Return searches of held-out rows: at most three, each of another question and another text."""
    searches: list[ExampleSearch] = []
    groups: dict[str, list[TrainingRow]] = defaultdict(list)
    for row in rows:
        groups[row.group].append(row)
    for group in sorted(groups.values(), key=len, reverse=True):
        used = {search.row.text_key for search in searches}
        made = (_search(row, group, rows) for row in group if row.text_key not in used)
        searches += [first] if (first := next(filter(None, made), None)) else []
        if len(searches) == MOST_SEARCHES:
            break
    return searches


def examples_json(
    searches: Sequence[ExampleSearch], before: Sequence[Sequence[Candidate]], after: Sequence[Sequence[Candidate]]
) -> list[Mapping[str, Any]]:
    """Describe the finds of every search before and after, as a report holds them."""
    return [
        {
            "query": search.row.text,
            "instruction": search.row.instruction,
            "answer": search.row.answer,
            "before": [asdict(candidate) for candidate in old],
            "after": [asdict(candidate) for candidate in new],
        }
        for search, old, new in zip(searches, before, after, strict=True)
    ]


def _search(row: TrainingRow, group: Sequence[TrainingRow], rows: Sequence[TrainingRow]) -> ExampleSearch | None:
    """Return the row's search among texts, or else answers; None where nothing is right or nothing wrong to find."""
    for candidates in ([] if row.positives else _texts(row, group), _answers(row, rows)):
        if len({candidate.right for candidate in candidates}) == 2:
            return ExampleSearch(row, candidates)
    return None


def _texts(row: TrainingRow, group: Sequence[TrainingRow]) -> list[Candidate]:
    """Return the group's other texts; those with the row's answer are right."""
    candidates: dict[str, Candidate] = {}
    for other in group:
        right = other.answer_key == row.answer_key
        if other.text_key != row.text_key and (right or other.text_key not in candidates):
            candidates[other.text_key] = Candidate(other.text, other.answer, right)
    return _some(candidates.values())


def _answers(row: TrainingRow, rows: Sequence[TrainingRow]) -> list[Candidate]:
    """Return all answers; those to the row's question about its text are right."""
    answers = {normalise_answer(answer): answer for other in rows for answer in other.right}
    alike = [other for other in rows if (other.group, other.text_key) == (row.group, row.text_key)]
    own = {normalise_answer(answer) for other in alike for answer in other.right}
    return _some(Candidate(answer, "", key in own) for key, answer in answers.items())


def _some(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return so many candidates, half of them right at most; these come last, should others be equally near."""
    sides: dict[bool, list[Candidate]] = {True: [], False: []}
    for candidate in candidates:
        sides[candidate.right].append(candidate)
    right = sides[True][: MOST_CANDIDATES // 2]
    return [*sides[False][: MOST_CANDIDATES - len(right)], *right]
