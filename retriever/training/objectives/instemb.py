"""InstEmb's objective: look-ahead tokens distilled from the answer, and contrast over views of every row (section 3).

The teacher's states come from the same model with its adapter off; they are read first and held, since they carry no
gradient.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from retriever.core.errors import UsageError
from retriever.encoders.readout import daap, masked_mean
from retriever.training import losses, passes
from retriever.training.losses import INSTEMB_TEMPERATURE, ContrastForm, KlDirection
from retriever.training.objectives.base import BatchSettings, Learner, ObjectiveSettings, TextBatches, row_keys
from retriever.training.objectives.reading import (
    Outputs,
    Piece,
    SeparatePiece,
    backward,
    in_order,
    pieces,
    separate_pieces,
)
from retriever.training.pairs import answer_set, remove_stopwords, set_numbers
from retriever.training.passes import VIEW_DROPOUT
from retriever.training.prompt_batches import PaddedRows, SeparatePrompts, TailStates, pad_rows
from retriever.training.rows import TrainingRow
from retriever.training.settings import Positive, Settings, Weight

Distillation = Literal["mse", "kl", "ce"]
View = Literal["dropout", "teacher", "answer", "document"]
Compared = Literal["input-last", "daap"]
_READ: tuple[View, ...] = ("dropout", "answer", "document")
"""The views that are read beside the student's own, in the order in which they are read."""
_ANSWERS: tuple[View, ...] = ("answer", "document")


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
    temperature: Positive = INSTEMB_TEMPERATURE
    form: ContrastForm = "inside"
    strict: bool = False
    contrast: Weight = 1.0

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
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
        self._rows = rows
        self.batches = TextBatches(row_keys(rows), batch, learner.seed)

    def backward(self, batch: Sequence[int]) -> Mapping[str, float]:
        """Add the gradients of a batch to the parameters; return ``loss`` and each term that makes it up.

        Beside ``mse``, a sum over the model's width, ``mse_per_dimension`` is comparable between models.
        """
        rows = [self._rows[number] for number in batch]
        texts, instructions = [row.text for row in rows], [row.instruction for row in rows]
        read = pieces(self._learner, texts, instructions, tail=self._length)
        order = [place for piece in read for place in piece.rows]
        answers = self._learner.tokeniser.answers([remove_stopwords(row.answer) for row in rows])
        device = self._learner.adapted.backbone.device
        taught = [answers[place][: self._length] for place in order]
        targets = pad_rows(taught, width=self._length, device=device)
        teacher = self._teacher(read, answers)
        alone = self._alone(rows, answers)
        terms: dict[str, Tensor] = {}

        def loss(outputs: Outputs) -> Tensor:
            terms.update(self._distilled(outputs["tail"], targets, teacher))
            if self._settings.contrast:
                views: dict[str, Tensor] = {view: part.of_rows(outputs[view], order) for view, part in alone.items()}
                ordered = [rows[place] for place in order]
                terms["contrast"] = self._contrast({**outputs, **views}, teacher, targets.counted, ordered)
            weights = {"contrast": self._settings.contrast}
            return torch.stack([weights.get(name, 1.0) * term for name, term in terms.items()]).sum()

        read = [*read, *(piece for part in alone.values() for piece in part.pieces)]
        total = backward(self._encode, read, loss, held_tokens=self._held_tokens)
        values = {"loss": float(total), **{name: float(term.detach()) for name, term in terms.items()}}
        if "mse" in values:
            values["mse_per_dimension"] = values["mse"] / self._learner.adapted.backbone.dim
        return values

    def lengths(self, batch: Sequence[int]) -> list[int]:
        """Return the tokens of every sequence that a batch is read as: a text with its questions, and answers.

        None are known with the dropout view, which is read as transformers reads.
        """
        if "dropout" in self._views:
            return []
        rows, tokeniser = [self._rows[number] for number in batch], self._learner.tokeniser
        prompts: dict[object, int] = {}
        for number, row in zip(batch, rows, strict=True):
            key = row.text if self._learner.shares else number
            asked = tokeniser.length_around(row.instruction) + self._length
            prompts[key] = prompts.get(key, tokeniser.length(row.text)) + asked
        beside = tokeniser.length_around("") + self._compared_length  # a little more than "answer" has
        answers = [tokeniser.length(answer) + beside for answer in {row.answer for row in rows}]
        return [*prompts.values()] + answers * sum(view in _ANSWERS for view in self._views)

    @property
    def _length(self) -> int:
        return self._learner.adapted.look_ahead_length

    @property
    def _compared_length(self) -> int:
        """The look-ahead tokens that views are read with."""
        return 0 if self._settings.compared == "input-last" else self._length

    @property
    def _views(self) -> list[View]:
        """The views that are read beside the student's own, in the order of `_READ`."""
        return [view for view in _READ if view in self._settings.views and self._settings.contrast]

    def _alone(self, rows: Sequence[TrainingRow], answers: Sequence[Sequence[int]]) -> dict[View, "_Alone"]:
        """Return the views that are answers read alone, each different answer of the batch once."""
        prompts = {
            "answer": lambda: passes.lone_prompts(self._learner.adapted, answers),
            "document": lambda: self._learner.tokeniser.separate([row.answer for row in rows], [""] * len(rows)),
        }
        return {
            view: _Alone.of(view, prompts[view](), tail=self._compared_length)
            for view in self._views
            if view in prompts
        }

    def _encode(self, piece: Piece) -> dict[str, Tensor]:
        """Return the student's states of a piece, last (b, d) and tail (b, L, d), and its dropout view (b, d).

        A piece of an answer's view has that alone, (b, d).
        """
        adapted, length = self._learner.adapted, self._compared_length
        if isinstance(piece, _AnswerPiece):
            states = passes.student_states(adapted, piece.prompts, look_ahead=length)
            return {piece.view: self._vector(states.last, states.tail)}
        student = passes.student_states(adapted, piece.prompts)
        outputs = {"last": student.last, "tail": student.tail}
        if "dropout" in self._views:
            states = passes.student_states(adapted, piece.prompts, look_ahead=length, dropout=VIEW_DROPOUT)
            outputs["dropout"] = self._vector(states.last, states.tail)
        return outputs

    def _vector(self, last: Tensor, tail: Tensor) -> Tensor:
        if self._settings.compared == "input-last" or not tail.shape[1]:
            return last
        return daap(last, tail)

    def _teacher(self, read: Sequence[Piece], answers: Sequence[Sequence[int]]) -> TailStates | None:
        """Return the teacher's states of all rows, in the order of the pieces; None where no term asks for them."""
        wanted = {"mse", "kl"} & set(self._settings.distillation)
        if not wanted and not (self._settings.contrast and "teacher" in self._settings.views):
            return None
        adapted, length = self._learner.adapted, self._length
        states = [
            passes.teacher_states(adapted, piece.prompts, [answers[row] for row in piece.rows], length=length)
            for piece in read
        ]
        return TailStates(torch.cat([state.last for state in states]), torch.cat([state.tail for state in states]))

    def _distilled(self, tail: Tensor, targets: PaddedRows, teacher: TailStates | None) -> dict[str, Tensor]:
        """Return the distillation terms of look-ahead states (B, L, d)."""
        head, direction = self._learner.adapted.backbone.logits, self._settings.direction
        terms: dict[str, Tensor] = {}
        for term in self._settings.distillation:
            if term == "ce":
                terms[term] = losses.cross_entropy(head(tail), targets.ids, targets.counted)
            elif teacher is not None and term == "mse":
                terms[term] = losses.mse(tail, teacher.tail, targets.counted)
            elif teacher is not None:
                terms[term] = losses.kl(head(tail), head(teacher.tail), targets.counted, direction=direction)
        return terms

    def _contrast(
        self, read: Outputs, teacher: TailStates | None, counted: Tensor, rows: Sequence[TrainingRow]
    ) -> Tensor:
        vectors = [self._vector(read["last"], read["tail"]), *(read[view] for view in self._views)]
        of_answers = [False, *(view in _ANSWERS for view in self._views)]
        if teacher is not None and "teacher" in self._settings.views:
            taught = teacher.last
            if self._settings.compared == "daap":
                taught = (taught.float() + masked_mean(teacher.tail, counted)) / 2
            vectors.append(taught)
            of_answers.append(False)
        strict = self._settings.strict
        numbers = [*range(len(rows))] if strict else set_numbers([answer_set(row) for row in rows])
        sets = torch.tensor(numbers, device=counted.device)  # (B,)
        return losses.view_contrast(
            torch.stack([view.float() for view in vectors]),  # (V, B, d)
            sets,
            temperature=self._settings.temperature,
            form=self._settings.form,
            left_out=None if strict else _left_out(rows, sets, of_answers),
        )


