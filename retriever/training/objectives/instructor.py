"""Teach a sentence encoder that reads question and text together to give the answer's own vector.

Two losses over a batch. A text's vector under a question is to be nearest to the vector that the published encoder has
of the right answer, among those of all answers in the batch (InfoNCE, van den Oord et al., 2018, eq. 4), of which those
that say nearly the same are right in part. Among them are answers to other questions about the same text, so the
question decides. And among rows of one question those with the same answer are to be nearer to each other than those
with another (Khosla et al., "Supervised Contrastive Learning", 2020, eq. 2), which parts answers whose own vectors are
alike, such as satisfied and dissatisfied. Where some rows have no question, texts of the others are read under none
beside, towards their own published vectors, so that what the rows do not speak of stays.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from retriever.encoders.bert.arrays import Pack
from retriever.training.objectives.base import BatchSettings, ObjectiveSettings
from retriever.training.objectives.reading import Outputs, backward, in_order
from retriever.training.rows import TrainingRow
from retriever.training.sentence import SentenceLearner
from retriever.training.settings import AtLeastTwo, Count, Positive, Weight


@dataclass(frozen=True, slots=True)
class InstructorSettings(ObjectiveSettings):
    """Settings of the objective.

    Attributes:
        temperature: of cosines with answers.
        softness: temperature of the cosines between answers by which answers like the right one count as right too.
        contrast: weight of the loss among rows of one question.
        contrast_temperature: of cosines among those.
        alike: rows of one question that stand together in a batch.
        beside: most right answers to other questions about a row's text that are wrong ones to its own.
        plain: texts of a batch that are read under no question beside, where some rows have none.
    """

    temperature: Positive = 0.05
    softness: Positive = 0.05
    contrast: Weight = 1.0
    contrast_temperature: Positive = 0.1
    alike: AtLeastTwo = 8
    beside: Count = 3
    plain: Count = 4


class InstructorObjective:
    """Loss and gradients of a batch of rows.

    Args:
        learner: the encoder in training.
        rows: to learn from.
        settings: of the losses.
        batch: ``texts`` is the number of rows in a batch, ``held_tokens`` as for others; the rest has no meaning here.
    """

    def __init__(
        self,
        learner: SentenceLearner,
        rows: Sequence[TrainingRow],
        settings: InstructorSettings,
        batch: BatchSettings,
    ) -> None:
        self._learner, self._rows, self._settings = learner, rows, settings
        self._held_tokens = batch.held_tokens
        self.batches = KindBatches(rows, settings.alike, batch.texts, learner.seed)
        self._plain = settings.plain if any(not row.instruction for row in rows) else 0
        self._of_text: dict[str, list[str]] = defaultdict(list)
        for row in rows:
            self._of_text[row.text].append(row.answer)
        self._published: dict[str, Tensor] = {}

    def backward(self, batch: Sequence[int]) -> Mapping[str, float]:
        """Add the gradients of a batch to the parameters; return ``loss``, ``answers`` and ``contrast``."""
        rows, settings = [self._rows[number] for number in batch], self._settings
        plain = self._plain_texts(rows)
        goals = [*(row.answer for row in rows), *plain]
        wrong = [text for row in rows for text in row.negatives]
        wrong += [answer for number, row in zip(batch, rows, strict=True) for answer in self._beside(number, row)]
        candidates = {text: place for place, text in enumerate(dict.fromkeys([*goals, *wrong]))}
        published = self._vectors(list(candidates))
        targets = torch.tensor([candidates[goal] for goal in goals], device=published.device)
        right = (published[targets] @ published.T / settings.softness).softmax(dim=1)
        kinds = _numbers([(row.file, row.group) for row in rows]).to(published.device)
        packs, read, held = self._packs(rows), self._learner.adapted.vectors, self._held_tokens
        terms: dict[str, Tensor] = {}

        def loss(outputs: Outputs) -> Tensor:
            vectors = in_order(packs, outputs["vectors"])
            terms["answers"] = functional.cross_entropy(vectors @ published.T / settings.temperature, right)
            terms["contrast"] = _contrast(
                vectors[: len(rows)], kinds, targets[: len(rows)], settings.contrast_temperature
            )
            return terms["answers"] + settings.contrast * terms["contrast"]

        total = backward(lambda pack: {"vectors": read(pack)}, packs, loss, held_tokens=held)
        return {"loss": float(total), **{name: float(term.detach()) for name, term in terms.items()}}

    def lengths(self, batch: Sequence[int]) -> list[int]:
        """Return the tokens of every text of a batch with its question."""
        packs = self._packs([self._rows[number] for number in batch])
        return [run.length for pack in packs for run in pack.runs for _ in range(run.texts)]

    def _packs(self, rows: Sequence[TrainingRow]) -> list[Pack]:
        """Return the texts of rows under their questions, and some under none behind them, in forward passes."""
        plain = self._plain_texts(rows)
        texts, instructions = [row.text for row in rows], [row.instruction for row in rows]
        return self._learner.adapted.packs([*texts, *plain], [*instructions, *[""] * len(plain)])

    def _plain_texts(self, rows: Sequence[TrainingRow]) -> list[str]:
        return list(dict.fromkeys(row.text for row in rows))[: self._plain]

    def _beside(self, number: int, row: TrainingRow) -> Sequence[str]:
        """Return some of the other answers about a row's text; which ones, its number decides."""
        others = [answer for answer in self._of_text[row.text] if answer != row.answer]
        start = number % max(1, len(others))
        return [*others[start:], *others[:start]][: self._settings.beside]

    def _vectors(self, texts: Sequence[str]) -> Tensor:
        """Return the published encoder's vectors (n, d) of texts, each read once."""
        new = [text for text in texts if text not in self._published]
        if new:
            self._published |= dict(zip(new, self._learner.published(new), strict=True))
        return torch.stack([self._published[text] for text in texts])


