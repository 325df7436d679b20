"""Asymmetric fusion distillation: a model is trained towards itself and the model it was before, fused (section 3.4).

Source: "General-Purpose Instruction-Aware Text Embeddings via Dual-Level Contrastive Learning". The targets are
computed once, before the student's training changes the model they come from.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from retriever.core.errors import UsageError
from retriever.core.protocols import Encoder
from retriever.encoders.instemb import untrained_look_ahead
from retriever.evaluation.asked import encode_each
from retriever.training.adapters import Adapted
from retriever.training.losses.afd import NEW_WEIGHT, fused_target, squared_error
from retriever.training.objectives.base import Learner
from retriever.training.objectives.batching import BatchSettings, Keys, TextBatches
from retriever.training.objectives.reading import Piece, add_up, in_order
from retriever.training.objectives.vectors import VectorReader


@dataclass(frozen=True, slots=True)
class FusionSettings:
    """Settings of how the two models are fused.

    Attributes:
        new_weight: lambda, the trained model's share; the paper stays within 0.4 and 0.6.
    """

    new_weight: float = NEW_WEIGHT

    def __post_init__(self) -> None:
        if not 0 <= self.new_weight <= 1:
            raise UsageError(f"new_weight is {self.new_weight}.", hint="Give a number from 0 to 1, such as 0.5.")


@dataclass(frozen=True, slots=True)
class FusedTargets:
    """The target vectors (n, d), float32 rows of length 1 on the CPU, that the student is trained towards."""

    texts: Sequence[str]
    instructions: Sequence[str]
    vectors: Tensor = field(repr=False)


@torch.no_grad()
def fused_targets(
    learner: Learner,
    texts: Sequence[str],
    instructions: Sequence[str],
    settings: FusionSettings,
    *,
    steps: int | None = None,
    base: Encoder | None = None,
) -> FusedTargets:
    """Return eq. 4 for every text under the instruction beside it: lambda E_new + (1 - lambda) E_base.

    E_new is the model as it is now, E_base the encoder that was trained further; without one the bare backbone, its
    look-ahead embeddings untrained. ``steps`` as for `VectorReader`.

    Raises:
        UsageError: there is no text, or not one instruction for each.
    """
    if not texts or len(texts) != len(instructions):
        raise UsageError(f"{len(texts)} texts and {len(instructions)} instructions were given; give one for each text.")
    reader = VectorReader(learner, steps=steps)
    read = reader.pieces(texts, instructions)
    known = None if base is None else torch.as_tensor(encode_each(base, texts, instructions))  # (n, d)
    found = []
    for piece in read:
        new = reader.read(piece, dropout=0.0)
        if known is None:
            with _before_training(learner.adapted):
                old = reader.read(piece, dropout=0.0)
        else:
            old = known[piece.rows].to(new.device)
        found.append(fused_target(new, old, new_weight=settings.new_weight).cpu())
    return FusedTargets(texts, instructions, in_order(read, torch.cat(found)))


class FusionObjective:
    """Loss and gradients of a batch of texts: the squared distance of their vectors from the targets (eq. 5).

    The sum over texts adds up piece by piece, so that one piece is held at a time whatever ``held_tokens`` says. No
    text is compared with another, so ``paired`` has no meaning.
    """

    def __init__(
        self, learner: Learner, targets: FusedTargets, batch: BatchSettings, *, steps: int | None = None
    ) -> None:
        self._reader = VectorReader(learner, steps=steps)
        self._targets = targets
        self._device = learner.adapted.backbone.device
        keys = [Keys("", text, number) for number, text in enumerate(targets.texts)]
        self.batches = TextBatches(keys, batch.alone(), learner.seed)

    def backward(self, batch: Sequence[int]) -> Mapping[str, float]:
        """Add the gradients of a batch to the parameters; return ``loss``."""
        texts = [self._targets.texts[row] for row in batch]
        read = self._reader.pieces(texts, [self._targets.instructions[row] for row in batch])
        targets = self._targets.vectors[list(batch)].to(self._device)  # (B, d)

        def loss(piece: Piece) -> Tensor:
            return squared_error(self._reader.read(piece), targets[piece.rows]) * (len(piece.rows) / len(batch))

        return {"loss": float(add_up(loss, read))}


@contextmanager
def _before_training(adapted: Adapted) -> Iterator[None]:
    """Within the block the model and its look-ahead embeddings are the untrained ones."""
    with adapted.base():
        learned = adapted.look_ahead
        if learned is None:
            yield
            return
        trained = learned.data
        try:
            learned.data = untrained_look_ahead(adapted.backbone, len(learned)).float()
            yield
        finally:
            learned.data = trained
