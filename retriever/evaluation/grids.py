"""Grids: texts under several questions, found in files or read, and measured against each other.

A labelled file holds rows with ``labels``, an object from kind of question to answer; its texts under the kinds that
`unmet_kinds` has for it are one grid. A file of grids holds one in a row: ``questions`` with ``kind`` and ``wordings``,
and ``rows`` with ``text`` and ``answers``, one for each question.

Measured are all triplets that the texts of a grid allow: who is near whom under one question, and whether another
turns that over. A text that is the anchor of any weighs as much as every other. Two cosines that are equal count half,
so that an encoder which ignores the question has two success rates that add up to exactly 1 and a reversal score of at
most 50.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.core.errors import InputError
from retriever.core.protocols import Encoder
from retriever.core.types import Embeddings
from retriever.evaluation.rows import LabelledRow, read_rows
from retriever.evaluation.scores import Floats, harmonic_mean
from retriever.evaluation.suites import DataFile
from retriever.evaluation.wordings import UnmetKind

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
    unasked, *worded = map(_pairwise, encoder.encode_many(grid.texts, ["", *wordings]))
    left = iter(worded)
    return Alike(unasked, [[next(left) for _ in question.wordings] for question in grid.questions])


def grid_triplets(grid: Grid, alike: Alike) -> list[Triplets]:
    """Return the triplets of every question that has any: a text, one with its answer, one with another."""
    triplets = []
    for question, under in zip(grid.questions, alike.asked, strict=True):
        codes, says = _codes(question.answers), _says(question.answers)[:, None]
        near, far = _shared(question.answers) & says, (codes[:, None] != codes) & says
        unasked = _shares(alike.unasked, near, far)
        if unasked.size:
            shares = np.stack([_shares(cosines, near, far) for cosines in under])
            triplets.append(Triplets(question.kind, shares, unasked))
    return triplets


def grid_reversals(grid: Grid, alike: Alike) -> list[Reversal]:
    """Return the triplets of every pair of questions that two answers pull apart.

    For questions a and b these are texts i, j, k with y_a(i) = y_a(j) != y_a(k) and y_b(i) = y_b(k) != y_b(j). Under a
    the text j should be nearer to i, under b the text k. Both are asked in their first wording, then in their second.
    """
    reversals = []
    for (first, under_first), (second, under_second) in combinations(zip(grid.questions, alike.asked, strict=True), 2):
        same = [_shared(question.answers) for question in (first, second)]
        says = (_says(first.answers) & _says(second.answers))[:, None]
        near, far = same[0] & ~same[1] & says, same[1] & ~same[0] & says
        successes = [
            (_shares(left, near, far), _shares(right, far, near))
            for left, right in zip(under_first, under_second, strict=False)
        ]  # (wordings, 2) arrays (anchors,)
        if successes[0][0].size:
            reversals.append(Reversal((first.kind, second.kind), np.array(successes).transpose(1, 0, 2)))
    return reversals


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
    gaps = (cosines[anchor, near[anchor]][:, None] - cosines[anchor, far[anchor]] for anchor in anchors)
    return np.array([(1 + np.sign(gap).mean()) / 2 for gap in gaps], dtype=np.float64)


SILENT = frozenset(
    {"none", "nothing", "not said", "not mentioned", "not clear", "unclear", "cannot tell", "not applicable", "n/a"}
)
"""Answers that say nothing, so that no two texts are alike by them."""


def kinds_grid(
    folder: Path, kinds: Sequence[UnmetKind], *, limit: int, wordings: int | None = None, seed: int = 0
) -> Grid:
    """Return texts of one labelled file under some of its kinds, evenly by answer; rows of every split are taken.

    A row that lacks one of the kinds is passed over, and so is a text that stands there with different answers. A
    smaller limit gives a subset of what a larger one gives. Each kind is asked in its first ``wordings``, or in all.

    Raises:
        InputError: the file cannot be used, or has fewer than two answers to a kind.
    """
    rows = read_rows(folder, kinds[0].file)
    by_text: dict[str, set[tuple[str, ...]]] = {}
    for row in rows:
        labels = row.get("labels", dict)
        if all(kind.kind in labels for kind in kinds):
            answers = tuple(row.get(f"labels.{kind.kind}", str) for kind in kinds)
            by_text.setdefault(row.get("text", str), set()).add(answers)
    texts = {text: next(iter(answers)) for text, answers in by_text.items() if len(answers) == 1}
    columns = [[answers[place] for answers in texts.values()] for place in range(len(kinds))]
    for kind, column in zip(kinds, columns, strict=True):
        if len(set(column)) < 2:
            raise InputError(
                f"{rows[0].file}: fewer than two answers to {kind.kind!r} are left among its {len(rows)} rows.",
                hint=f"The labels of a row need all of {', '.join(other.kind for other in kinds)}.",
            )
    chosen = spread(columns, limit, seed=seed)
    questions = [
        Question(kind.kind, kind.wordings[:wordings], [column[row] for row in chosen])
        for kind, column in zip(kinds, columns, strict=True)
    ]
    return Grid(rows[0].file, [list(texts)[row] for row in chosen], questions)


def held_out_grids(
    folder: Path, *, limit: int | None = None, wordings: int | None = None, seed: int = 0
) -> tuple[list[Grid], frozenset[str]]:
    """Return the grids of the dev split, and the kinds of question that the other grids of the file ask too.

    Grids are whole, since few texts make a reversal score too low: of a random order as many are taken as have
    ``limit`` texts. Answers that say nothing (`SILENT`) are None.

    Raises:
        InputError: the file cannot be used, a row is not a grid, or none is of the dev split.
    """
    rows = read_rows(folder, DataFile.ASKED)
    dev = [row for row in rows if row.values.get("split") == "dev"]
    if not dev:
        raise InputError(
            f"{rows[0].file} has no grid of the dev split.",
            hint='The task asks the questions of held-out grids alone; give some a "split": "dev".',
        )
    other = [row for row in rows if row.values.get("split") != "dev"]
    known = frozenset(_string(row, question, "kind") for row in other for question in row.get("questions", list))
    grids: list[Grid] = []
    for place in np.random.default_rng(seed).permutation(len(dev)):
        if limit is None or sum(len(grid.texts) for grid in grids) < limit:
            grids.append(_grid(dev[place], wordings))
    return grids, known


def spread(columns: Sequence[Sequence[str]], limit: int, *, seed: int) -> list[int]:
    """Return the numbers of at most ``limit`` texts, ascending, so that every column has its values evenly.

    Texts are taken one by one, each time one whose values are rarest by then, the first among equals by a random
    order. A value that has one text is given its second before others get their first, since a text alone is alike to
    none; texts with the same value in every column are kept apart. A smaller limit gives a subset.
    """
    codes = [np.unique(column, return_inverse=True)[1] for column in columns]
    sizes = [int(code.max()) + 1 for code in codes]
    cells = np.unique(np.stack(codes), axis=1, return_inverse=True)[1].ravel()
    counts, in_cell = [np.zeros(size) for size in sizes], np.zeros(int(cells.max()) + 1)
    left = np.random.default_rng(seed).permutation(len(cells))
    chosen: list[int] = []
    while left.size and len(chosen) < limit:
        load: NDArray[np.float64] = sum(
            (size * _crowding(count[code[left]]) for size, count, code in zip(sizes, counts, codes, strict=True)),
            start=np.zeros(left.size),
        )
        if len(columns) > 1:
            load += sum(sizes) * in_cell[cells[left]]
        place = int(load.argmin())
        row = int(left[place])
        chosen.append(row)
        left = np.delete(left, place)
        in_cell[cells[row]] += 1
        for count, code in zip(counts, codes, strict=True):
            count[code[row]] += 1
    return sorted(chosen)


def _crowding(count: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cost of one more text of a value that has so many: by pairs, and less where it makes one complete."""
    return np.asarray(count // 2 - 0.5 * (count % 2))


def _grid(row: LabelledRow, wordings: int | None) -> Grid:
    given = row.get("questions", list)
    rows = row.get("rows", list)
    texts = [_string(row, text, "text") for text in rows]
    answers = [_strings(row, text, "answers") for text in rows]
    if not given or not rows or any(len(own) != len(given) for own in answers):
        raise row.problem("a text needs one answer to every question")
    questions = [
        Question(
            _string(row, question, "kind"),
            _strings(row, question, "wordings")[:wordings],
            [None if answer in SILENT else answer for answer in column],
        )
        for question, column in zip(given, zip(*answers, strict=True), strict=True)
    ]
    return Grid(f"{row.file}, row {row.line}", texts, questions)


def _string(row: LabelledRow, value: object, key: str) -> str:
    """Return what a question or text of a grid has under a key, which must be a text that is not empty."""
    text: Any = value.get(key) if isinstance(value, Mapping) else None
    if not isinstance(text, str) or not text.strip():
        raise row.problem(f"a question or text has no {key!r}")
    return text


def _strings(row: LabelledRow, value: object, key: str) -> list[str]:
    texts: Any = value.get(key) if isinstance(value, Mapping) else None
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise row.problem(f"a question or text has no list of strings {key!r}")
    return texts
