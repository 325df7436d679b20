"""GIRCSE's objective: contrast at every soft-token step, and steps that get no worse (section 3.3).

Not in the paper: a trained encoder can teach its similarities beside. A batch's contrast says which of some dozens of
prompts belong together; the teacher says of every two of them, whatever their instructions, how much.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from retriever.core.errors import UsageError
from retriever.core.protocols import Encoder
from retriever.evaluation.asked import encode_each
from retriever.training.losses.afd import mean_similarity_error
from retriever.training.losses.gircse import TEMPERATURE, GircseLoss, gircse
from retriever.training.losses.infonce import Negatives
from retriever.training.objectives.base import Learner, ObjectiveSettings
from retriever.training.objectives.batching import BatchSettings, Keys, TextBatches
from retriever.training.objectives.contrastive import NegativePlaces, positive_sets
from retriever.training.objectives.reading import Prompts, SeparatePiece, backward, in_order, separate_pieces
from retriever.training.objectives.vectors import check_causal
from retriever.training.pairs import NEGATIVES, HardNegatives, gircse_examples
from retriever.training.passes import soft_token_states
from retriever.training.rows import TrainingRow


@dataclass(frozen=True, slots=True)
class GircseSettings(ObjectiveSettings):
    """Settings of GIRCSE's objective.

    Attributes:
        steps: K, soft tokens in training; inference may take another number.
        temperature: tau.
        weight: lambda, of the refinement beside the contrast. The contrast is the sum over the steps, as in the paper;
            the authors' code takes the mean, which with lambda / K in place of lambda has the same optimum.
        negatives: most hard negatives of a row.
        teacher: an encoder whose similarities between a batch's prompts are learned at every step; empty for none.
        teacher_weight: of these similarities beside the rest.
    """

    steps: int = 5
    temperature: float = TEMPERATURE
    weight: float = 1.0
    negatives: int = NEGATIVES
    teacher: str = ""
    teacher_weight: float = 100.0

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise UsageError(f"steps is {self.steps}; GIRCSE needs at least 1.")
        if not self.temperature > 0:
            raise UsageError(f"The temperature is {self.temperature}; it must be above 0.")
        if not self.weight >= 0:
            raise UsageError(f"weight is {self.weight}; a weight cannot be negative.")
        if self.negatives < 0:
            raise UsageError(f"negatives is {self.negatives}; it cannot be negative.")
        if not self.teacher_weight >= 0:
            raise UsageError(f"teacher_weight is {self.teacher_weight}; a weight cannot be negative.")

    @property
    def taught_by(self) -> str:
        """The teacher, unless it has no weight."""
        return self.teacher if self.teacher_weight else ""


class GircseObjective:
    """Losses and gradients of a batch of rows.

    Equal prompts of a batch are read once, whichever side they stand on. Rows that share an answer are no positives of
    each other here, so ``paired`` has no meaning. The teacher, which is that of the settings, is never trained;
    ``mined`` are hard negatives of every row.
    """

    def __init__(
        self,
        learner: Learner,
        rows: Sequence[TrainingRow],
        settings: GircseSettings,
        batch: BatchSettings,
        *,
        mined: Sequence[HardNegatives] | None = None,
        teacher: Encoder | None = None,
    ) -> None:
        check_causal(learner)
        self._learner = learner
        self._settings = settings
        self._teacher = teacher
        self._held_tokens = batch.held_tokens
        self._examples = gircse_examples(rows, seed=learner.seed, negatives=settings.negatives, mined=mined)
        keys = [Keys(row.file, row.text, example.same) for row, example in zip(rows, self._examples, strict=True)]
        self.batches = TextBatches(keys, batch.unpaired(), learner.seed)

    def backward(self, batch: Sequence[int]) -> Mapping[str, float]:
        """Add the gradients of a batch to the parameters; return ``loss``, ``contrast`` and ``refinement``.

        With a teacher, ``taught`` is its error, unweighted.
        """
        examples = [self._examples[row] for row in batch]
        prompts = Prompts()
        queries = [prompts.place(one.text, one.instruction) for one in examples]
        documents = [prompts.place(one.positive, one.positive_instruction) for one in examples]
        wrong = [[prompts.place(text, one.positive_instruction) for text in one.negatives] for one in examples]
        adapted, steps = self._learner.adapted, self._settings.steps
        read = separate_pieces(self._learner.tokeniser.separate(prompts.texts, prompts.instructions), tail=steps)
        device = adapted.backbone.device
        sets = torch.tensor(positive_sets(examples), device=device)  # (B,)
        negatives = NegativePlaces.of(wrong, device=device)
        taught = None if self._teacher is None else self._taught(self._teacher, prompts)  # (N, e)
        found: list[GircseLoss] = []
        errors: list[Tensor] = []

        def encode(piece: SeparatePiece) -> list[Tensor]:
            return [soft_token_states(adapted, piece.prompts, steps=steps)]  # (b, K, d)

        def loss(outputs: Sequence[Tensor]) -> Tensor:
            states = in_order(read, outputs[0]).transpose(0, 1)  # (K, N, d)
            parts = gircse(
                states[:, queries],
                states[:, documents],
                groups=sets,
                negatives=None if negatives is None else Negatives(states[:, negatives.places], negatives.mask),
                temperature=self._settings.temperature,
                weight=self._settings.weight,
            )
            found.append(parts)
            if taught is None:
                return parts.total
            errors.append(mean_similarity_error(states, taught))
            return parts.total + self._settings.teacher_weight * errors[0]

        total = backward(encode, read, loss, held_tokens=self._held_tokens)
        losses = {
            "loss": float(total),
            "contrast": float(found[0].contrast.detach()),
            "refinement": float(found[0].refinement.detach()),
        }
        return losses | {"taught": float(errors[0].detach())} if errors else losses

    def _taught(self, teacher: Encoder, prompts: Prompts) -> Tensor:
        """Return the teacher's vectors of the prompts (N, e), in their order."""
        vectors = encode_each(teacher, prompts.texts, prompts.instructions)
        return torch.as_tensor(vectors, device=self._learner.adapted.backbone.device)
