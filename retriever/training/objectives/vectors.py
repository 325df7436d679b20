"""Vectors in training as the saved encoder will pool them: what DICL, fusion distillation and similarities compare."""

from collections.abc import Sequence

from torch import Tensor

from retriever.core.errors import UsageError
from retriever.encoders.pooling import daap
from retriever.training.objectives.base import Learner
from retriever.training.objectives.reading import Piece, SeparatePiece, pieces, separate_pieces, together
from retriever.training.passes import soft_token_states, student_states


class VectorReader:
    """Reads prompts into vectors: GIRCSE's z_K, else InstEmb's ``daap``, else the last prompt state.

    The model is a causal one; ``steps`` is K, for a model that is to be a GIRCSE encoder.

    Raises:
        UsageError: the model is a masked one, or there is not one step.
    """

    def __init__(self, learner: Learner, *, steps: int | None = None) -> None:
        check_causal(learner)
        if steps is not None and steps < 1:
            raise UsageError(f"steps is {steps}; GIRCSE needs at least 1.")
        self._learner = learner
        self._steps = steps

    def pieces(self, texts: Sequence[str], instructions: Sequence[str]) -> list[Piece]:
        """Return the prompts of texts, each under the instruction beside it, in forward passes."""
        if self._steps is not None:
            prompts = self._learner.tokeniser.separate(texts, instructions)
            return [*separate_pieces(prompts, tail=self._steps)]
        asked = together(texts, instructions, range(len(texts)))
        return pieces(self._learner, asked, tail=self._learner.adapted.look_ahead_length)

    def read(self, piece: Piece, *, dropout: float | None = None) -> Tensor:
        """Return the vectors (b, d) of a piece's prompts, of any length; ``dropout`` as for `student_states`."""
        adapted = self._learner.adapted
        if self._steps is not None and isinstance(piece, SeparatePiece):
            return soft_token_states(adapted, piece.prompts, steps=self._steps, dropout=dropout)[:, -1]
        states = student_states(adapted, piece.prompts, dropout=dropout)
        return daap(states.last, states.tail) if states.tail.shape[1] else states.last


def check_causal(learner: Learner) -> None:
    """Raise a UsageError for a masked model, which has no last prompt state and reads nothing behind a prompt."""
    backbone = learner.adapted.backbone
    if backbone.masked:
        raise UsageError(
            f"{backbone.source.name} is a masked model; this objective needs a causal one.",
            hint="Train a masked model with InBedder.",
        )
