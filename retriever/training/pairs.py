"""From rows to what each method trains on: short answers for InBedder and InstEmb, pairs for GIRCSE and DICL.

Every choice is drawn from the seed and the row's place alone, so it does not depend on which other rows are asked for;
another seed, such as the epoch's number, draws anew.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from retriever.core.words import STOPWORDS
from retriever.training.rows import TrainingRow, normalise_answer

NEGATIVES = 4
_TRIES = 8  # draws for every wanted negative
_NEGATIONS = frozenset(word for word in STOPWORDS if word in {"no", "nor", "not", "cannot"} or word.endswith("n't"))
_REMOVED = STOPWORDS - _NEGATIONS
_PUNCTUATION = '.,;:!?"()[]\u201c\u201d\u2026'

AnswerSet = tuple[str, str]
HardNegatives = tuple[str, ...]
"""The hard negatives that an index has for one row, most similar first.

For a row with positives they are wrong passages, for others texts that answer the row's question otherwise.
"""
_T = TypeVar("_T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class ContrastiveExample:
    """A training example of GIRCSE and DICL.

    Attributes:
        positive: a text that belongs with the query.
        negatives: texts that do not, of the same kind as the positive.
        symmetric: whether positive and negatives are read under the query's instruction too; passages and answers
            are read without one.
        same: question group and answer; in a batch, the positives of rows with an equal one are masked.
    """

    text: str
    instruction: str
    positive: str
    negatives: tuple[str, ...]
    symmetric: bool
    same: AnswerSet

    @property
    def positive_instruction(self) -> str:
        """The instruction that positive and negatives are read under."""
        return self.instruction if self.symmetric else ""


def remove_stopwords(answer: str) -> str:
    """Return the answer without stopwords; one that holds nothing else comes back as it is.

    Negations stay, unlike in InBedder's own code: without them "not good" would teach "good".

    Source: Peng et al., "Answer is All You Need" (InBedder).
    """
    plain = {word: word.lower().strip(_PUNCTUATION).replace("\u2019", "'") for word in answer.split()}
    return " ".join(word for word in answer.split() if plain[word] not in _REMOVED) or answer


def answer_set(row: TrainingRow) -> AnswerSet:
    """Build the key that a row shares with its positives: the question group and the normalised answer."""
    return row.group, row.answer_key


def set_numbers(sets: Sequence[AnswerSet]) -> list[int]:
    """Return a number for every example of a batch, equal for examples of one positive set."""
    numbers: dict[AnswerSet, int] = {}
    return [numbers.setdefault(answers, len(numbers)) for answers in sets]


def gircse_examples(
    rows: Sequence[TrainingRow], *, seed: int, negatives: int = NEGATIVES, mined: Sequence[HardNegatives] | None = None
) -> list[ContrastiveExample]:
    """Return the rows as GIRCSE trains on them, in order; ``mined`` is one a row.

    The positive is one of the row's positives; else another text with the same answer to the same question (a symmetric
    task), and where there is none, the answer alone. Negatives, at most ``negatives``, are of the positive's kind:
    passages the row names, texts that answer the question otherwise, or other answers to it. The row's own and mined
    ones come first, then random ones fill up; there may be fewer than wanted, or none. All draws are from all rows, by
    the seed.
    """
    pool = _Pool(rows)
    found = enumerate(mined or [()] * len(rows))
    return [_gircse(pool, place, hard, random.Random(f"{seed}:{place}"), negatives) for place, hard in found]


def dicl_examples(
    rows: Sequence[TrainingRow], *, seed: int, negatives: int = NEGATIVES, mined: Sequence[HardNegatives] | None = None
) -> list[ContrastiveExample]:
    """Return the rows as DICL trains on them, in order; arguments as for `gircse_examples`.

    The positive is the answer with an empty instruction part, or one of the row's positives; negatives are other
    answers to the question. Where a question has no other answer in the rows, answers to other questions on the same
    text stand in for them.
    """
    pool = _Pool(rows)
    examples = []
    for place, hard in enumerate(mined or [()] * len(rows)):
        draw = random.Random(f"{seed}:{place}")
        positive = draw.choice(rows[place].right)
        examples.append(_example_for(pool, place, positive, hard, draw, negatives))
    return examples


def _gircse(pool: "_Pool", place: int, hard: HardNegatives, draw: random.Random, wanted: int) -> ContrastiveExample:
    row = pool.rows[place]
    if row.positives:
        return _example_for(pool, place, draw.choice(row.positives), hard, draw, wanted)
    partner = pool.partner(place, draw)
    if partner is None:
        return _example_for(pool, place, row.answer, (), draw, wanted)
    negatives = _fill(hard, lambda count: pool.other_texts(place, count, draw), wanted)
    return ContrastiveExample(row.text, row.instruction, partner, negatives, symmetric=True, same=answer_set(row))


def _example_for(
    pool: "_Pool", place: int, positive: str, hard: Sequence[str], draw: random.Random, wanted: int
) -> ContrastiveExample:
    """Return the example whose positive is an answer or a passage."""
    row = pool.rows[place]
    negatives = _fill((*row.negatives, *hard), lambda count: pool.other_answers(place, count, draw), wanted)
    return ContrastiveExample(row.text, row.instruction, positive, negatives, symmetric=False, same=answer_set(row))


def _fill(given: Sequence[str], more: Callable[[int], Sequence[str]], wanted: int) -> tuple[str, ...]:
    known = list(dict.fromkeys(given))[:wanted]
    if len(known) < wanted:
        known += [text for text in more(wanted) if text not in known]
    return tuple(known[:wanted])


class _Pool:
    """All rows by question, by answer and by text, to draw partners and negatives from."""

    def __init__(self, rows: Sequence[TrainingRow]) -> None:
        self.rows = rows
        self._groups: dict[str, list[int]] = defaultdict(list)
        self._sets: dict[AnswerSet, list[int]] = defaultdict(list)
        self._texts: dict[str, list[int]] = defaultdict(list)
        self._right: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._answers: dict[str, list[str]] = defaultdict(list)
        self._text_keys = [row.text_key for row in rows]
        self._answer_keys = [row.answer_key for row in rows]
        for place, row in enumerate(rows):
            text, answer = self._text_keys[place], self._answer_keys[place]
            self._groups[row.group].append(place)
            if (row.group, answer) not in self._sets:
                self._answers[row.group].append(answer)
            self._sets[row.group, answer].append(place)
            self._texts[text].append(place)
            self._right[row.group, text] |= {answer, *map(normalise_answer, row.positives)}

    def partner(self, place: int, draw: random.Random) -> str | None:
        """Return another text with the same answer to the same question, or None."""
        group, own = self.rows[place].group, self._text_keys[place]
        places = self._sets[group, self._answer_keys[place]]
        partners = _draw(places, 1, draw, lambda other: self._text_keys[other] != own)
        return self.rows[partners[0]].text if partners else None

    def other_texts(self, place: int, count: int, draw: random.Random) -> list[str]:
        """Return texts of the question for which the row's answer is wrong; rare answers come as often as others."""
        group, answer = self.rows[place].group, self._answer_keys[place]
        answers = self._answers[group]
        others = _draw(
            self._groups[group],
            count,
            draw,
            lambda other: answer not in self._right[group, self._text_keys[other]],
            pick=lambda: draw.choice(self._sets[group, draw.choice(answers)]),
        )
        return list(dict.fromkeys(self.rows[other].text for other in others))

    def other_answers(self, place: int, count: int, draw: random.Random) -> list[str]:
        """Return wrong answers to the question; without any, answers to other questions on the text."""
        group, text = self.rows[place].group, self._text_keys[place]
        right = self._right[group, text]
        answers = _draw(self._answers[group], count, draw, lambda answer: answer not in right)
        if answers:
            return [self.rows[self._sets[group, answer][0]].answer for answer in answers]
        others = {
            self._answer_keys[other]: self.rows[other].answer
            for other in self._texts[text]
            if self.rows[other].group != group and self._answer_keys[other] not in right
        }
        return [others[key] for key in _draw(list(others), count, draw, lambda _: True)]


def _draw(
    items: Sequence[_T],
    count: int,
    draw: random.Random,
    fits: Callable[[_T], bool],
    pick: Callable[[], _T] | None = None,
) -> list[_T]:
    """Return up to ``count`` distinct fitting items: drawn from all fitting ones where the items are few.

    Of many items, some are picked and those that do not fit thrown back, so that a draw costs the same for any number
    of rows; where few fit, fewer than ``count`` may be found.
    """
    if len(items) <= _TRIES * count:
        fitting = [item for item in items if fits(item)]
        return draw.sample(fitting, min(count, len(fitting)))
    chosen: dict[_T, None] = {}
    for _ in range(_TRIES * count):
        item = draw.choice(items) if pick is None else pick()
        if fits(item):
            chosen[item] = None
        if len(chosen) == count:
            break
    return list(chosen)
