"""Measure texts under several questions: who is near whom under one question, and whether another turns that over.

All is computed over every triplet that the texts of a grid allow; a text that is the anchor of any weighs as much as
every other. Two cosines that are equal count half, so that a reader which ignores the question has two success rates
that add up to exactly 1 and a reversal score of at most 50.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from retriever.core.protocols import Encoder
from retriever.core.types import Embeddings
from retriever.evaluation.scores import Floats, harmonic_mean

Mask = NDArray[np.bool_]

_DIGITS = 9  # equal rows of a product of matrices may differ behind these


@dataclass(frozen=True, slots=True)
class Question:
    """A kind of question with the ways to ask it, and its answer for every text of a grid; None says nothing."""

    kind: str
    wordings: Sequence[str]
    answers: Sequence[str | None]


@dataclass(frozen=True, slots=True)
class Grid:
    """Texts that are all asked the same questions; the name is for messages."""

    name: str
    texts: Sequence[str]
    questions: Sequence[Question]


@dataclass(frozen=True, slots=True)
class Alike:
    """The cosines of all pairs of a grid's n texts: not asked (n, n), and by question and wording, (n, n) each."""

    unasked: Floats
    asked: Sequence[Sequence[Floats]]


@dataclass(frozen=True, slots=True)
class Triplets:
    """The share of an anchor's triplets in which the text with its own answer is nearer.

    ``asked`` has a row a wording, (wordings, anchors), and ``unasked`` is under the default instruction, (anchors,).
    """

    kind: str
    asked: Floats
    unasked: Floats

    @property
    def by_wording(self) -> Floats:
        """The mean over anchors, (wordings,)."""
        return np.asarray(self.asked.mean(axis=1))


@dataclass(frozen=True, slots=True)
class Reversal:
    """The shares of an anchor's triplets that come right under each of two questions, (2, wordings, anchors)."""

    kinds: tuple[str, str]
    successes: Floats

    @property
    def by_wording(self) -> Floats:
        """The reversal score under every wording, (wordings,), 0 to 1: the harmonic mean of both success rates."""
        return harmonic_mean(self.successes.mean(axis=2))


def read_grid(encoder: Encoder, grid: Grid) -> Alike:
    """Embed the texts of a grid once, under all wordings of all its questions and under the default instruction."""
    wordings = [wording for question in grid.questions for wording in question.wordings]
    unasked, *asked = map(_pairwise, encoder.encode_many(grid.texts, ["", *wordings]))
    left = iter(asked)
    return Alike(unasked, [[next(left) for _ in question.wordings] for question in grid.questions])


def grid_triplets(grid: Grid, alike: Alike) -> list[Triplets]:
    """Return the triplets of every question that has any: a text, one with its answer, one with another."""
    found = []
    for question, under in zip(grid.questions, alike.asked, strict=True):
        codes, says = _codes(question.answers), _says(question.answers)[:, None]
        near, far = _shared(question.answers) & says, (codes[:, None] != codes) & says
        unasked = _shares(alike.unasked, near, far)
        if unasked.size:
            asked = np.stack([_shares(one, near, far) for one in under])
            found.append(Triplets(question.kind, asked, unasked))
    return found


def grid_reversals(grid: Grid, alike: Alike) -> list[Reversal]:
    """Return the triplets of every pair of questions that two answers pull apart.

    For questions a and b these are texts i, j, k with y_a(i) = y_a(j) != y_a(k) and y_b(i) = y_b(k) != y_b(j). Under a
    the text j should be nearer to i, under b the text k. Both are asked in their first wording, then in their second.
    """
    found = []
    for (first, under_first), (second, under_second) in combinations(zip(grid.questions, alike.asked, strict=True), 2):
        same = [_shared(one.answers) for one in (first, second)]
        says = (_says(first.answers) & _says(second.answers))[:, None]
        near, far = same[0] & ~same[1] & says, same[1] & ~same[0] & says
        successes = [
            (_shares(one, near, far), _shares(other, far, near))
            for one, other in zip(under_first, under_second, strict=False)
        ]  # (wordings, 2) arrays (anchors,)
        if successes[0][0].size:
            found.append(Reversal((first.kind, second.kind), np.array(successes).transpose(1, 0, 2)))
    return found


def _pairwise(view: Embeddings) -> Floats:
    rows = view.astype(np.float64)
    return np.asarray(np.round(rows @ rows.T, _DIGITS), dtype=np.float64)


def _codes(answers: Sequence[str | None]) -> NDArray[np.int64]:
    """Return (n,) a number for every answer, equal where the answers are."""
    return np.asarray(np.unique([answer or "" for answer in answers], return_inverse=True)[1])


def _shared(answers: Sequence[str | None]) -> Mask:
    """Return (n, n) whether two different texts share an answer."""
    codes = _codes(answers)
    return np.asarray((codes[:, None] == codes) & ~np.eye(len(codes), dtype=bool))


def _says(answers: Sequence[str | None]) -> Mask:
    return np.array([answer is not None for answer in answers])


def _shares(cosines: Floats, near: Mask, far: Mask) -> Floats:
    """Return the share of (near, far) that are in the right order, (anchors,), for every anchor that has both."""
    anchors = np.flatnonzero(near.any(axis=1) & far.any(axis=1))
    gaps = (cosines[one, near[one]][:, None] - cosines[one, far[one]] for one in anchors)
    return np.array([(1 + np.sign(gap).mean()) / 2 for gap in gaps], dtype=np.float64)
