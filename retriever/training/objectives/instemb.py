"""InstEmb's objective: look-ahead tokens distilled from the answer, and contrast over views of every row (section 3).

The states of `TeacherStates` come from the same model with its adapter off; they are read first and held, since they
carry no gradient.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from retriever.core.errors import UsageError
from retriever.encoders.pooling import daap, masked_mean
from retriever.training import passes
from retriever.training.losses import instemb as losses
from retriever.training.losses.instemb import TEMPERATURE, ContrastForm, KlDirection
from retriever.training.objectives.base import Learner, ObjectiveSettings
from retriever.training.objectives.batching import BatchSettings, Keys, TextBatches
from retriever.training.objectives.reading import Piece, backward, pieces, together
from retriever.training.pairs import AnswerExample, answer_examples, set_numbers
from retriever.training.passes import VIEW_DROPOUT, PaddedAnswers, TeacherStates
from retriever.training.prompt_batches import SeparatePrompts, TailStates
from retriever.training.rows import TrainingRow

Distillation = Literal["mse", "kl", "ce"]
View = Literal["dropout", "teacher", "answer", "document"]
Compared = Literal["input-last", "daap"]


@dataclass(frozen=True, slots=True)
class InstEmbSettings(ObjectiveSettings):
    """Settings of InstEmb's objective.

    Attributes:
        distillation: the terms that teach the look-ahead tokens the answer; several are added up. ``ce`` is the
            control without a teacher (table 3).
        direction: of ``kl``.
        views: beside the student's own; each can be left out (table 4). ``answer`` is the whole answer read alone;
            ``document``, ours, is the answer as a search finds it, a text under the default instruction.
        compared: what of a view is compared: the last prompt state, as in the paper, or what inference pools.
        temperature: tau of the contrast.
        form: where the sum over positives stands.
        strict: every row is a positive set of its own, as in the paper; else rows of one question group with the same
            answer are positives.
        contrast: weight of the contrast beside the distillation.
    """

    distillation: tuple[Distillation, ...] = ("kl",)
    direction: KlDirection = "student-first"
    views: tuple[View, ...] = ("dropout", "teacher", "answer")
    compared: Compared = "input-last"
    temperature: float = TEMPERATURE
    form: ContrastForm = "inside"
    strict: bool = False
    contrast: float = 1.0

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise UsageError(f"The temperature is {self.temperature}; it must be above 0.")
        if self.contrast < 0:
            raise UsageError(f"contrast is {self.contrast}; a weight cannot be negative.")
        if not self.distillation and not self.contrast:
            raise UsageError("With neither distillation nor contrast there is nothing to learn.")


class InstEmbObjective:
    """Losses and gradients of a batch of rows. The model has look-ahead embeddings unless nothing is distilled."""

    def __init__(
        self, learner: Learner, rows: Sequence[TrainingRow], settings: InstEmbSettings, batch: BatchSettings
    ) -> None:
        if settings.distillation and learner.adapted.look_ahead is None:
            raise UsageError("Distillation needs look-ahead tokens.", hint="Set look_ahead in [adapter].")
        self._learner = learner
        self._settings = settings
        self._held_tokens = batch.held_tokens
        self._examples = answer_examples(rows)
        keys = [Keys(row.file, row.text, example.same) for row, example in zip(rows, self._examples, strict=True)]
        self.batches = TextBatches(keys, batch, learner.seed)

    def backward(self, batch: Sequence[int]) -> Mapping[str, float]:
        """Add the gradients of a batch to the parameters; return ``loss`` and each term that makes it up.

        Beside ``mse``, a sum over the model's width, ``mse_per_dimension`` is comparable between models.
        """
        examples = [self._examples[row] for row in batch]
        asked = together([one.text for one in examples], [one.instruction for one in examples], range(len(examples)))
        read = pieces(self._learner, asked, tail=self._length)
        order = [row for piece in read for row in piece.rows]
        answers = self._learner.tokeniser.answers([one.answer for one in examples])
        numbers = set_numbers([one.same for one in examples], strict=self._settings.strict)
        device = self._learner.adapted.backbone.device
        sets = torch.tensor([numbers[row] for row in order], device=device)  # (B,)
        targets = passes.pad_answers([answers[row][: self._length] for row in order], width=self._length, device=device)
        teacher = self._teacher(read, answers)
        terms: dict[str, Tensor] = {}

        def loss(outputs: Sequence[Tensor]) -> Tensor:
            last, tail, *views = outputs
            terms.update(self._distilled(tail, targets, teacher))
            if self._settings.contrast:
                terms["contrast"] = self._contrast(TailStates(last, tail), views, teacher, sets)
            weights = {"contrast": self._settings.contrast}
            return torch.stack([weights.get(name, 1.0) * term for name, term in terms.items()]).sum()

        def encode(piece: Piece) -> list[Tensor]:
            return self._encode(piece, [examples[row] for row in piece.rows], [answers[row] for row in piece.rows])

        total = backward(encode, read, loss, held_tokens=self._held_tokens)
        found = {"loss": float(total), **{name: float(term.detach()) for name, term in terms.items()}}
        if "mse" in found:
            found["mse_per_dimension"] = found["mse"] / self._learner.adapted.backbone.dim
        return found

    @property
    def _length(self) -> int:
        return self._learner.adapted.look_ahead_length

    def _encode(
        self, piece: Piece, examples: Sequence[AnswerExample], answers: Sequence[Sequence[int]]
    ) -> list[Tensor]:
        """Return the student's states of the piece's rows: last (b, d), tail (b, L, d), and its other views (b, d)."""
        adapted = self._learner.adapted
        student = passes.student_states(adapted, piece.prompts)
        views = self._settings.views if self._settings.contrast else ()
        length = 0 if self._settings.compared == "input-last" else self._length
        found = [student.last, student.tail]
        if "dropout" in views:
            states = passes.student_states(adapted, piece.prompts, look_ahead=length, dropout=VIEW_DROPOUT)
            found.append(self._vector(states))
        if "answer" in views:
            found.append(self._different(answers, partial(passes.lone_states, adapted, look_ahead=length)))
        if "document" in views:

            def read(prompts: list[list[int]]) -> TailStates:
                return passes.student_states(adapted, SeparatePrompts(prompts), look_ahead=length)

            documents = self._learner.tokeniser.separate([one.document for one in examples], [""] * len(examples))
            found.append(self._different(documents.rows, read))
        return found

    def _vector(self, states: TailStates) -> Tensor:
        if self._settings.compared == "input-last" or not states.tail.shape[1]:
            return states.last
        return daap(states.last, states.tail)

    def _teacher(self, read: Sequence[Piece], answers: Sequence[Sequence[int]]) -> TeacherStates | None:
        """Return the teacher's states of all rows, in the order of the pieces; None where no term asks for them."""
        wanted = {"mse", "kl"} & set(self._settings.distillation)
        if not wanted and not (self._settings.contrast and "teacher" in self._settings.views):
            return None
        found = [
            passes.teacher_states(
                self._learner.adapted, piece.prompts, [answers[row] for row in piece.rows], length=self._length
            )
            for piece in read
        ]
        return TeacherStates(
            last=torch.cat([one.last for one in found]),
            tail=torch.cat([one.tail for one in found]),
            ids=torch.cat([one.ids for one in found]),
            counted=torch.cat([one.counted for one in found]),
        )

    def _distilled(self, tail: Tensor, targets: PaddedAnswers, teacher: TeacherStates | None) -> dict[str, Tensor]:
        """Return the distillation terms of look-ahead states (B, L, d)."""
        head, direction = self._learner.adapted.backbone.logits, self._settings.direction
        found: dict[str, Tensor] = {}
        for term in self._settings.distillation:
            if term == "ce":
                found[term] = losses.cross_entropy(head(tail), targets.ids, targets.counted)
            elif teacher is not None and term == "mse":
                found[term] = losses.mse(tail, teacher.tail, teacher.counted)
            elif teacher is not None:
                found[term] = losses.kl(head(tail), head(teacher.tail), teacher.counted, direction=direction)
        return found

    def _contrast(
        self, student: TailStates, views: Sequence[Tensor], teacher: TeacherStates | None, sets: Tensor
    ) -> Tensor:
        compared = [self._vector(student), *views]
        if teacher is not None and "teacher" in self._settings.views:
            compared.append(self._teacher_vector(teacher))
        return losses.view_contrast(
            torch.stack([one.float() for one in compared]),  # (V, B, d)
            sets,
            temperature=self._settings.temperature,
            form=self._settings.form,
        )

    def _teacher_vector(self, teacher: TeacherStates) -> Tensor:
        if self._settings.compared == "input-last":
            return teacher.last
        return (teacher.last.float() + masked_mean(teacher.tail, teacher.counted)) / 2

    def _different(self, rows: Sequence[Sequence[int]], read: Callable[[list[list[int]]], TailStates]) -> Tensor:
        """Return the vectors (b, d) of token rows, each different one read once."""
        numbers: dict[tuple[int, ...], int] = {}
        places = [numbers.setdefault(tuple(ids), len(numbers)) for ids in rows]
        return self._vector(read([list(ids) for ids in numbers]))[places]
