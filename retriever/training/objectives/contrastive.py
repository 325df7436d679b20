"""Tell, for GIRCSE and DICL, which positives are right for which rows, where negatives stand, and what is wrong."""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from retriever.training.pairs import ContrastiveExample, set_numbers
from retriever.training.rows import TrainingRow, normalise_answer


@dataclass(frozen=True, slots=True)
class NegativePlaces:
    """Which prompts are the rows' negatives: their numbers (B, H), and where there is one; a row may have fewer."""

    places: Tensor
    mask: Tensor

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]], *, device: torch.device) -> Self | None:
        """Return the places of every row side by side, None where no row has any."""
        widest = max(map(len, rows))
        if not widest:
            return None
        places = [[*row, *[0] * (widest - len(row))] for row in rows]
        mask = [[True] * len(row) + [False] * (widest - len(row)) for row in rows]
        return cls(torch.tensor(places, device=device), torch.tensor(mask, device=device))


def positive_sets(examples: Sequence[ContrastiveExample]) -> list[int]:
    """Return a number for every example of a batch; examples with equal ones are never each other's negatives.

    Equal are examples of one question group and answer, and those whose positives are one text read alike: the answer
    "red" is no wrong answer to another row whose answer is "red" too, whatever it was asked.
    """
    sets = set_numbers([one.same for one in examples])
    first: dict[tuple[str, str], int] = {}
    for row, one in enumerate(examples):
        known, own = sets[first.setdefault((one.positive_instruction, normalise_answer(one.positive)), row)], sets[row]
        sets = [known if number == own else number for number in sets]
    return sets


def with_batch_partners(examples: Sequence[ContrastiveExample], draw: random.Random) -> list[ContrastiveExample]:
    """Return a batch's examples with another text of the batch for a positive, where one answers the question alike.

    Both stand in the batch as queries, so nothing more is read; the positive keeps its own wording of the question.
    An example whose positive is a passage or an answer stays as it is.
    """
    mates: dict[tuple[str, str], list[ContrastiveExample]] = defaultdict(list)
    for one in examples:
        if one.symmetric:
            mates[one.same].append(one)
    found = []
    for one in examples:
        others = [mate for mate in mates[one.same] if mate.text != one.text] if one.symmetric else []
        mate = draw.choice(others) if others else None
        found.append(one if mate is None else replace(one, positive=mate.text, wording=mate.instruction))
    return found


def own_text_negatives(examples: Sequence[ContrastiveExample], sets: Sequence[int]) -> list[list[int]]:
    """Return, for every example of a batch, those with its text under another question, which it is to be apart from.

    Examples of equal ``sets`` (`positive_sets`) are to be near the same answer and cannot be told apart.
    """
    by_text: dict[str, list[int]] = defaultdict(list)
    for row, one in enumerate(examples):
        by_text[one.text].append(row)
    return [
        [row for row in by_text[one.text] if examples[row].same[0] != one.same[0] and sets[row] != own]
        for one, own in zip(examples, sets, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class WrongParts:
    """I-, another question, and Q-, another text, for a row's lower tiers; None where the batch has none."""

    instruction: str | None
    text: str | None


def wrong_parts(batch: Sequence[TrainingRow], *, seed: int) -> list[WrongParts]:
    """Return the wrong parts of every row, drawn from the other rows of the batch.

    I- is a question of another group with another answer; one that the batch asks of the row's own text comes first,
    for its answer is known to be another. Q- is a text with another answer; one that is asked the row's own question
    comes first. A question that the row's text answers with the row's answer, and a text that answers the row's
    question with it, are never drawn.
    """
    facts = [_Facts.of(row) for row in batch]
    known = set(facts)
    draw = random.Random(seed)
    return [_drawn(batch, facts, known, place, draw) for place in range(len(batch))]


@dataclass(frozen=True, slots=True)
class _Facts:
    """A row in the form in which rows are compared."""

    text: str
    group: str
    answer: str

    @classmethod
    def of(cls, row: TrainingRow) -> "_Facts":
        return cls(row.text_key, row.group, row.answer_key)


def _drawn(
    batch: Sequence[TrainingRow], facts: Sequence[_Facts], known: set[_Facts], place: int, draw: random.Random
) -> WrongParts:
    own = facts[place]
    others = [(number, one) for number, one in enumerate(facts) if one.answer != own.answer]
    questions = [
        (number, one.text == own.text)
        for number, one in others
        if one.group != own.group and _Facts(own.text, one.group, own.answer) not in known
    ]
    texts = [
        (number, one.group == own.group)
        for number, one in others
        if one.text != own.text and _Facts(one.text, own.group, own.answer) not in known
    ]
    question, text = _pick(questions, draw), _pick(texts, draw)
    return WrongParts(
        None if question is None else batch[question].instruction, None if text is None else batch[text].text
    )


def _pick(candidates: Sequence[tuple[int, bool]], draw: random.Random) -> int | None:
    """Return the number of a preferred candidate, of any where none is preferred, None where there is none."""
    preferred = [number for number, first in candidates if first]
    numbers = preferred or [number for number, _ in candidates]
    return draw.choice(numbers) if numbers else None
