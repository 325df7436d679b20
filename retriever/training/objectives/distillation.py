"""Objectives that learn another encoder's vectors: its similarities beside another objective, or a fusion with it.

Similarities: plain search asks nothing, and a model that learns only from questions forgets it. The teacher's vectors
have another width, so its cosines are taught, of texts that it finds alike and of others: two texts drawn from a corpus
have next to nothing in common, and among a few dozen there is hardly a pair that a search would have to tell apart.

Fusion: a model is trained towards itself and the model it was before ("General-Purpose Instruction-Aware Text
Embeddings via Dual-Level Contrastive Learning", section 3.4). The targets are computed once, before the student's
training changes the model they come from.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from retriever.core.protocols import Encoder
from retriever.encoders.behind_prompt import untrained_look_ahead
from retriever.evaluation.metrics import encode_each
from retriever.training.loss_parts import NEW_WEIGHT, fused_target, mean_similarity_error, squared_error
from retriever.training.objectives.base import BatchSettings, Keys, Learner, Objective, TextBatches
from retriever.training.objectives.reading import Piece, VectorReader, add_up, in_order
from retriever.training.rows import TrainingRow
from retriever.training.settings import AtLeastTwo, Settings, Share, Weight

BASE_TEACHER = "base"  # stands for the model in training, as it was before
MOST_TEXTS = 20_000
"""Texts of the pool at most: the teacher reads them all before the first step and each is compared with each, which
takes minutes for so many and hours for ten times as many; groups of related texts are found among these too."""
GROUP_SIZE = 4  # texts of a group: one and some of those nearest to it
NEAREST_TEXTS = 12  # the nearest texts that the others of a group are drawn from
_COMPARED_ROWS = 1024


@dataclass(frozen=True, slots=True)
class SimilaritySettings(Settings):
    """Settings of learning similarities from a teacher.

    Attributes:
        teacher: the encoder's name, as the catalog has it, or ``base`` for the model in training as it was before.
        weight: of the similarities beside the other objective; 0 for none.
        texts: most texts compared in a step.
    """

    teacher: str = "minilm"
    weight: Weight = 1.0
    texts: AtLeastTwo = 32


class SimilarityObjective:
    """Another objective, and with every batch the teacher's similarities of some texts.

    Its batches are those of the other objective, ``inner``. The texts are drawn from the rows, as many as the batches
    of an epoch compare and 20,000 at most; the teacher, never trained, reads them once, here. ``held_tokens`` as in
    `BatchSettings`, ``steps`` as for `VectorReader`.
    """

    def __init__(
        self,
        inner: Objective,
        learner: Learner,
        rows: Sequence[TrainingRow],
        settings: SimilaritySettings,
        teacher: Encoder,
        *,
        held_tokens: int,
        steps: int | None = None,
    ) -> None:
        self.batches = inner.batches
        self._inner = inner
        self._reader = VectorReader(learner, steps=steps)
        self._device = learner.adapted.backbone.device
        self._seed = learner.seed
        self._settings = settings
        self._held_tokens = held_tokens
        texts = pool(rows, min(settings.texts * len(inner.batches(0)), MOST_TEXTS), learner.seed)
        self._related = RelatedTexts(texts, np.asarray(teacher.encode(texts)))

    def backward(self, batch: Sequence[int]) -> Mapping[str, float]:
        """Add the gradients of both; return the inner losses with the new ``loss``, and ``similarity`` unweighted."""
        losses = self._inner.backward(batch)
        drawn = self._drawn(batch)
        texts = [self._related.texts[number] for number in drawn]
        taught = torch.as_tensor(self._related.vectors[drawn], device=self._device)  # (n, e)

        def loss(student: Tensor) -> Tensor:
            return self._settings.weight * mean_similarity_error(student.unsqueeze(0), taught)

        added = float(self._reader.backward(texts, [""] * len(texts), loss, held_tokens=self._held_tokens))
        return {**losses, "loss": losses["loss"] + added, "similarity": added / self._settings.weight}

    def drawn(self, batch: Sequence[int]) -> list[str]:
        """Return the different texts compared beside a batch, which seed and row numbers alone decide."""
        return [self._related.texts[number] for number in self._drawn(batch)]

    def _drawn(self, batch: Sequence[int]) -> list[int]:
        draw = random.Random(f"{self._seed}:{','.join(map(str, batch))}")
        return self._related.draw(self._settings.texts, draw)


def pool(rows: Sequence[TrainingRow], count: int, seed: int) -> list[str]:
    """Return at most ``count`` different texts, questions and answers of the rows, drawn with a seed."""
    texts = dict.fromkeys(text for row in rows for text in (row.text, row.instruction, row.answer) if text.strip())
    return random.Random(seed).sample(list(texts), min(count, len(texts)))


class RelatedTexts:
    """A pool of n different texts with a teacher's vectors (n, e) of length 1, drawn in groups."""

    def __init__(self, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        self.texts = texts
        self.vectors = vectors
        self._nearest = nearest(vectors, min(NEAREST_TEXTS, len(texts) - 1))

    def draw(self, count: int, draw: random.Random) -> list[int]:
        """Return the numbers of ``count`` different texts, group after group; of all, where there are no more."""
        chosen: dict[int, None] = {}
        for first in draw.sample(range(len(self.texts)), len(self.texts)):
            if len(chosen) >= count:
                break
            near = [int(number) for number in self._nearest[first]]
            chosen |= dict.fromkeys([first, *draw.sample(near, min(GROUP_SIZE - 1, len(near)))])
        return list(chosen)[:count]


def nearest(vectors: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Return the numbers of the ``count`` rows nearest to each of (n, e) but for itself, (n, count).

    The nearest come first.
    """
    near = np.empty((len(vectors), count), dtype=np.int64)
    for start in range(0, len(vectors) if count else 0, _COMPARED_ROWS):
        distances = -(vectors[start : start + _COMPARED_ROWS] @ vectors.T)  # (b, n)
        distances[np.arange(len(distances)), start + np.arange(len(distances))] = np.inf
        columns = np.argpartition(distances, count - 1, axis=1)[:, :count]  # (b, count)
        order = np.take_along_axis(distances, columns, axis=1).argsort(axis=1, kind="stable")
        near[start : start + _COMPARED_ROWS] = np.take_along_axis(columns, order, axis=1)
    return near


@dataclass(frozen=True, slots=True)
class FusionSettings(Settings):
    """Settings of how the two models are fused.

    Attributes:
        new_weight: lambda, the trained model's share; the paper stays within 0.4 and 0.6.
    """

    new_weight: Share = NEW_WEIGHT


@torch.no_grad()
def fused_targets(
    learner: Learner,
    texts: Sequence[str],
    instructions: Sequence[str],
    settings: FusionSettings,
    *,
    steps: int | None = None,
    base: Encoder | None = None,
) -> Tensor:
    """Return eq. 4 for every text under the instruction beside it: lambda E_new + (1 - lambda) E_base.

    The target vectors (n, d) are float32 rows of length 1 on the CPU. E_new is the model as it is now, E_base the
    encoder that was trained further; without one the bare backbone, its look-ahead embeddings untrained. ``steps`` as
    for `VectorReader`.
    """
    reader = VectorReader(learner, steps=steps)
    read = reader.pieces(texts, instructions)
    known = None if base is None else torch.as_tensor(encode_each(base, texts, instructions))  # (n, d)
    adapted = learner.adapted
    began = {
        name: untrained_look_ahead(adapted.backbone, len(values)).float() for name, values in adapted.learned.items()
    }
    targets = []
    for piece in read:
        new = reader.read(piece, dropout=0.0)
        if known is None:
            with adapted.base(), adapted.holding(began):
                old = reader.read(piece, dropout=0.0)
        else:
            old = known[piece.rows].to(new.device)
        targets.append(fused_target(new, old, new_weight=settings.new_weight).cpu())
    return in_order(read, torch.cat(targets))


class FusionObjective:
    """Loss and gradients of a batch of texts: the squared distance of their vectors from the targets (eq. 5).

    Every text has its instruction and its target vector (n, d). The sum over texts adds up piece by piece, so that one
    piece is held at a time whatever ``held_tokens`` says. No text is compared with another, so ``paired`` has no
    meaning.
    """

    def __init__(
        self,
        learner: Learner,
        texts: Sequence[str],
        instructions: Sequence[str],
        targets: Tensor,
        batch: BatchSettings,
        *,
        steps: int | None = None,
    ) -> None:
        self._reader = VectorReader(learner, steps=steps)
        self._texts, self._instructions, self._targets = texts, instructions, targets
        self._device = learner.adapted.backbone.device
        keys = [Keys("", text, number) for number, text in enumerate(texts)]
        self.batches = TextBatches(keys, batch.unpaired(), learner.seed)

    def backward(self, batch: Sequence[int]) -> Mapping[str, float]:
        """Add the gradients of a batch to the parameters; return ``loss``."""
        texts = [self._texts[row] for row in batch]
        read = self._reader.pieces(texts, [self._instructions[row] for row in batch])
        targets = self._targets[list(batch)].to(self._device)  # (B, d)

        def loss(piece: Piece) -> Tensor:
            return squared_error(self._reader.read(piece), targets[piece.rows]) * (len(piece.rows) / len(batch))

        return {"loss": float(add_up(loss, read))}
