"""What the model would answer to questions it is not trained on, kept near what the untrained model would.

Training on some questions teaches a model to fall back on them, or on the topic, where it is asked another. Here some
texts of every batch are read under questions that the batch does not ask, and a Kullback-Leibler divergence holds the
distribution of the answer to that of the backbone without its adapter. The divergence is the forward one, sum_v P(v)
log(P(v) / Q(v)) with P the untrained model's, so that what it holds for likely stays likely.

Where the answer stands: the untrained model has no look-ahead embeddings, so all it gives without decoding is the first
answer token, after the prompt. The student names that token in two places, as `losses.instemb.cross_entropy` and any
language model do: at the last prompt state, and at the first look-ahead token where it has one. Both are held to the
same distribution; later look-ahead tokens name later tokens of the answer and are left free.
"""

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from retriever.core.errors import UsageError
from retriever.training.losses.instemb import kl
from retriever.training.objectives.base import Learner, Objective
from retriever.training.objectives.generic_questions import GENERIC_QUESTIONS
from retriever.training.objectives.reading import Piece, add_up, pieces, together
from retriever.training.objectives.vectors import check_causal
from retriever.training.passes import student_states, teacher_states
from retriever.training.rows import TrainingRow, normalise_text

Questions = Literal["generic", "files"]


@dataclass(frozen=True, slots=True)
class KeepSettings:
    """Settings of keeping what the untrained model would answer.

    Attributes:
        weight: of the divergence beside the other objective; 0 for none.
        texts: texts of a batch that are read so, each under one question.
        questions: where the questions are from: ``generic`` ones that the rows do not ask, or those of the ``files``
            that the batch is not of.
    """

    weight: float = 1.0
    texts: int = 8
    questions: Questions = "generic"

    def __post_init__(self) -> None:
        if not self.weight >= 0:
            raise UsageError(f"weight is {self.weight}; a weight cannot be negative.")
        if self.texts < 1:
            raise UsageError(f"texts is {self.texts}; at least 1 is read.")


class KeepObjective:
    """Another objective, and with every batch the divergence from the untrained model's answers to other questions.

    Its batches are those of the other objective, ``inner``, over the same rows.

    Raises:
        UsageError: the model is a masked one, or other files' questions are wanted and all rows are of one.
    """

    def __init__(self, inner: Objective, learner: Learner, rows: Sequence[TrainingRow], settings: KeepSettings) -> None:
        check_causal(learner)
        self.batches = inner.batches
        self._inner = inner
        self._learner = learner
        self._rows = rows
        self._settings = settings
        self._asked = _of_files(rows) if settings.questions == "files" else _generic(rows)
        if settings.questions == "files" and len({one.file for one in self._asked}) < 2:
            raise UsageError(
                "All questions are of one file; there is none of another to keep.",
                hint='Give several files, or questions = "generic" in [keep].',
            )

    def backward(self, batch: Sequence[int]) -> Mapping[str, float]:
        """Add the gradients of both; return the inner losses with the new ``loss``, and ``keep`` unweighted."""
        losses = self._inner.backward(batch)
        drawn = self.drawn(batch)
        if not drawn:
            return {**losses, "keep": 0.0}
        length = min(1, self._learner.adapted.look_ahead_length)
        asked = together([text for text, _ in drawn], [question for _, question in drawn], range(len(drawn)))

        def loss(piece: Piece) -> Tensor:
            return self._settings.weight * self._divergence(piece, length) * (len(piece.rows) / len(drawn))

        added = float(add_up(loss, pieces(self._learner, asked, tail=length)))
        return {**losses, "loss": losses["loss"] + added, "keep": added / self._settings.weight}

    def drawn(self, batch: Sequence[int]) -> list[tuple[str, str]]:
        """Return texts of a batch with the question each is read under, which seed and row numbers alone decide."""
        draw = random.Random(f"{self._learner.seed}:keep:{','.join(map(str, batch))}")
        texts = list(dict.fromkeys(self._rows[row].text for row in batch))
        texts = draw.sample(texts, min(self._settings.texts, len(texts)))
        groups, files = {self._rows[row].group for row in batch}, {self._rows[row].file for row in batch}
        free = [one for one in self._asked if one.group not in groups and one.file not in files]
        return [(text, draw.choice(draw.choice(free).wordings)) for text in texts] if free else []

    def _divergence(self, piece: Piece, length: int) -> Tensor:
        """Return the mean over a piece's prompts and places of the divergence from the untrained model."""
        adapted, head = self._learner.adapted, self._learner.adapted.backbone.logits
        untrained = teacher_states(adapted, piece.prompts, [[]] * len(piece.rows), length=0).last  # (b, d)
        read = student_states(adapted, piece.prompts, look_ahead=length)
        student = head(torch.cat([read.last.unsqueeze(1), read.tail], dim=1))  # (b, 1 + L, V)
        wanted = head(untrained).unsqueeze(1).expand_as(student)  # (b, 1 + L, V)
        every = torch.ones(student.shape[:2], dtype=torch.bool, device=student.device)  # (b, 1 + L)
        return kl(student, wanted, every, direction="teacher-first")


@dataclass(frozen=True, slots=True)
class _Question:
    """A question of a file in all its wordings; the file is None for one that is of none."""

    group: str
    file: str | None
    wordings: Sequence[str]


def _of_files(rows: Sequence[TrainingRow]) -> list[_Question]:
    """Return every question of every file; the default instruction is none."""
    found: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for row in rows:
        if row.instruction.strip():
            found[row.group, row.file][row.instruction] = None
    return [_Question(*place, list(wordings)) for place, wordings in found.items()]


def _generic(rows: Sequence[TrainingRow]) -> list[_Question]:
    """Return the generic questions that no row asks."""
    asked = {normalise_text(row.instruction) for row in rows}
    every = {normalise_text(one): one for one in GENERIC_QUESTIONS}
    return [_Question(group, None, [one]) for group, one in every.items() if group not in asked]
