"""Make batches of the rows of an epoch: texts with their questions, and texts that share an answer together."""

import random
from collections import defaultdict
from collections.abc import Hashable, Sequence, Set
from dataclasses import dataclass, replace

from retriever.core.errors import UsageError
from retriever.training.objectives.grids import Cell, find_grids
from retriever.training.pairs import answer_set
from retriever.training.rows import TrainingRow

GRIDS = False
"""Whether batches are grids unless the settings say."""
_LOOKED_AT = 8


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """Settings of how rows become batches.

    Attributes:
        texts: texts of a batch, each with its questions.
        questions: most questions of a text that stay together; its others come elsewhere, as if of another text.
        held_tokens: most tokens whose activations are held at once; a batch beyond it is read twice, piece by piece,
            with the gradients of the whole (gradient caching). With the 135M model a token takes about 0.7 MB, and 1.5
            with soft tokens (GIRCSE).
        paired: put texts that share an answer into one batch, so that every row has a chance of a positive.
        grid: put texts under the same questions into one batch, so that of two texts one question finds alike and
            another tells apart; rows that make no such grid are batched as without.
    """

    texts: int = 16
    questions: int = 4
    held_tokens: int = 6144
    paired: bool = True
    grid: bool = GRIDS

    def __post_init__(self) -> None:
        if self.texts < 2:
            raise UsageError(f"A batch of {self.texts} texts has nothing to compare.", hint="Give texts of at least 2.")
        if self.questions < 1 or self.held_tokens < 1:
            raise UsageError("questions and held_tokens must be at least 1.")

    def unpaired(self) -> "BatchSettings":
        """Return the same without pairing, for an objective that makes nothing of rows with the same answer."""
        return replace(self, paired=False)

    def alone(self) -> "BatchSettings":
        """Return the same without pairing and grids, for an objective that compares no row with another."""
        return replace(self, paired=False, grid=False)


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a row that batching goes by.

    Attributes:
        source: rows of different sources never share a batch, so that its negatives are of one kind.
        text: rows of one text stand together.
        same: equal for rows that are positives of each other.
        question: the same for every wording of one question.
    """

    source: str
    text: str
    same: Hashable
    question: str = ""


def row_keys(rows: Sequence[TrainingRow]) -> list[Keys]:
    """Return the keys of every row: a file is a source, and rows of one question and answer are positives."""
    return [Keys(row.file, row.text, answer_set(row), row.group) for row in rows]


class TextBatches:
    """All rows once an epoch: texts in an order that seed and epoch decide, each with its questions."""

    def __init__(self, keys: Sequence[Keys], settings: BatchSettings, seed: int) -> None:
        if not keys:
            raise UsageError("There are no rows to train on.")
        self._keys = keys
        self._settings = settings
        self._seed = seed

    def __call__(self, epoch: int) -> list[list[int]]:
        """Return the epoch's batches of row numbers; the rows of a text stand side by side."""
        draw = random.Random(f"{self._seed}:{epoch}")
        batches = self._grids(draw) if self._settings.grid else []
        by_source: dict[str, list[list[int]]] = defaultdict(list)
        for part in self._parts(draw, {row for batch in batches for row in batch}):
            by_source[self._keys[part[0]].source].append(part)
        for parts in by_source.values():
            ordered = self._paired(parts, draw) if self._settings.paired else parts
            size = self._settings.texts
            for start in range(0, len(ordered), size):
                batches.append([row for part in ordered[start : start + size] for row in part])
        draw.shuffle(batches)
        return batches

    def in_grids(self) -> int:
        """Count the rows that the first epoch's grids hold."""
        return sum(map(len, self._grids(random.Random(f"{self._seed}:0")))) if self._settings.grid else 0

    def _grids(self, draw: random.Random) -> list[list[int]]:
        """Return batches that are grids, source by source."""
        cells: dict[str, list[Cell]] = defaultdict(list)
        for row, key in enumerate(self._keys):
            cells[key.source].append(Cell(row, key.text, key.question, key.same))
        size = {"texts": self._settings.texts, "questions": self._settings.questions}
        return [batch for one in cells.values() for batch in self._packed(find_grids(one, **size, draw=draw))]

    def _packed(self, grids: list[list[int]]) -> list[list[int]]:
        """Return grids of one source as batches, small ones together, with no more texts than a batch takes."""
        batches: list[list[int]] = []
        room: list[int] = []  # of every batch, in texts
        for grid in sorted(grids, key=len, reverse=True):
            texts = len({self._keys[row].text for row in grid})
            few = range(max(0, len(room) - _LOOKED_AT), len(room))
            place = next((one for one in few if room[one] >= texts), None)
            if place is None:
                batches.append(list(grid))
                room.append(self._settings.texts - texts)
            else:
                batches[place] += grid
                room[place] -= texts
        return batches

    def _parts(self, draw: random.Random, taken: Set[int]) -> list[list[int]]:
        """Return every text's rows that are not taken, cut to as many questions as a batch takes, in a new order."""
        by_text: dict[tuple[str, str], list[int]] = defaultdict(list)
        for row, key in enumerate(self._keys):
            if row not in taken:
                by_text[key.source, key.text].append(row)
        parts = []
        for rows in by_text.values():
            draw.shuffle(rows)
            size = self._settings.questions
            parts += [rows[start : start + size] for start in range(0, len(rows), size)]
        draw.shuffle(parts)
        return parts

    def _paired(self, parts: list[list[int]], draw: random.Random) -> list[list[int]]:
        """Return the parts so that each is followed by one that shares an answer, while there are such."""
        texts = [self._keys[part[0]].text for part in parts]
        waiting: dict[Hashable, list[int]] = defaultdict(list)
        for number, part in enumerate(parts):
            for row in part:
                waiting[self._keys[row].same].append(number)
        placed: set[int] = set()
        ordered = []
        for number, part in enumerate(parts):
            if number in placed:
                continue
            placed.add(number)
            ordered.append(part)
            sets = [self._keys[row].same for row in draw.sample(part, len(part))]
            found = (_waiting(waiting[one], placed, texts, texts[number]) for one in sets)
            partner = next((one for one in found if one is not None), None)
            if partner is not None:
                placed.add(partner)
                ordered.append(parts[partner])
        return ordered


def _waiting(queue: list[int], placed: set[int], texts: Sequence[str], text: str) -> int | None:
    """Return a part of the queue of another text that is not placed yet; its last few are looked at."""
    while queue and queue[-1] in placed:
        queue.pop()
    return next((one for one in reversed(queue[-_LOOKED_AT:]) if one not in placed and texts[one] != text), None)
