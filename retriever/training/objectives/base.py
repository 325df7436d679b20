"""Define an objective, its settings and the parts that it is made from, among them the batches of an epoch."""

import random
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from retriever.training.adapters import Adapted
from retriever.training.pairs import ContrastiveExample, answer_set, set_numbers
from retriever.training.prompt_batches import PromptTokeniser
from retriever.training.rows import TrainingRow, normalise_answer
from retriever.training.settings import AtLeastOne, AtLeastTwo, Settings


class Objective(Protocol):
    """A training objective; `Trainer` takes its two methods."""

    def batches(self, epoch: int) -> Sequence[Sequence[int]]:
        """Return the epoch's batches of row numbers, the same whenever they are asked for."""
        ...

    def backward(self, batch: Sequence[int]) -> Mapping[str, float]:
        """Add the gradients of a batch to the parameters; return its losses, ``loss`` the total."""
        ...


@runtime_checkable
class Measured(Protocol):
    """An objective that says how long the sequences are that it reads, so that memory can be worked out."""

    def lengths(self, batch: Sequence[int]) -> list[int]:
        """Return the tokens of every sequence that a batch is read as, with gradients; none where it is not known."""
        ...


class ObjectiveSettings(Settings):
    """A method's own settings, a frozen dataclass: what they say to the parts of a fine-tuning that know no method."""

    __slots__ = ()

    @property
    def negatives(self) -> int:
        """Most hard negatives of a row."""
        return 0

    @property
    def taught_by(self) -> str:
        """The encoder that teaches the objective beside the rows; empty for none."""
        return ""

    @property
    def steps(self) -> int | None:
        """K, the soft tokens that the model reads on with; None for none."""
        return None


@dataclass(frozen=True, slots=True)
class Learner:
    """The model in training and how its prompts are made; the seed is that of everything that is drawn."""

    adapted: Adapted
    tokeniser: PromptTokeniser
    seed: int

    @property
    def shares(self) -> bool:
        """Whether a text's questions can be read in one pass."""
        return self.tokeniser.template.text_first and self.adapted.backbone.attends_to_all


_LOOKED_AT = 8


@dataclass(frozen=True, slots=True)
class BatchSettings(Settings):
    """Settings of how rows become batches.

    Attributes:
        texts: texts of a batch, each with its questions.
        questions: most questions of a text that stay together; its others come elsewhere, as if of another text.
        held_tokens: most tokens whose activations are held at once; a batch beyond it is read twice, piece by piece,
            with the gradients of the whole (gradient caching). With the 135M model a token takes about 0.7 MB, and 1.5
            with soft tokens (GIRCSE). On a processor with less free memory, fewer are held (instructor, instemb).
        paired: put texts that share an answer into one batch, so that every row has a chance of a positive.
    """

    texts: AtLeastTwo = 16
    questions: AtLeastOne = 4
    held_tokens: AtLeastOne = 6144
    paired: bool = True

    def unpaired(self) -> "BatchSettings":
        """Return the same without pairing, for an objective that makes nothing of rows with the same answer."""
        return replace(self, paired=False)


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a row that batching goes by.

    Attributes:
        source: rows of different sources never share a batch, so that its negatives are of one kind.
        text: rows of one text stand together.
        same: equal for rows that are positives of each other.
    """

    source: str
    text: str
    same: Hashable


def row_keys(rows: Sequence[TrainingRow]) -> list[Keys]:
    """Return the keys of every row: a file is a source, and rows of one question and answer are positives."""
    return [Keys(row.file, row.text, answer_set(row)) for row in rows]


class TextBatches:
    """All rows once an epoch: texts in an order that seed and epoch decide, each with its questions."""

    def __init__(self, keys: Sequence[Keys], settings: BatchSettings, seed: int) -> None:
        self._keys = keys
        self._settings = settings
        self._seed = seed

    def __call__(self, epoch: int) -> list[list[int]]:
        """Return the epoch's batches of row numbers; the rows of a text stand side by side."""
        draw = random.Random(f"{self._seed}:{epoch}")
        batches = []
        by_source: dict[str, list[list[int]]] = defaultdict(list)
        for part in self._parts(draw):
            by_source[self._keys[part[0]].source].append(part)
        for parts in by_source.values():
            ordered = self._paired(parts, draw) if self._settings.paired else parts
            size = self._settings.texts
            for start in range(0, len(ordered), size):
                batches.append([row for part in ordered[start : start + size] for row in part])
        draw.shuffle(batches)
        return batches

    def _parts(self, draw: random.Random) -> list[list[int]]:
        """Return every text's rows, cut to as many questions as a batch takes, in a new order."""
        by_text: dict[tuple[str, str], list[int]] = defaultdict(list)
        for row, key in enumerate(self._keys):
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
            partners = (_waiting(waiting[answers], placed, texts, texts[number]) for answers in sets)
            partner = next((place for place in partners if place is not None), None)
            if partner is not None:
                placed.add(partner)
                ordered.append(parts[partner])
        return ordered


def _waiting(queue: list[int], placed: set[int], texts: Sequence[str], text: str) -> int | None:
    """Return a part of the queue of another text that is not placed yet; its last few are looked at."""
    while queue and queue[-1] in placed:
        queue.pop()
    return next(
        (place for place in reversed(queue[-_LOOKED_AT:]) if place not in placed and texts[place] != text), None
    )


def positive_sets(examples: Sequence[ContrastiveExample]) -> list[int]:
    """Return a number for every example of a batch; examples with equal ones are never each other's negatives.

    Equal are examples of one question group and answer, and those whose positives are one text read alike: the answer
    "red" is no wrong answer to another row whose answer is "red" too, whatever it was asked.
    """
    sets = set_numbers([example.same for example in examples])
    first: dict[tuple[str, str], int] = {}
    for row, example in enumerate(examples):
        known, own = (
            sets[first.setdefault((example.positive_instruction, normalise_answer(example.positive)), row)],
            sets[row],
        )
        sets = [known if number == own else number for number in sets]
    return sets
