"""GIRCSE's objective: contrast at every soft-token step, and steps that get no worse (section 3.3).

Not in the paper: a trained encoder can teach its similarities beside. A batch's contrast says which of some dozens of
prompts belong together; the teacher says of every two of them, whatever their instructions, how much.
"""

import random
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
from retriever.training.losses.reversal import GridCells, reversal
from retriever.training.objectives.base import Learner, ObjectiveSettings
from retriever.training.objectives.batching import BatchSettings, TextBatches, row_keys
from retriever.training.objectives.contrastive import (
    NegativePlaces,
    own_text_negatives,
    positive_sets,
    with_batch_partners,
)
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
        reversal: weight of what asks directly that similarities turn over after the last step (`losses.reversal`), at
            the same temperature.
        teacher: an encoder whose similarities between a batch's prompts are learned at every step; empty for none.
        teacher_weight: of these similarities beside the rest.
    """

    steps: int = 5
    temperature: float = TEMPERATURE
    weight: float = 1.0
    negatives: int = NEGATIVES
    reversal: float = 0.0
    teacher: str = ""
    teacher_weight: float = 100.0

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise UsageError(f"steps is {self.steps}; GIRCSE needs at least 1.")
        if not self.temperature > 0:
            raise UsageError(f"The temperature is {self.temperature}; it must be above 0.")
        for name in ("weight", "reversal", "teacher_weight"):
            if not getattr(self, name) >= 0:
                raise UsageError(f"{name} is {getattr(self, name)}; a weight cannot be negative.")
        if self.negatives < 0:
            raise UsageError(f"negatives is {self.negatives}; it cannot be negative.")

    @property
    def taught_by(self) -> str:
        """The teacher, unless it has no weight."""
        return self.teacher if self.teacher_weight else ""


class GircseObjective:
    """Losses and gradients of a batch of rows.

    Equal prompts of a batch are read once, whichever side they stand on. A row's text under another question of the
    batch is a negative. Rows that share an answer are positives of each other in grids alone, so ``paired`` has no
    meaning. The teacher, which is that of the settings, is never trained;
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
        self._grid = batch.grid
        self._examples = gircse_examples(rows, seed=learner.seed, negatives=settings.negatives, mined=mined)
        self.batches = TextBatches(row_keys(rows), batch.unpaired(), learner.seed)

    def backward(self, batch: Sequence[int]) -> Mapping[str, float]:
        """Add the gradients of a batch to the parameters; return ``loss``, ``contrast`` and ``refinement``.

        With a weight for it there is ``reversal``, and with a teacher ``taught``, its error; both are unweighted.
        """
        examples = [self._examples[row] for row in batch]
        if self._grid:
            draw = random.Random(f"{self._learner.seed}:{','.join(map(str, batch))}")
            examples = with_batch_partners(examples, draw)
        prompts = Prompts()
        queries = [prompts.place(one.text, one.instruction) for one in examples]
        documents = [prompts.place(one.positive, one.positive_instruction) for one in examples]
        numbers = positive_sets(examples)
        wrong = [
            [*(prompts.place(text, one.positive_instruction) for text in one.negatives), *(queries[row] for row in own)]
            for one, own in zip(examples, own_text_negatives(examples, numbers), strict=True)
        ]
        adapted, steps = self._learner.adapted, self._settings.steps
        read = separate_pieces(self._learner.tokeniser.separate(prompts.texts, prompts.instructions), tail=steps)
        device = adapted.backbone.device
        sets = torch.tensor(numbers, device=device)  # (B,)
        negatives = NegativePlaces.of(wrong, device=device)
        taught = None if self._teacher is None else self._taught(self._teacher, prompts)  # (N, e)
        found: list[GircseLoss] = []
        beside: dict[str, Tensor] = {}
        weights = {"reversal": self._settings.reversal, "taught": self._settings.teacher_weight}
        questions, answers = zip(*(one.same for one in examples), strict=True)
        cells = GridCells.of(questions, [one.text for one in examples], answers, device=device)

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
            if weights["reversal"]:
                beside["reversal"] = reversal(states[-1, queries], cells, temperature=self._settings.temperature)
            if taught is not None:
                beside["taught"] = mean_similarity_error(states, taught)
            return torch.stack([parts.total, *(weights[name] * term for name, term in beside.items())]).sum()

        total = backward(encode, read, loss, held_tokens=self._held_tokens)
        terms = {"contrast": found[0].contrast, "refinement": found[0].refinement, **beside}
        return {"loss": float(total), **{name: float(term.detach()) for name, term in terms.items()}}

    def _taught(self, teacher: Encoder, prompts: Prompts) -> Tensor:
        """Return the teacher's vectors of the prompts (N, e), in their order."""
        vectors = encode_each(teacher, prompts.texts, prompts.instructions)
        return torch.as_tensor(vectors, device=self._learner.adapted.backbone.device)
