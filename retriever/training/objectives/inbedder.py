"""InBedder's objective: the answer's tokens, stopwords removed, predicted from text and question (section 3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from retriever.training.loss_parts import mean_cross_entropy
from retriever.training.objectives.base import BatchSettings, Learner, ObjectiveSettings, TextBatches, row_keys
from retriever.training.objectives.reading import Piece, SeparatePiece, add_up, pieces, separate_pieces
from retriever.training.pairs import remove_stopwords
from retriever.training.passes import answer_logits, masked_answer_logits
from retriever.training.prompt_batches import SeparatePrompts
from retriever.training.rows import TrainingRow


@dataclass(frozen=True, slots=True)
class InBedderSettings(ObjectiveSettings):
    """Settings of InBedder's objective.

    Attributes:
        end: a causal model also learns to end the answer; a masked one has no token for it.
    """

    end: bool = True


class InBedderObjective:
    """Loss and gradients of a batch of rows: the mean over all answer tokens of the batch of -log P(token).

    The sum over tokens adds up piece by piece, so that one piece is held at a time whatever ``held_tokens`` says. No
    row is compared with another, so ``paired`` has no meaning.
    """

    def __init__(
        self, learner: Learner, rows: Sequence[TrainingRow], settings: InBedderSettings, batch: BatchSettings
    ) -> None:
        self._learner = learner
        self._masked = learner.adapted.backbone.masked
        self._end = settings.end and not self._masked
        self._rows = rows
        self.batches = TextBatches(row_keys(rows), batch.unpaired(), learner.seed)

    def backward(self, batch: Sequence[int]) -> Mapping[str, float]:
        """Add the gradients of a batch to the parameters; return ``loss``."""
        rows = [self._rows[number] for number in batch]
        answers = self._learner.tokeniser.answers([remove_stopwords(row.answer) for row in rows], end=self._end)
        if self._masked:
            answers, read = self._masked_pieces(rows, answers)
        else:
            texts, instructions = [row.text for row in rows], [row.instruction for row in rows]
            read = pieces(self._learner, texts, instructions, tail=max(map(len, answers)) - 1)
        count = sum(map(len, answers))

        def loss(piece: Piece) -> Tensor:
            return self._sum(piece, [answers[row] for row in piece.rows]) / count

        return {"loss": float(add_up(loss, read))}

    def _sum(self, piece: Piece, answers: Sequence[Sequence[int]]) -> Tensor:
        """Return the sum over the piece's answer tokens of -log P(token)."""
        adapted = self._learner.adapted
        if isinstance(piece, SeparatePiece):
            said = masked_answer_logits(adapted, piece.prompts, answers)
        else:
            said = answer_logits(adapted, piece.prompts, answers)
        return mean_cross_entropy(said.logits, said.targets) * len(said.targets)

    def _masked_pieces(
        self, rows: Sequence[TrainingRow], answers: Sequence[list[int]]
    ) -> tuple[list[list[int]], list[Piece]]:
        """Return answers and prompts cut to the model's positions; an answer gets half of what the text could have."""
        tokeniser = self._learner.tokeniser
        ends = len(tokeniser.tokenizer.end)
        limit = self._learner.adapted.backbone.positions - ends
        cut, prompts = [], []
        for row, ids in zip(rows, answers, strict=True):
            left = limit - tokeniser.length_around(row.instruction)
            cut.append(ids[: max(1, left // 2)])
            prompts += tokeniser.separate([row.text], [row.instruction], room=limit - len(cut[-1])).rows
        return cut, [*separate_pieces(SeparatePrompts(prompts), tail=max(map(len, cut)) + ends)]
