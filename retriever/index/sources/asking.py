"""Asking language models about the texts of an index: within limits, at allowed hosts alone, and nothing twice."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from retriever.core.errors import ConsentError, ReadingLimitError
from retriever.core.protocols import CHARACTERS_PER_TOKEN, Encoder
from retriever.index.sources.answers import Reader
from retriever.index.sources.limits import SETTINGS, DayBudget, ReadingLimits, Spent
from retriever.store.database import Store

if TYPE_CHECKING:
    from retriever.encoders.answers.answerer import Answer, Answered, Answerer, AnswererSpec, OnAnswers
    from retriever.encoders.answers.encoder import KeptAnswer

HOSTS = "reader_hosts"
"""The setting that lists the hosts which somebody allowed this index's texts to be sent to."""


class Permit:
    """What may be asked of language models about the texts of an index.

    Attributes:
        spent: what was asked so far.

    Args:
        store: the index's database, which remembers the hosts that somebody allowed.
        limits: how much may be asked.
        day: the budget of the server that asks. With one, texts beyond a limit are refused; without one they stay
            unread.
    """

    def __init__(self, store: Store, limits: ReadingLimits, day: DayBudget | None = None) -> None:
        self._store = store
        self._limits = limits
        self._day = day
        self._began: float | None = None
        self.spent = Spent()

    def hosts(self) -> list[str]:
        """Return the hosts that somebody allowed."""
        stored = self._store.settings.get(HOSTS)
        return [str(host) for host in stored] if isinstance(stored, list) else []

    def allow(self, host: str) -> None:
        """Allow texts of this index to be sent to a host from now on."""
        if host and host not in self.hosts():
            self._store.settings.set(HOSTS, [*self.hosts(), host])

    def expect(self, texts: int) -> None:
        """Refuse a server's request that would be refused on its way: for so many texts that are not answered yet.

        Raises:
            ReadingLimitError: they are more than a limit allows.
        """
        if self._day is None or texts <= 0:
            return
        if self._limits.texts is not None and self.spent.texts + texts > self._limits.texts:
            raise self._refusal(texts)
        self._day.require(texts, 0)

    def admit(self, spec: "AnswererSpec", texts: Sequence[str], questions: Sequence[str]) -> int:
        """Return how many of some texts, from the first, may be sent now, and count them as sent.

        Raises:
            ConsentError: they would leave this machine, and nobody allowed their host.
            ReadingLimitError: a server's request asks for more than a limit allows; none is counted.
        """
        question = sum(map(len, questions)) // CHARACTERS_PER_TOKEN
        if spec.host and not spec.loopback and spec.host not in self.hosts():
            raise ConsentError(
                f"{len(texts)} texts, about {_tokens(texts) + question} tokens, would be sent to {spec.host}.",
                hint="Allow that host for this index with --yes (`index.teaching.allow(host)` in Python).",
                host=spec.host,
            )
        self._began = time.monotonic() if self._began is None else self._began
        admitted = self._affordable(texts, question)
        tokens = _tokens(texts[:admitted]) + (question if admitted else 0)
        if self._day is not None:
            if admitted < len(texts):
                raise self._refusal(len(texts))
            self._day.take(admitted, tokens)
        self.spent.texts += admitted
        self.spent.tokens += tokens
        self.spent.unread += len(texts) - admitted
        return admitted

    @property
    def late(self) -> bool:
        """Whether the minutes of the reading are over."""
        most = self._limits.minutes
        return most is not None and self._began is not None and time.monotonic() - self._began >= 60 * most

    def stop(self, unanswered: Sequence[str]) -> None:
        """Count admitted texts as unread, since the minutes are over; a day counts them on, as calls may hold them.

        Raises:
            ReadingLimitError: it is a server's request.
        """
        if self._day is not None:
            raise self._refusal(len(unanswered))
        self.spent.texts -= len(unanswered)
        self.spent.tokens -= _tokens(unanswered)
        self.spent.unread += len(unanswered)

    def _affordable(self, texts: Sequence[str], question: int) -> int:
        """Return how many texts, from the first, the limits leave room for."""
        limits, texts_left = self._limits, len(texts)
        if self.late:
            return 0
        if limits.texts is not None:
            texts_left = min(texts_left, max(0, limits.texts - self.spent.texts))
        if limits.tokens is None:
            return texts_left
        tokens = accumulate((_tokens([text]) for text in texts[:texts_left]), initial=self.spent.tokens + question)
        return max(0, sum(so_far <= limits.tokens for so_far in tokens) - 1)

    def _refusal(self, more: int) -> ReadingLimitError:
        limits, spent = self._limits, self.spent
        named = {"texts": limits.texts, "tokens": limits.tokens, "minutes": limits.minutes}
        most = ", ".join(f"{limit} {what}" for what, limit in named.items() if limit is not None)
        return ReadingLimitError(
            f"A request may have a language model read {most}; this one has sent {spent.texts} texts and wants "
            f"{more} more.",
            hint="What was answered is kept. Ask for less with `read` or `where`, or take the reader `default`. "
            f"{SETTINGS} holds the limit, [reading].",
        )


