"""Limits of what language models are asked: of a reading, of a server's day, and as `settings.toml` holds them."""

import threading
import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from retriever.core.errors import InputError, ReadingLimitError, UsageError

if TYPE_CHECKING:
    from retriever.encoders.answers.answerer import Unread

SETTINGS = "settings.toml"
"""The file of limits, in the folder that indexes lie in."""

_FIELDS = {"max_texts": "texts", "max_tokens": "tokens", "minutes": "minutes"}
_TABLES = {"reading": tuple(_FIELDS), "day": ("max_texts", "max_tokens")}
_FORM = "It is TOML: a line [reading] or [day], and below it lines such as max_texts = 300."


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    """The most that is asked of language models in a reading; None for no limit.

    A reading is what an index is asked as long as it is open, or by one request to a server.

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

    def filled(self, others: "ReadingLimits") -> "ReadingLimits":
        """Return these limits, and where one is left out that of others."""
        pairs = {name: (getattr(self, name), getattr(others, name)) for name in _FIELDS.values()}
        return ReadingLimits(**{name: others if own is None else own for name, (own, others) in pairs.items()})


@dataclass(slots=True)
class Spent:
    """What was asked of language models so far.

    Attributes:
        texts: sent.
        tokens: about, as estimated before each call.
        unread: texts that were not sent, or not answered in time, because a limit was reached.
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


class DayBudget:
    """The most that all requests to a server ask of language models in a day; safe in all threads.

    It begins anew at midnight UTC, and when the server is started.

    Args:
        limits: texts and tokens of a day.
    """

    def __init__(self, limits: ReadingLimits) -> None:
        self.limits = limits
        self._lock = threading.Lock()
        self._day: date | None = None
        self._texts = self._tokens = 0

    def require(self, texts: int, tokens: int) -> None:
        """Refuse texts, and about how many tokens they are, that the day has no room for.

        Raises:
            ReadingLimitError: it has not.
        """
        with self._lock:
            self._require(texts, tokens)

    def take(self, texts: int, tokens: int) -> None:
        """Count texts that are about to be sent, also where their calls then fail; errors as `require`."""
        with self._lock:
            self._require(texts, tokens)
            self._texts, self._tokens = self._texts + texts, self._tokens + tokens

    def _require(self, texts: int, tokens: int) -> None:
        today, most = datetime.now(UTC).date(), self.limits
        if today != self._day:
            self._day, self._texts, self._tokens = today, 0, 0
        for used, more, limit, what in (
            (self._texts, texts, most.texts, "texts"),
            (self._tokens, tokens, most.tokens, "tokens"),
        ):
            if limit is not None and used + more > limit:
                raise ReadingLimitError(
                    f"This server may send language models {limit} {what} a day; {used} were sent today, and {more} "
                    "more are wanted.",
                    hint="What was answered is kept. Ask for less with `read` or `where`, ask after midnight UTC, or "
                    f"take the reader `default`. {SETTINGS} holds the limit, [day].",
                )


@dataclass(frozen=True, slots=True)
class Budgets:
    """The limits that a file of settings holds, a table each.

    Attributes:
        reading: of a command, of a request to a server, of a reading in the app.
        day: of all requests to a server together; without minutes.
    """

    reading: ReadingLimits = field(default_factory=ReadingLimits)
    day: ReadingLimits = field(default_factory=ReadingLimits)


def read_budgets(folder: Path) -> Budgets:
    """Read the limits of the indexes in a folder from its `settings.toml`; without that file there is none.

    Raises:
        InputError: it cannot be read, or holds something else.
    """
    path = folder / SETTINGS
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Budgets()
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}.", hint=_FORM) from error
    _require_known(path, tables, _TABLES)
    return Budgets(**{name: _limits(path, name, table) for name, table in tables.items()})


def _limits(path: Path, name: str, table: object) -> ReadingLimits:
    """Return the limits of a table of settings."""
    if not isinstance(table, dict):
        raise InputError(f"{path}: {name} is no table.", hint=_FORM)
    _require_known(path, table, _TABLES[name])
    for key, value in table.items():
        kinds = (int, float) if key == "minutes" else (int,)
        if isinstance(value, bool) or not isinstance(value, kinds) or not value >= 0:
            raise InputError(f"{path}: {key} is {value!r}.", hint=f"Write a number from 0: {key} = 300.")
    return ReadingLimits(**{_FIELDS[key]: value for key, value in table.items()})


def _require_known(path: Path, given: Iterable[str], known: Collection[str]) -> None:
    if unknown := sorted(set(given) - set(known)):
        raise InputError(f"{path}: {unknown[0]!r} is no setting.", hint=f"There are {', '.join(known)}.")
