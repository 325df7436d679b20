"""DICL's objective: a query nearer to its answer than its parts, its wrong answers and other queries (section 3.3).

Every text is read as inference reads it: what has no instruction is read under the default one, and the instruction
alone is the prompt of an empty text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from retriever.core.errors import UsageError
from retriever.training.losses.dicl import MARGIN, TEMPERATURE, DiclEmbeddings, dicl
from retriever.training.losses.infonce import Negatives
from retriever.training.losses.reversal import GridCells, reversal
from retriever.training.losses.tiered import TieredEmbeddings, tiered
from retriever.training.objectives.base import Learner, ObjectiveSettings
from retriever.training.objectives.batching import BatchSettings, TextBatches, row_keys
from retriever.training.objectives.contrastive import NegativePlaces, positive_sets, wrong_parts
from retriever.training.objectives.reading import Piece, Prompts, backward, in_order
from retriever.training.objectives.vectors import VectorReader
from retriever.training.pairs import NEGATIVES, ContrastiveExample, HardNegatives, dicl_examples
from retriever.training.rows import TrainingRow


@dataclass(frozen=True, slots=True)
class DiclSettings(ObjectiveSettings):
    """Settings of DICL's objective.

    Attributes:
        margin: g of the two hinge losses.
        temperature: tau, of the tiers too.
        tiered: add the tiered ranking loss (appendix A), with the questions and texts of `wrong_parts`.
        negatives: most wrong answers of a row.
        reversal: weight of what asks directly that similarities turn over (`losses.reversal`), at the same temperature.
    """

    margin: float = MARGIN
    temperature: float = TEMPERATURE
    tiered: bool = False
    negatives: int = NEGATIVES
    reversal: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.margin <= 2:
            raise UsageError(f"margin is {self.margin}; cosines differ by 0 to 2.")
        if not self.temperature > 0:
            raise UsageError(f"The temperature is {self.temperature}; it must be above 0.")
        if self.negatives < 0:
            raise UsageError(f"negatives is {self.negatives}; it cannot be negative.")
        if not self.reversal >= 0:
            raise UsageError(f"reversal is {self.reversal}; a weight cannot be negative.")


class DiclObjective:
    """Losses and gradients of a batch of rows.

    Equal prompts of a batch are read once, and a text's questions together. Rows that share an answer are no positives
    of each other here, so ``paired`` has no meaning. ``mined`` are hard negatives of every row.
    """

    def __init__(
        self,
        learner: Learner,
        rows: Sequence[TrainingRow],
        settings: DiclSettings,
        batch: BatchSettings,
        *,
        mined: Sequence[HardNegatives] | None = None,
    ) -> None:
        self._reader = VectorReader(learner)
        self._device = learner.adapted.backbone.device
        self._seed = learner.seed
        self._rows = rows
        self._settings = settings
        self._held_tokens = batch.held_tokens
        self._examples = dicl_examples(rows, seed=learner.seed, negatives=settings.negatives, mined=mined)
        self.batches = TextBatches(row_keys(rows), batch.unpaired(), learner.seed)

    def backward(self, batch: Sequence[int]) -> Mapping[str, float]:
        """Add the gradients of a batch to the parameters; return ``loss`` and each term that makes it up."""
        places = _Places([self._examples[row] for row in batch], self._device)
        if self._settings.tiered:
            places.add_tiers([self._rows[row] for row in batch], self._seed)
        read = self._reader.pieces(places.prompts.texts, places.prompts.instructions)
        terms: dict[str, Tensor] = {}

        def encode(piece: Piece) -> list[Tensor]:
            return [self._reader.read(piece)]

        def loss(outputs: Sequence[Tensor]) -> Tensor:
            terms.update(self._terms(places, in_order(read, outputs[0])))
            weights = {"reversal": self._settings.reversal}
            return torch.stack([weights.get(name, 1.0) * term for name, term in terms.items()]).sum()

        total = backward(encode, read, loss, held_tokens=self._held_tokens)
        return {"loss": float(total), **{name: float(term.detach()) for name, term in terms.items()}}

    def _terms(self, places: "_Places", vectors: Tensor) -> dict[str, Tensor]:
        """Return every term of the objective, from the vectors (N, d) of the batch's prompts."""
        batch = places.embeddings(vectors)
        temperature = self._settings.temperature
        parts = dicl(batch, margin=self._settings.margin, temperature=temperature)
        found = {
            "improvement": parts.improvement,
            "contrast": parts.contrast,
            "batch": parts.batch,
            "symmetric": parts.symmetric,
        }
        if self._settings.tiered:
            found["tiered"] = tiered(places.tiers(batch, vectors), temperature=temperature).total
        if self._settings.reversal:
            found["reversal"] = reversal(batch.query, places.cells, temperature=temperature)
        return found


class _Places:
    """Which prompt stands for which part of which row."""

    def __init__(self, examples: Sequence[ContrastiveExample], device: torch.device) -> None:
        self.prompts = Prompts()
        place = self.prompts.place
        self._device = device
        self._examples = examples
        self._query = [place(one.text, one.instruction) for one in examples]
        self._text = [place(one.text, "") for one in examples]
        self._instruction = [place("", one.instruction) for one in examples]
        self._positive = [place(one.positive, "") for one in examples]
        self._negatives = NegativePlaces.of(
            [[place(text, "") for text in one.negatives] for one in examples], device=device
        )
        self._sets = torch.tensor(positive_sets(examples), device=device)  # (B,)
        questions, answers = zip(*(one.same for one in examples), strict=True)
        self.cells = GridCells.of(questions, [one.text for one in examples], answers, device=device)
        self._tiers: list[list[int]] = []
        self._taken: list[list[bool]] = []

    def add_tiers(self, rows: Sequence[TrainingRow], seed: int) -> None:
        """Add (I+ Q-), (I- Q+), I- and Q- of every row; an empty place is the prompt 0 and not taken."""
        for one, wrong in zip(self._examples, wrong_parts(rows, seed=seed), strict=True):
            parts = [
                None if wrong.text is None else (wrong.text, one.instruction),
                None if wrong.instruction is None else (one.text, wrong.instruction),
                None if wrong.instruction is None else ("", wrong.instruction),
                None if wrong.text is None else (wrong.text, ""),
            ]
            self._tiers.append([0 if part is None else self.prompts.place(*part) for part in parts])
            self._taken.append([part is not None for part in parts])

    def embeddings(self, vectors: Tensor) -> DiclEmbeddings:
        """Return the batch as DICL's losses take it, from the vectors (N, d) of all prompts."""
        negatives = self._negatives
        return DiclEmbeddings(
            query=vectors[self._query],
            query_text=vectors[self._text],
            query_instruction=vectors[self._instruction],
            positive=vectors[self._positive],
            negatives=None if negatives is None else Negatives(vectors[negatives.places], negatives.mask),
            groups=self._sets,
        )

    def tiers(self, batch: DiclEmbeddings, vectors: Tensor) -> TieredEmbeddings:
        """Return the batch as the tiered loss takes it."""
        lower = vectors[torch.tensor(self._tiers, device=self._device)]  # (B, 4, d)
        return TieredEmbeddings(
            target=batch.positive,
            both=batch.query,
            instruction=batch.query_instruction,
            query=batch.query_text,
            half_wrong=lower[:, :2],
            wrong=lower[:, 2:],
            taken=torch.tensor(self._taken, device=self._device),
            external=batch.negatives,
            groups=batch.groups,
        )
