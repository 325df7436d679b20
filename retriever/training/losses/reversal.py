"""Reversals: two texts that one question finds alike another tells apart, and the loss that asks for both.

For questions a and b and texts i, j, k with y_a(i) = y_a(j) != y_a(k) and y_b(i) = y_b(k) != y_b(j), i is to be nearer
to j under a and nearer to k under b. A model that ignores the question has the same similarities under both, so what
it gains under the one it loses under the other.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import softplus

from retriever.training.losses.vectors import cosines


@dataclass(frozen=True, slots=True)
class GridCells:
    """Where the rows of a batch stand in a grid of questions and texts.

    Attributes:
        rows: (m, n) the number of the row that asks a question of a text; -1 where there is none.
        answers: (m, n) equal for rows of a question that are positives of each other; -1 where there is no row.
    """

    rows: Tensor
    answers: Tensor

    @classmethod
    def of(
        cls,
        questions: Sequence[Hashable],
        texts: Sequence[Hashable],
        answers: Sequence[Hashable],
        *,
        device: torch.device | str = "cpu",
    ) -> Self:
        """Return the cells of a batch's rows, given what each asks, of which text, and what its answer is.

        Of several rows with one question about one text the first counts.
        """
        places = [_numbers(one) for one in (questions, texts, answers)]
        height, width = (max(one, default=-1) + 1 for one in places[:2])
        rows, known = ([[-1] * width for _ in range(height)] for _ in range(2))
        for number, (question, text, answer) in enumerate(zip(*places, strict=True)):
            if rows[question][text] < 0:
                rows[question][text], known[question][text] = number, answer
        return cls(*(torch.tensor(one, dtype=torch.long, device=device).view(height, width) for one in (rows, known)))


def reversal(vectors: Tensor, cells: GridCells, *, temperature: float) -> Tensor:
    """Return the mean over all reversals of a batch of the pairwise logistic loss; 0 where there is none.

    With s the cosine, tau the temperature and a reversal as above, it is the mean of
    log(1 + exp((s_a(i, k) - s_a(i, j)) / tau)) and log(1 + exp((s_b(i, j) - s_b(i, k)) / tau)). The vectors are (B, d),
    one for each row. It takes memory for m n^3 numbers.
    """
    present = cells.rows >= 0  # (m, n)
    grid = vectors[cells.rows.clamp(min=0)]  # (m, n, d)
    similar = cosines(grid, grid)  # (m, n, n)
    both = present.unsqueeze(2) & present.unsqueeze(1)  # (m, n, n)
    equal = cells.answers.unsqueeze(2) == cells.answers.unsqueeze(1)  # (m, n, n)
    itself = torch.eye(present.shape[1], dtype=torch.bool, device=vectors.device)  # (n, n)
    alike = (both & equal & ~itself).to(similar.dtype)  # (m, n, n)
    apart = (both & ~equal).to(similar.dtype)  # (m, n, n)
    # Questions b for which i is apart from j and like k. The other half of a reversal is the same with a and b, j and k
    # exchanged, so the sum over every a counts both halves.
    others = torch.einsum("bij,bik->ijk", apart, alike)  # (n, n, n)
    counts = alike.unsqueeze(3) * apart.unsqueeze(2) * others  # (m, n, n, n)
    margins = (similar.unsqueeze(3) - similar.unsqueeze(2)) / temperature  # (m, n, n, n): i nearer to j than to k
    return (counts * softplus(-margins)).sum() / counts.sum().clamp(min=1)


def _numbers(values: Sequence[Hashable]) -> list[int]:
    """Return a number from 0 on for every value, equal for equal ones."""
    known: dict[Hashable, int] = {}
    return [known.setdefault(one, len(known)) for one in values]
