"""Limits of what language models are asked: of a reading and of a day, and as `settings.toml` holds them."""

import threading
import time
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from retriever.core.errors import InputError, ReadingLimitError, UsageError
from retriever.core.files import read_toml
from retriever.core.text import counted
from retriever.store.database import Store

if TYPE_CHECKING:
    from retriever.encoders.answers.answerer import Unread

SETTINGS = "settings.toml"
"""The file of limits, in the folder that indexes lie in."""

KEPT_HINT = f"Answers until now are kept. {SETTINGS} holds limits, and so do --max-texts and --max-tokens."
"""The next step where a limit is reached."""

_TABLES = {
    "reading": {"max_texts": "texts", "max_tokens": "tokens", "minutes": "minutes"},
    "day": {"max_texts": "day_texts", "max_tokens": "day_tokens"},
}
_FORM = "Write a line [reading] or [day], and below it lines such as max_texts = 300."


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    """The most that is asked of language models; None for no limit.

    A reading is what an index is asked as long as it is open, or by one request to a server.

    >>> named, file = ReadingLimits(texts=50), ReadingLimits(texts=300, minutes=10)
    >>> named.filled(file)
    ReadingLimits(texts=50, tokens=None, minutes=10, day_texts=None, day_tokens=None)

    Attributes:
        texts: of a question altogether, whenever they were sent; of a reading, to an encoder's endpoint.
        tokens: of a reading, about: sent and received.
        minutes: of a reading, after the first call.
        day_texts: of an index and a day, UTC.
        day_tokens: likewise.

    Raises:
        UsageError: a limit is below 0.
    """

    texts: int | None = None
    tokens: int | None = None
    minutes: float | None = None
    day_texts: int | None = None
    day_tokens: int | None = None

    def __post_init__(self) -> None:
        if any(limit is not None and limit < 0 for limit in asdict(self).values()):
            raise UsageError("A limit of reading is below 0.", hint="0 asks no language model anything.")

    def filled(self, others: "ReadingLimits") -> "ReadingLimits":
        """Return these limits, and where one is left out that of others."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return replace(others, **given)


@dataclass(slots=True)
class Spent:
    """What was asked of language models so far, and sent to encoders and rerankers.

    Attributes:
        texts: that were answered, or cannot be.
        embedded: texts that were sent to an encoder's endpoint, queries and probes too.
        reranked: texts that were sent to a reranker's endpoint.
        tokens: sent and received, about; probes and calls about answers too.
        unread: texts that were not answered because a limit was reached.
        failures: texts without an answer, by the reason.
    """

    texts: int = 0
    embedded: int = 0
    reranked: int = 0
    tokens: int = 0
    unread: int = 0
    failures: "dict[Unread, int]" = field(default_factory=dict)

    @property
    def reasons(self) -> str:
        """A sentence for each reason of the failures, with its number; empty where there are none."""
        from retriever.encoders.answers.answerer import explained

        return explained(self.failures)


class Budget:
    """The limits of a reading, and what it has asked so far; threads may share it.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, Store.open(Path(folder, "corpus.sqlite3"), create=True) as store:
    ...     budget = Budget(store, ReadingLimits(texts=50, day_texts=300))
    ...     store.spending.add(texts=280, tokens=9000)
    ...     budget.room(asked=10), budget.room(asked=40)
    (20, 10)
    """

    def __init__(self, store: Store, limits: ReadingLimits) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._began: float | None = None
        self._today = self._unsaved = 0  # tokens of the day that are stored, and that are not yet
        self._texts_today = self._unsaved_texts = 0  # likewise
        self.limits = limits
        self.spent = Spent()

    def begin(self) -> float | None:
        """Begin the minutes of the reading, unless they run; return their end (`time.monotonic`), None for none."""
        self.save()
        with self._lock:
            self._began = time.monotonic() if self._began is None else self._began
            return None if self.limits.minutes is None else self._began + 60 * self.limits.minutes

    def room(self, asked: int) -> int | None:
        """Return how many more texts may be sent under a question that so many were; None for any number."""
        most = [] if self.limits.texts is None else [self.limits.texts - asked]
        if self.limits.day_texts is not None:
            most.append(self.limits.day_texts - self._store.spending.today()[0])
        return max(0, min(most)) if most else None

    def send(self, texts: int) -> None:
        """Count texts that are about to be sent to an encoder's endpoint; a number below 0 takes some back.

        Raises:
            ReadingLimitError: they are more than a limit leaves, or its minutes are over; nothing is counted.
        """
        with self._lock:
            if texts > 0 and (limit := self._in_the_way(texts)):
                raise _reached(limit)
            self.spent.embedded += texts
            self._unsaved_texts += texts

    def _in_the_way(self, texts: int) -> str:
        """Return the limit that does not let so many more texts be sent; empty for none."""
        limits, today = self.limits, self._texts_today + self._unsaved_texts
        if limits.texts is not None and self.spent.embedded + texts > limits.texts:
            return f"{counted(limits.texts, 'text')} of a reading"
        if limits.day_texts is not None and today + texts > limits.day_texts:
            return f"{counted(limits.day_texts, 'text')} of a day"
        if limits.minutes is not None and time.monotonic() >= (self._began or 0.0) + 60 * limits.minutes:
            return f"{limits.minutes:g} minutes of a reading"
        return ""

    def before(self, tokens: int) -> None:
        """Count the tokens of a call that is about to be sent.

        Raises:
            ReadingLimitError: they are more than a limit leaves; nothing is counted.
        """
        limits = self.limits
        with self._lock:
            if limits.tokens is not None and self.spent.tokens + tokens > limits.tokens:
                raise _reached(f"{counted(limits.tokens, 'token')} of a reading")
            if limits.day_tokens is not None and self._today + self._unsaved + tokens > limits.day_tokens:
                raise _reached(f"{counted(limits.day_tokens, 'token')} of a day")
            self._count(tokens)

    def after(self, tokens: int) -> None:
        """Count the tokens of a reply."""
        with self._lock:
            self._count(tokens)

    def save(self, texts: int = 0) -> None:
        """Store what was spent since this was called last, and texts that are sent; in a snapshot later."""
        with self._lock:
            if not self._store.reading:
                tokens, self._unsaved = self._unsaved, 0
                texts, self._unsaved_texts = texts + self._unsaved_texts, 0
                if texts or tokens:
                    self._store.spending.add(texts, tokens)
            if self.limits.day_tokens is not None or self.limits.day_texts is not None:
                self._texts_today, self._today = self._store.spending.today()

    def _count(self, tokens: int) -> None:
        self.spent.tokens += tokens
        self._unsaved += tokens


def _reached(limit: str) -> ReadingLimitError:
    return ReadingLimitError(f"The limit of {limit} is reached.", hint=KEPT_HINT)


def read_limits(folder: Path) -> ReadingLimits:
    """Read the limits of the indexes in a folder from its `settings.toml`; without that file there is none.

    Raises:
        InputError: it cannot be read, or holds something else.
    """
    path = folder / SETTINGS
    if not path.exists():
        return ReadingLimits()
    tables = read_toml(path, _FORM)
    _require_known(path, tables, _TABLES)
    given: dict[str, float] = {}
    for name, table in tables.items():
        given |= _limits(path, name, table)
    return ReadingLimits(**given)  # type: ignore[arg-type]  # checked one by one


def _limits(path: Path, name: str, table: object) -> dict[str, float]:
    """Return the limits of a table of settings, by the names of their fields."""
    if not isinstance(table, dict):
        raise InputError(f"{path}: {name} is no table.", hint=_FORM)
    _require_known(path, table, _TABLES[name])
    for key, value in table.items():
        kinds = (int, float) if key == "minutes" else (int,)
        if isinstance(value, bool) or not isinstance(value, kinds) or not value >= 0:
            raise InputError(f"{path}: {key} is {value!r}.", hint=f"Write a number from 0: {key} = 300.")
    return {_TABLES[name][key]: value for key, value in table.items()}


def _require_known(path: Path, given: Iterable[str], known: Collection[str]) -> None:
    if unknown := sorted(set(given) - set(known)):
        raise InputError(f"{path}: {unknown[0]!r} is no setting.", hint=f"There are {', '.join(known)}.")
