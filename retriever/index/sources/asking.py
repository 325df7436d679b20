"""Asking language models about the texts of an index: within limits, at allowed hosts alone, and nothing twice."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from retriever.core.errors import ConsentError, UsageError
from retriever.core.protocols import CHARACTERS_PER_TOKEN, Encoder
from retriever.index.sources.answers import Reader
from retriever.store.database import Store

if TYPE_CHECKING:
    from retriever.encoders.answers.answerer import Answered, Answerer, AnswererSpec, OnAnswers, Unread
    from retriever.encoders.answers.encoder import KeptAnswer

HOSTS = "reader_hosts"
"""The setting that lists the hosts which somebody allowed this index's texts to be sent to."""


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    """The most that is asked of language models as long as an index is open; None for no limit.

    Attributes:
        texts: texts that are sent.
        tokens: about, of texts and questions as they are sent.
        minutes: after the first call.

    Raises:
        UsageError: a limit is below 0.
    """

    texts: int | None = None
    tokens: int | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        if any(limit is not None and limit < 0 for limit in (self.texts, self.tokens, self.minutes)):
            raise UsageError("A limit of reading is below 0.", hint="0 asks no language model anything.")


@dataclass(slots=True)
class Spent:
    """What was asked of language models so far.

    Attributes:
        texts: sent.
        tokens: about, as estimated before each call.
        unread: texts that were not sent because a limit was reached.
        failures: texts without an answer, by the reason.
    """

    texts: int = 0
    tokens: int = 0
    unread: int = 0
    failures: "dict[Unread, int]" = field(default_factory=dict)

    @property
    def reasons(self) -> str:
        """A sentence for each reason of the failures, with its number; empty where there are none."""
        from retriever.encoders.answers.answerer import explained

        return explained(self.failures)


class Permit:
    """What may be asked of language models about the texts of an index.

    Attributes:
        spent: what was asked so far.

    Args:
        store: the index's database, which remembers the hosts that somebody allowed.
        limits: how much may be asked.
    """

    def __init__(self, store: Store, limits: ReadingLimits) -> None:
        self._store = store
        self._limits = limits
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

    def admit(self, spec: "AnswererSpec", texts: Sequence[str], questions: Sequence[str]) -> int:
        """Return how many of some texts, from the first, may be sent now, and count them as sent.

        Raises:
            ConsentError: they would leave this machine, and nobody allowed their host.
        """
        asked = sum(map(len, questions)) // CHARACTERS_PER_TOKEN
        costs = [1 + len(text) // CHARACTERS_PER_TOKEN for text in texts]
        if spec.host and not spec.loopback and spec.host not in self.hosts():
            raise ConsentError(
                f"{len(texts)} texts, about {sum(costs) + asked} tokens, would be sent to {spec.host}.",
                hint="Allow that host for this index with --yes (`index.teaching.allow(host)` in Python).",
                host=spec.host,
            )
        admitted = 0
        for cost in costs:
            if not self._affordable(cost + asked):
                break
            admitted += 1
            self.spent.texts += 1
            self.spent.tokens += cost
        self.spent.tokens += asked if admitted else 0
        self.spent.unread += len(texts) - admitted
        return admitted

    def _affordable(self, tokens: int) -> bool:
        now, limits, spent = time.monotonic(), self._limits, self.spent
        self._began = now if self._began is None else self._began
        return (
            (limits.texts is None or spent.texts < limits.texts)
            and (limits.tokens is None or spent.tokens + tokens <= limits.tokens)
            and (limits.minutes is None or now - self._began < 60 * limits.minutes)
        )


def answering(store: Store, base: Encoder, by: Reader, permit: Permit | None) -> Encoder:
    """Return the encoder that answers texts for an index and embeds the answers.

    Args:
        store: the index's database: answers that it holds are not asked for again, new ones are stored at once.
        base: what embeds answers.
        by: who answers.
        permit: what may be asked; without one, and of answers that are handed in alone, nothing is.
    """
    from retriever.encoders.answers.encoder import AnswerEncoder

    answerer = _Nobody(by) if permit is None or not by.name else _Permitted(by, permit)
    return AnswerEncoder(answerer, base, Remembered(store, by.fingerprint))


class Remembered:
    """The stored answers of an index, by their texts.

    Args:
        store: the index's database.
        reader: fingerprint of who answers.
    """

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


class _Nobody:
    """Answers nothing: what is not stored stays unread."""

    def __init__(self, by: Reader) -> None:
        self._by = by

    @property
    def spec(self) -> "AnswererSpec":
        """Description of who would answer."""
        from retriever.encoders.answers.answerer import AnswererSpec

        return AnswererSpec(self._by.name, self._by.name, host="", prompt="", loopback=True)

    @property
    def fingerprint(self) -> str:
        """The fingerprint that answers are kept under."""
        return self._by.fingerprint

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Estimate the tokens of each text."""
        return [1 + len(text) // CHARACTERS_PER_TOKEN for text in texts]

    def answer(self, texts: Sequence[str], questions: Sequence[str], *, keep: "OnAnswers | None" = None) -> "Answered":
        """Answer nothing."""
        from retriever.encoders.answers.answerer import Answered

        return Answered([[None] * len(texts) for _ in questions])


class _Permitted:
    """Asks a reader, as far as a permit reaches; it is loaded when it is first asked."""

    def __init__(self, by: Reader, permit: Permit) -> None:
        self._by = by
        self._permit = permit
        self._loaded: Answerer | None = None

    @property
    def spec(self) -> "AnswererSpec":
        """Description of the reader."""
        return self._reader.spec

    @property
    def fingerprint(self) -> str:
        """The fingerprint that its answers are kept under, as it was when the index met the reader."""
        return self._by.fingerprint

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Estimate the tokens of each text."""
        return self._reader.count_tokens(texts)

    @property
    def _reader(self) -> "Answerer":
        if self._loaded is None:
            from retriever.encoders.answers.loading import load_answerer

            self._loaded = load_answerer(self._by.name, self._by.fingerprint)
        return self._loaded

    def answer(self, texts: Sequence[str], questions: Sequence[str], *, keep: "OnAnswers | None" = None) -> "Answered":
        """Ask about the texts that the permit admits; the others stay unread."""
        admitted = self._permit.admit(self._reader.spec, texts, questions)
        answered = self._reader.answer(texts[:admitted], questions, keep=keep)
        for reason, count in answered.failures.items():
            self._permit.spent.failures[reason] = self._permit.spent.failures.get(reason, 0) + count
        unread = [None] * (len(texts) - admitted)
        return replace(answered, answers=[[*row, *unread] for row in answered.answers])