def _tokens(texts: Iterable[str]) -> int:
    """Estimate the tokens of texts."""
    return sum(1 + len(text) // CHARACTERS_PER_TOKEN for text in texts)


def answering(store: Store, base: Encoder, by: Reader, permit: Permit | None) -> Encoder:
    """Return the encoder that answers texts for an index and embeds the answers.

    Args:
        store: the index's database: answers that it holds are not asked for again, new ones are stored at once.
        base: what embeds answers.
        by: who answers.
        permit: what may be asked; without one, and of answers that are handed in alone, nothing is.
    """
    from retriever.encoders.answers.encoder import AnswerEncoder

    return AnswerEncoder(_Permitted(by, permit), base, Remembered(store, by.fingerprint))


class Remembered:
    """The stored answers of an index, by their texts."""

    def __init__(self, store: Store, reader: str) -> None:
        self._store = store
        self._reader = reader

    def get(self, texts: Sequence[str], question: str) -> list[str | None]:
        """Return the stored answer of each text; None where there is none."""
        known = self._store.documents.known(texts)
        answers = self._store.answers.get(self._reader, question, list(known.values()))
        return [answers.get(known[text]) if text in known else None for text in texts]

    def put(self, answers: "Sequence[KeptAnswer]") -> None:
        """Store answers; those about texts that are not of the index are not kept."""
        known = self._store.documents.known([kept.text for kept in answers])
        by_question: dict[str, dict[int, str]] = {}
        for kept in answers:
            if kept.text in known:
                by_question.setdefault(kept.question, {})[known[kept.text]] = kept.answer
        with self._store.writing():
            for question, rows in by_question.items():
                self._store.answers.put(self._reader, question, rows)


class _Permitted:
    """Asks a reader, which is loaded when it is first asked, as far as a permit reaches; without one it asks nobody."""

    def __init__(self, by: Reader, permit: Permit | None) -> None:
        self._by = by
        self._permit = permit

    @property
    def spec(self) -> "AnswererSpec":
        """Description of the reader by its name alone: nothing is loaded for it."""
        from retriever.encoders.answers.answerer import AnswererSpec

        return AnswererSpec(self._by.name)

    @property
    def fingerprint(self) -> str:
        """The fingerprint that answers are kept under, as it was when the index met the reader."""
        return self._by.fingerprint

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Estimate the tokens of each text."""
        return [_tokens([text]) for text in texts]

    @cached_property
    def _reader(self) -> "Answerer":
        from retriever.encoders.answers.loading import load_answerer

        return load_answerer(self._by.name, self._by.fingerprint)

    def answer(self, texts: Sequence[str], questions: Sequence[str], *, keep: "OnAnswers | None" = None) -> "Answered":
        """Ask about the texts that the permit admits, until its time is up; the others stay unread."""
        from retriever.encoders.answers.answerer import Answered

        permit = self._permit
        answers: list[list[str | None]] = [[None] * len(texts) for _ in questions]
        if permit is None or not self._by.name:
            return Answered(answers)
        admitted = permit.admit(self._reader.spec, texts, questions)

        def kept(some: "list[Answer]") -> None:
            for answer in some:
                answers[answer.question][answer.row] = answer.answer
            if keep is not None:
                keep(some)
            if permit.late:
                raise _TimeIsUpError

        try:
            answered = self._reader.answer(texts[:admitted], questions, keep=kept)
        except _TimeIsUpError:
            if left := [text for text, *said in zip(texts[:admitted], *answers, strict=False) if None in said]:
                permit.stop(left)
            return Answered(answers)
        for reason, count in answered.failures.items():
            permit.spent.failures[reason] = permit.spent.failures.get(reason, 0) + count
        return replace(answered, answers=answers)


class _TimeIsUpError(Exception):
    """The minutes of a reading are over."""
