"""InBedder's re-encoding: a model answers the question for every text, and the answer is what is embedded.

Emb(x, q) is the mean of Emb_R(y) over answers y to q about x (InBedder, section 4.1), Emb_R a sentence encoder. A query
is taken as an answer.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from retriever.core.errors import EncoderError, UsageError
from retriever.core.fingerprint import json_hash
from retriever.core.protocols import Encoder, EncoderSpec
from retriever.core.similarity import normalise
from retriever.core.text import is_blank
from retriever.core.types import Embeddings, Encoded
from retriever.encoders.answers.answerer import NOT_SAID, Answer, Answered, Answerer, Unread, explained
from retriever.encoders.tokenize import distinct

POOLING = "re-enc"


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An answer as it is remembered: by its text and its question."""

    text: str
    question: str
    answer: str


class Memory(Protocol):
    """Remembers the answers of one answerer, so that nothing is asked twice."""

    def get(self, texts: Sequence[str], question: str) -> list[str | None]:
        """Return the answers about texts that are remembered; None where there is none."""
        ...

    def put(self, answers: Sequence[KeptAnswer]) -> None:
        """Remember answers, on the thread that asked for them; what it raises ends the work."""
        ...


class AnswerEncoder(Encoder):
    """Embeds answers; an empty instruction is the sentence encoder as it is.

    Args:
        answerer: what answers.
        base: the sentence encoder, which embeds answers and queries.
        memory: asked before the answerer, and told what that answers; None remembers nothing.
    """

    def __init__(self, answerer: Answerer, base: Encoder, memory: Memory | None = None) -> None:
        self.answerer = answerer
        self.base = base
        self.memory = memory

    @property
    def spec(self) -> EncoderSpec:
        """Description of this encoder; its fingerprint may ask the answerer's model for its probes."""
        base = self.base.spec
        return EncoderSpec(
            fingerprint=json_hash({"answerer": self.answerer.fingerprint, "base": base.fingerprint}),
            dim=base.dim,
            name=self.answerer.spec.name,
            pooling=POOLING,
            dtype=self.answerer.spec.dtype or base.dtype,
        )

    @property
    def dim(self) -> int:
        """Length of a vector, the sentence encoder's."""
        return self.base.dim

    def encode_views(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        words: int = 0,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        """Embed the answers about every text under every instruction; the one word of a text is its answer.

        A text without an answer is unread, as `Encoded.unread` has it; `Encoded.reasons` are of all instructions.

        Raises:
            EncoderError: the model cannot be asked; answers until then are remembered.
        """
        unique, positions = distinct(texts)
        questions, _ = distinct(filter(None, (instruction.strip() for instruction in instructions)))
        failures: Counter[Unread] = Counter()
        answers = self._answers(unique, questions, failures, on_tokens)
        reasons = explained(failures)
        alone = None if questions else on_tokens
        views = []
        for instruction in instructions:
            if question := instruction.strip():
                of_texts = [answers[question][position] for position in positions]
                views.append(replace(self._embedded(of_texts, words), reasons=reasons))
            else:
                views += self.base.encode_views(texts, [""], on_tokens=alone)
        return views

    def _embedded(self, answers: Sequence[str | None], words: int) -> Encoded:
        """Embed answers; rows of those that are None hold zeros."""
        said = [answer for answer in answers if answer is not None]
        rows = [row for row, answer in enumerate(answers) if answer is not None]
        embeddings = np.zeros((len(answers), self.dim), dtype=np.float32)
        if said:
            embeddings[rows] = self.base.encode_views(said, [""])[0].embeddings
        unread = frozenset(range(len(answers))).difference(rows)
        return Encoded(embeddings, [[answer] if words and answer is not None else [] for answer in answers], unread)

    def encode_queries(self, queries: Sequence[str], *, instruction: str = "") -> Embeddings:
        """Embed queries as answers, whatever the instruction."""
        return self.base.encode_queries(queries)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count or estimate the tokens of each text."""
        return self.answerer.count_tokens(texts)

    def _answers(
        self,
        texts: Sequence[str],
        questions: Sequence[str],
        failures: Counter[Unread],
        on_tokens: Callable[[int], None] | None,
    ) -> dict[str, list[str | None]]:
        """Return the answers to each question about distinct texts, remembered or asked for; count those that fail."""
        answers: dict[str, list[str | None]] = {question: self._remembered(texts, question) for question in questions}
        lacking: dict[tuple[str, ...], list[int]] = {}  # texts that lack the same answers are asked about together
        for row in range(len(texts)):
            wanted = tuple(question for question in questions if answers[question][row] is None)
            lacking.setdefault(wanted, []).append(row)
        counts = self.count_tokens(texts) if on_tokens is not None and questions else []
        if on_tokens is not None and counts:
            on_tokens(sum(counts[row] for row in lacking.get((), [])))
        for wanted, rows in lacking.items():
            if wanted:
                failures.update(self._ask(texts, rows, wanted, answers).failures)
            if wanted and on_tokens is not None:
                on_tokens(sum(counts[row] for row in rows))
        return answers

    def _remembered(self, texts: Sequence[str], question: str) -> list[str | None]:
        """Return the answers that need not be asked for: those remembered, and those of texts that show nothing."""
        known = [None for _ in texts] if self.memory is None else self.memory.get(texts, question)
        return [answer or (NOT_SAID if is_blank(text) else None) for text, answer in zip(texts, known, strict=True)]

    def _ask(
        self,
        texts: Sequence[str],
        rows: Sequence[int],
        questions: Sequence[str],
        answers: dict[str, list[str | None]],
    ) -> Answered:
        """Ask for answers about some of the texts, and remember each as it comes."""

        def keep(kept: list[Answer]) -> None:
            for answer in kept:
                answers[questions[answer.question]][rows[answer.row]] = answer.answer
            if self.memory is not None:
                self.memory.put(
                    [KeptAnswer(texts[rows[answer.row]], questions[answer.question], answer.answer) for answer in kept]
                )

        return self.answerer.answer([texts[row] for row in rows], questions, keep=keep)


class SampledEncoder(Encoder):
    """The mean of what several draws of an answer give: each text's vector is that of |S| sampled answers.

    Args:
        drawing: makes the encoder of a draw, given its number.
        steps: |S|, how many answers are drawn.

    Raises:
        UsageError: it is none.
    """

    def __init__(self, drawing: Callable[[int], AnswerEncoder], steps: int) -> None:
        if steps < 1:
            raise UsageError(f"steps is {steps}; {POOLING} draws at least 1 answer.")
        self._drawing = drawing
        self._draws = [drawing(draw) for draw in range(steps)]

    @property
    def spec(self) -> EncoderSpec:
        """Description of this encoder; its fingerprint is that of the first draw."""
        return replace(self._draws[0].spec, steps=len(self._draws))

    def reconfigured(self, **changes: str | int | None) -> "SampledEncoder":
        """Give the encoder that draws another number of answers.

        Raises:
            EncoderError: something else is to change.
        """
        if other := changes.keys() - {"steps"}:
            raise EncoderError(f"{self.spec.label} has no {min(other)} to choose.")
        steps = changes.get("steps", len(self._draws))
        return SampledEncoder(self._drawing, int(steps or 0))

    def encode_views(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        words: int = 0,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        """Embed every text under every instruction; its words are its answers, the most frequent first."""
        drawn = [
            encoder.encode_views(texts, instructions, words=words, on_tokens=on_tokens if last else None)
            for last, encoder in zip([*[False] * (len(self._draws) - 1), True], self._draws, strict=True)
        ]
        views = []
        for of_view in zip(*drawn, strict=True):
            mean = normalise(np.mean([view.embeddings for view in of_view], axis=0, dtype=np.float32))
            said = zip(*(view.words for view in of_view), strict=True)
            counted = [Counter(answer for answers in of_text for answer in answers) for of_text in said]
            views.append(Encoded(mean, [[answer for answer, _ in counts.most_common(words)] for counts in counted]))
        return views

    def encode_queries(self, queries: Sequence[str], *, instruction: str = "") -> Embeddings:
        """Embed queries as answers, whatever the instruction."""
        return self._draws[0].encode_queries(queries, instruction=instruction)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text."""
        return self._draws[0].count_tokens(texts)
