"""GIRCSE's objective: contrast at every soft-token step, and steps that get no worse (section 3.3).

Not in the paper: a trained encoder can teach its similarities beside. A batch's contrast says which of some dozens of
prompts belong together; the teacher says of every two of them, whatever their instructions, how much.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from retriever.core.protocols import Encoder
from retriever.evaluation.metrics import encode_each
from retriever.training.loss_parts import Negatives, mean_similarity_error
from retriever.training.losses import GIRCSE_TEMPERATURE, refinement, stepwise
from retriever.training.objectives.base import (
    BatchSettings,
    Learner,
    ObjectiveSettings,
    TextBatches,
    positive_sets,
    row_keys,
)
from retriever.training.objectives.reading import Prompts, VectorReader
from retriever.training.pairs import NEGATIVES, ContrastiveExample, HardNegatives, gircse_examples
from retriever.training.prompt_batches import pad_rows
from retriever.training.rows import TrainingRow
from retriever.training.settings import AtLeastOne, Count, Positive, Weight


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

    steps: AtLeastOne = 5
    temperature: Positive = GIRCSE_TEMPERATURE
    weight: Weight = 1.0
    negatives: Count = NEGATIVES
    teacher: str = ""
    teacher_weight: Weight = 100.0

    @property
    def taught_by(self) -> str:
        """The teacher, unless it has no weight."""
        return self.teacher if self.teacher_weight else ""


class GircseObjective:
    """Losses and gradients of a batch of rows.

    Equal prompts of a batch are read once, whichever side they stand on. A row's text under another question of the
    batch is a negative. Rows that share an answer are no positives of each other, so ``paired`` has no meaning. The
    teacher, which is that of the settings, is never trained; ``mined`` are hard negatives of every row.
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
        self._reader = VectorReader(learner, steps=settings.steps, every_step=True)
        self._device = learner.adapted.backbone.device
        self._settings = settings
        self._teacher = teacher
        self._held_tokens = batch.held_tokens
        self._examples = gircse_examples(rows, seed=learner.seed, negatives=settings.negatives, mined=mined)
        self.batches = TextBatches(row_keys(rows), batch.unpaired(), learner.seed)

    def backward(self, batch: Sequence[int]) -> Mapping[str, float]:
        """Add the gradients of a batch to the parameters; return ``loss``, ``contrast`` and ``refinement``.

        With a teacher there is ``taught``, its error, unweighted.
        """
        examples = [self._examples[row] for row in batch]
        prompts = Prompts()
        queries = [prompts.place(example.text, example.instruction) for example in examples]
        documents = [prompts.place(example.positive, example.positive_instruction) for example in examples]
        numbers = positive_sets(examples)
        wrong = [
            [
                *(prompts.place(text, example.positive_instruction) for text in example.negatives),
                *(queries[row] for row in own),
            ]
            for example, own in zip(examples, own_text_negatives(examples, numbers), strict=True)
        ]
        sets = torch.tensor(numbers, device=self._device)  # (B,)
        negatives = pad_rows(wrong, device=self._device)
        taught = None
        if self._teacher is not None:
            vectors = encode_each(self._teacher, prompts.texts, prompts.instructions)
            taught = torch.as_tensor(vectors, device=self._device)  # (N, e)
        terms: dict[str, Tensor] = {}

        def loss(vectors: Tensor) -> Tensor:
            states = vectors.transpose(0, 1)  # (K, N, d)
            by_step = stepwise(
                states[:, queries],
                states[:, documents],
                groups=sets,
                negatives=Negatives(states[:, negatives.ids], negatives.counted),
                temperature=self._settings.temperature,
            )
            terms.update(contrast=by_step.sum(), refinement=refinement(by_step))
            total = terms["contrast"] + self._settings.weight * terms["refinement"]
            if taught is None:
                return total
            terms["taught"] = mean_similarity_error(states, taught)
            return total + self._settings.teacher_weight * terms["taught"]

        total = self._reader.backward(prompts.texts, prompts.instructions, loss, held_tokens=self._held_tokens)
        return {"loss": float(total), **{name: float(term.detach()) for name, term in terms.items()}}


def own_text_negatives(examples: Sequence[ContrastiveExample], sets: Sequence[int]) -> list[list[int]]:
    """Return, for every example of a batch, those with its text under another question, which it is to be apart from.

    Examples of equal ``sets`` (`positive_sets`) are to be near the same answer and cannot be told apart.
    """
    by_text: dict[str, list[int]] = defaultdict(list)
    for row, example in enumerate(examples):
        by_text[example.text].append(row)
    return [
        [row for row in by_text[example.text] if examples[row].same[0] != example.same[0] and sets[row] != own]
        for example, own in zip(examples, sets, strict=True)
    ]
