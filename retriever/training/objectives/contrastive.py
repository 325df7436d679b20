"""Tell, for GIRCSE and DICL, which rows' positives are right for each other, and where negatives stand."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from retriever.training.pairs import ContrastiveExample, set_numbers
from retriever.training.rows import normalise_answer


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
