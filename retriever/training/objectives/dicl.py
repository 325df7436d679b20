"""DICL's objective: a query nearer to its answer than its parts, its wrong answers and other queries (section 3.3).

Every text is read as inference reads it: what has no instruction is read under the default one, and the instruction
alone is the prompt of an empty text.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from retriever.training.loss_parts import Negatives
from retriever.training.losses import DICL_TEMPERATURE, MARGIN, DiclEmbeddings, dicl, tiered
from retriever.training.objectives.base import (
    BatchSettings,
    Learner,
    ObjectiveSettings,
    TextBatches,
    positive_sets,
    row_keys,
)
from retriever.training.objectives.reading import Prompts, VectorReader
from retriever.training.pairs import NEGATIVES, HardNegatives, dicl_examples
from retriever.training.prompt_batches import PaddedRows, pad_rows
from retriever.training.rows import TrainingRow
from retriever.training.settings import Count, Positive


@dataclass(frozen=True, slots=True)
class DiclSettings(ObjectiveSettings):
    """Settings of DICL's objective.

    Attributes:
        margin: g of the two hinge losses.
        temperature: tau, of the tiers too.
        tiered: add the tiered ranking loss (appendix A), with the questions and texts of `wrong_parts`.
        negatives: most wrong answers of a row.
    """

    margin: Annotated[float, Field(ge=0, le=2)] = MARGIN
    temperature: Positive = DICL_TEMPERATURE
    tiered: bool = False
    negatives: Count = NEGATIVES


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
        examples = [self._examples[row] for row in batch]
        prompts = Prompts()
        queries = [prompts.place(example.text, example.instruction) for example in examples]
        texts = [prompts.place(example.text, "") for example in examples]
        instructions = [prompts.place("", example.instruction) for example in examples]
        positives = [prompts.place(example.positive, "") for example in examples]
        wrong = [[prompts.place(text, "") for text in example.negatives] for example in examples]
        negatives = pad_rows(wrong, device=self._device)  # (B, H)
        sets = torch.tensor(positive_sets(examples), device=self._device)  # (B,)
        lower = self._lower(prompts, batch) if self._settings.tiered else None
        terms: dict[str, Tensor] = {}

        def loss(vectors: Tensor) -> Tensor:
            embedded = DiclEmbeddings(
                query=vectors[queries],
                query_text=vectors[texts],
                query_instruction=vectors[instructions],
                positive=vectors[positives],
                negatives=Negatives(vectors[negatives.ids], negatives.counted),
                groups=sets,
            )
            temperature = self._settings.temperature
            terms.update(dicl(embedded, margin=self._settings.margin, temperature=temperature))
            if lower is not None:
                tiers = tiered(embedded, Negatives(vectors[lower.ids], lower.counted), temperature=temperature)
                terms["tiered"] = sum(tiers.values(), start=vectors.new_zeros(()))
            return torch.stack(list(terms.values())).sum()

        total = self._reader.backward(prompts.texts, prompts.instructions, loss, held_tokens=self._held_tokens)
        return {"loss": float(total), **{name: float(term.detach()) for name, term in terms.items()}}

    def _lower(self, prompts: Prompts, batch: Sequence[int]) -> PaddedRows:
        """Return (I+ Q-), (I- Q+), I- and Q- of every row, (B, 4); an empty place is the prompt 0 and not counted."""
        places, taken = [], []
        for row, wrong in zip(batch, wrong_parts([self._rows[row] for row in batch], seed=self._seed), strict=True):
            own = self._examples[row]
            parts = [
                None if wrong.text is None else (wrong.text, own.instruction),
                None if wrong.instruction is None else (own.text, wrong.instruction),
                None if wrong.instruction is None else ("", wrong.instruction),
                None if wrong.text is None else (wrong.text, ""),
            ]
            places.append([0 if part is None else prompts.place(*part) for part in parts])
            taken.append([part is not None for part in parts])
        return PaddedRows(torch.tensor(places, device=self._device), torch.tensor(taken, device=self._device))


@dataclass(frozen=True, slots=True)
class WrongParts:
    """I-, another question, and Q-, another text, for a row's lower tiers; None where the batch has none."""

    instruction: str | None
    text: str | None


def wrong_parts(batch: Sequence[TrainingRow], *, seed: int) -> list[WrongParts]:
    """Return the wrong parts of every row, drawn from the other rows of the batch.

    I- is a question of another group with another answer; one that the batch asks of the row's own text comes first,
    for its answer is known to be another. Q- is a text with another answer; one that is asked the row's own question
    comes first. A question that the row's text answers with the row's answer, and a text that answers the row's
    question with it, are never drawn.
    """
    facts = [_Fact(row.text_key, row.group, row.answer_key) for row in batch]
    known, draw = set(facts), random.Random(seed)
    parts = []
    for own in facts:
        others = [(number, fact) for number, fact in enumerate(facts) if fact.answer != own.answer]
        questions = {
            number: fact.text == own.text
            for number, fact in others
            if fact.group != own.group and _Fact(own.text, fact.group, own.answer) not in known
        }
        texts = {
            number: fact.group == own.group
            for number, fact in others
            if fact.text != own.text and _Fact(fact.text, own.group, own.answer) not in known
        }
        question, text = _pick(questions, draw), _pick(texts, draw)
        parts.append(
            WrongParts(
                None if question is None else batch[question].instruction, None if text is None else batch[text].text
            )
        )
    return parts


class _Fact(NamedTuple):
    """A row in the form in which rows are compared."""

    text: str
    group: str
    answer: str


def _pick(candidates: Mapping[int, bool], draw: random.Random) -> int | None:
    """Return the number of a preferred candidate, of any where none is preferred, None where there is none."""
    numbers = [number for number, preferred in candidates.items() if preferred] or list(candidates)
    return draw.choice(numbers) if numbers else None