@dataclass(frozen=True, slots=True)
class _AnswerPiece(SeparatePiece):
    """The input of a pass over answers for one of the views."""

    view: View


@dataclass(frozen=True, slots=True)
class _Alone:
    """A view that is the rows' answers read alone.

    Attributes:
        pieces: the different answers.
        places: the number of every row's answer among them.
    """

    pieces: list[_AnswerPiece]
    places: list[int]

    @classmethod
    def of(cls, view: View, prompts: SeparatePrompts, *, tail: int) -> "_Alone":
        """Return a view of one prompt a row; ``tail`` tokens will stand behind each."""
        numbers: dict[tuple[int, ...], int] = {}
        places = [numbers.setdefault(tuple(ids), len(numbers)) for ids in prompts.rows]
        read = separate_pieces(SeparatePrompts([list(ids) for ids in numbers]), tail=tail)
        return cls([_AnswerPiece(piece.prompts, piece.rows, piece.tokens, view) for piece in read], places)

    def of_rows(self, vectors: Tensor, order: Sequence[int]) -> Tensor:
        """Return the vectors (B, d) of rows in some order from those of the pieces' answers."""
        return in_order(self.pieces, vectors)[[self.places[row] for row in order]]


def _left_out(rows: Sequence[TrainingRow], sets: Tensor, of_answers: Sequence[bool]) -> Tensor:
    """Return (V B, V B), true where an answer meets another row with the same answer to another question.

    "none" is no wrong answer to a row whose answer is "none" too, whatever it was asked. Texts under their questions
    are told apart all the same. ``sets`` (B,) are equal for positives; ``of_answers`` says which of the V views is an
    answer.
    """
    answers = torch.tensor(set_numbers([("", row.answer_key) for row in rows]), device=sets.device)  # (B,)
    alike = (answers.unsqueeze(1) == answers.unsqueeze(0)) & (sets.unsqueeze(1) != sets.unsqueeze(0))  # (B, B)
    read = torch.tensor(of_answers, device=sets.device).repeat_interleave(len(rows))  # (V B,)
    return alike.repeat(len(of_answers), len(of_answers)) & (read.unsqueeze(1) | read.unsqueeze(0))
