"""Texts of like length behind each other in one row of tokens, so that nothing is padded.

What is computed token by token takes the whole row; attention takes it run by run, a run being texts of one length.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from retriever.core.types import Ids


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring texts of one length in a row of tokens.

    Attributes:
        start: the first token.
        texts: how many texts.
        length: tokens of each.
    """

    start: int
    texts: int
    length: int

    @property
    def tokens(self) -> slice:
        """Where its tokens stand."""
        return slice(self.start, self.start + self.texts * self.length)


@dataclass(frozen=True, slots=True)
class Pack:
    """Texts that are read together.

    Attributes:
        rows: the texts' positions among those given, longest first.
        ids: (T,) their tokens.
        places: (T,) the place of each token in its text.
        runs: the texts by length, in this order.
    """

    rows: Sequence[int]
    ids: Ids
    places: Ids
    runs: Sequence[Run]


def plan_packs(texts: Sequence[Sequence[int]], budget: int) -> Iterator[Pack]:
    """Yield texts (n token sequences, none empty) in packs of at most ``budget`` tokens; a longer one goes alone."""
    order = sorted(range(len(texts)), key=lambda row: (-len(texts[row]), row))
    start, total = 0, 0
    for at, row in enumerate(order):
        if at > start and total + len(texts[row]) > budget:
            yield _pack(texts, order[start:at])
            start, total = at, 0
        total += len(texts[row])
    if order:
        yield _pack(texts, order[start:])


def _pack(texts: Sequence[Sequence[int]], rows: Sequence[int]) -> Pack:
    runs, start = [], 0
    for length, group in groupby(len(texts[row]) for row in rows):
        runs.append(Run(start, sum(1 for _ in group), length))
        start = runs[-1].tokens.stop
    ids = np.concatenate([np.asarray(texts[row], dtype=np.int64) for row in rows])
    places = np.concatenate([np.arange(len(texts[row]), dtype=np.int64) for row in rows])
    return Pack(rows, ids, places, runs)