def _contrast(vectors: Tensor, kinds: Tensor, answers: Tensor, temperature: float) -> Tensor:
    """Return the mean over rows that share their answer with some of their kind and differ from others; 0 of none."""
    others = ~torch.eye(len(vectors), dtype=torch.bool, device=vectors.device)
    alike = (kinds[:, None] == kinds) & others
    same = alike & (answers[:, None] == answers)
    logits = (vectors @ vectors.T / temperature).masked_fill(~alike, torch.finfo(vectors.dtype).min)
    shares = logits - logits.logsumexp(dim=1, keepdim=True)
    counted = same.any(dim=1) & (alike & ~same).any(dim=1)
    if not counted.any():
        return vectors.sum() * 0
    return -((shares * same).sum(dim=1)[counted] / same.sum(dim=1)[counted]).mean()


def _numbers(keys: Sequence[object]) -> Tensor:
    known: dict[object, int] = {}
    return torch.tensor([known.setdefault(key, len(known)) for key in keys])


_ANSWERS = (2, 3, 4, 6)
"""Different answers among the rows of one question that stand together; the number is drawn."""


class KindBatches:
    """All rows once an epoch, some of one question and few answers together; the same for a seed and an epoch."""

    def __init__(self, rows: Sequence[TrainingRow], alike: int, size: int, seed: int) -> None:
        self._alike, self._size, self._seed = alike, size, seed
        kinds: dict[tuple[str, str], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for number, row in enumerate(rows):
            kinds[row.file, row.group][row.answer_key].append(number)
        self._kinds = list(kinds.values())

    def __call__(self, epoch: int) -> list[list[int]]:
        """Return the epoch's batches of row numbers."""
        draw = random.Random(f"{self._seed}:{epoch}")
        together = [rows for answers in self._kinds for rows in self._together(answers, draw)]
        draw.shuffle(together)
        batches: list[list[int]] = [[]]
        for rows in together:
            if batches[-1] and len(batches[-1]) + len(rows) > self._size:
                batches.append([])
            batches[-1] += rows
        return batches

    def _together(self, answers: Mapping[str, Sequence[int]], draw: random.Random) -> Iterator[list[int]]:
        """Yield the rows of one question, those of few answers at a time, as many of each as fit."""
        left = {answer: draw.sample(numbers, len(numbers)) for answer, numbers in answers.items()}
        while left:
            often = [answer for answer, numbers in left.items() if len(numbers) > 1]
            pool = often if len(often) > 1 else list(left)
            chosen = draw.sample(pool, min(len(pool), draw.choice(_ANSWERS)))
            each = -(-self._alike // len(chosen))
            rows = [number for answer in chosen for number in left[answer][:each]][: self._alike]
            taken = set(rows)
            for answer in chosen:
                left[answer] = [number for number in left[answer] if number not in taken]
                if not left[answer]:
                    del left[answer]
            yield rows
