"""A few searches of held-out rows, for a person to look at: what a model finds for them before a training and after.

They go with the measures of `finetune_scores`: texts with the same answer are to be near, or the own answer is.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from retriever.core.protocols import Encoder
from retriever.training.rows import TrainingRow, normalise_answer

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
        vectors = encoder.encode([one.text for one in self.candidates], instruction=instruction)  # (n, dim)
        order = np.argsort(-(vectors @ query), kind="stable")[:SHOWN_HITS]
        return [self.candidates[one] for one in order]


def example_searches(rows: Sequence[TrainingRow]) -> list[ExampleSearch]:
    """Return searches of held-out rows: at most three, each of another question and another text."""
    found: list[ExampleSearch] = []
    groups: dict[str, list[TrainingRow]] = defaultdict(list)
    for row in rows:
        groups[row.group].append(row)
    for group in sorted(groups.values(), key=len, reverse=True):
        used = {search.row.text_key for search in found}
        candidates = (one for row in group if row.text_key not in used for one in _searches(row, group, rows))
        found.extend([first] if (first := next(candidates, None)) else [])
        if len(found) == MOST_SEARCHES:
            break
    return found


def examples_json(
    searches: Sequence[ExampleSearch], before: Sequence[Sequence[Candidate]], after: Sequence[Sequence[Candidate]]
) -> list[Mapping[str, Any]]:
    """Describe the finds of every search before and after, as a report holds them."""
    return [
        {
            "query": one.row.text,
            "instruction": one.row.instruction,
            "answer": one.row.answer,
            "before": [asdict(candidate) for candidate in old],
            "after": [asdict(candidate) for candidate in new],
        }
        for one, old, new in zip(searches, before, after, strict=True)
    ]


def _searches(row: TrainingRow, group: Sequence[TrainingRow], rows: Sequence[TrainingRow]) -> Iterator[ExampleSearch]:
    """Yield the row's search, unless there is nothing right or nothing wrong to find."""
    candidates = [] if row.positives else _texts(row, group)
    if not _decides(candidates):
        candidates = _answers(row, rows)
    if _decides(candidates):
        yield ExampleSearch(row, candidates)


def _texts(row: TrainingRow, group: Sequence[TrainingRow]) -> list[Candidate]:
    """Return the group's other texts; those with the row's answer are right."""
    found: dict[str, Candidate] = {}
    for other in group:
        right = other.answer_key == row.answer_key
        if other.text_key != row.text_key and (right or other.text_key not in found):
            found[other.text_key] = Candidate(other.text, other.answer, right)
    return _some(found.values())


def _answers(row: TrainingRow, rows: Sequence[TrainingRow]) -> list[Candidate]:
    """Return all answers; those to the row's question about its text are right."""
    answers = {normalise_answer(one): one for other in rows for one in other.right}
    asked = [other for other in rows if (other.group, other.text_key) == (row.group, row.text_key)]
    own = {normalise_answer(one) for other in asked for one in other.right}
    return _some(Candidate(one, "", key in own) for key, one in answers.items())


def _some(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return so many candidates, half of them right at most; these come last, should others be equally near."""
    sides: dict[bool, list[Candidate]] = {True: [], False: []}
    for one in candidates:
        sides[one.right].append(one)
    right = sides[True][: MOST_CANDIDATES // 2]
    return [*sides[False][: MOST_CANDIDATES - len(right)], *right]


def _decides(candidates: Sequence[Candidate]) -> bool:
    return len({one.right for one in candidates}) == 2
