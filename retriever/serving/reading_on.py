"""Reads on under questions that somebody asked, while nobody waits for anything: one thread of a process.

It gives way by doing little at a time: a pass of the encoder takes about half a second, and none begins while somebody
waits. The thread's own priority stays as it is, since one that the system holds back would hold back, with the
interpreter's lock, every other thread of the process.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from retriever.core.contexts import Closing
from retriever.core.errors import RetrieverError
from retriever.index.opened import opened
from retriever.index.reading_on import HalfRead, Turn, half_read, is_written, spend, spent_seconds
from retriever.serving.pools import EncoderPool, IndexFolder
from retriever.workspace import Index

PASS_SECONDS = 0.5
"""That a pass is to take: as long as who asks for something may have to wait for one."""

FIRST_CHARACTERS = 500
"""Of the first pass of a turn, before it is known how long one takes."""

MOST_CHARACTERS = 8_000

LOOK_SECONDS = 0.5
"""Between looks whether somebody still waits."""

IDLE_SECONDS = 10.0
"""Between looks whether there is something to read."""

RETRY_SECONDS = 600.0
"""After which an index is tried again that could not be read on: its model cannot be loaded, say."""

_LOG = logging.getLogger(__name__)


def today() -> str:
    """Return the day, UTC."""
    return datetime.now(UTC).date().isoformat()


@dataclass(frozen=True, slots=True)
class Waiting:
    """The reading on of an index while nobody waits.

    Attributes:
        minutes_left: of the processor, today.
        questions: half read, the next one first.
    """

    minutes_left: float
    questions: list[HalfRead]

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        questions = [
            {"instruction": each.instruction, "read": each.read, "texts": each.texts} for each in self.questions
        ]
        return {"minutes_left": round(self.minutes_left, 1), "questions": questions}


class _Turn(Closing):
    """A question's turn, with its index open, and how fast it goes."""

    def __init__(self, path: Path, index: Index, view: int) -> None:
        self.path, self.index = path, index
        self.texts = Turn(opened(index), view)
        self.characters = FIRST_CHARACTERS

    def close(self) -> None:
        """Close the index."""
        self.index.close()


class ReadingOn(Closing):
    """Fills the incomplete views of questions, the one used last first, where ``quiet`` says that nobody waits.

    Nothing of it is remembered but what is read and what it took: another process, or this one begun anew, goes on
    where it ended. Several processes may do so with one index, which has one budget.

    Args:
        folder: the indexes.
        encoders: which they are read with.
        quiet: whether nobody waits for anything.
        minutes: of the processor that may be used for each index and day (UTC); 0 for none.
        now: gives a time in seconds.
        processor: gives the seconds of the processor that this process has used.
        day: gives the day.
    """

    def __init__(
        self,
        folder: IndexFolder,
        encoders: EncoderPool,
        quiet: Callable[[], bool],
        minutes: float,
        *,
        now: Callable[[], float] = time.monotonic,
        processor: Callable[[], float] = time.process_time,
        day: Callable[[], str] = today,
    ) -> None:
        self._folder, self._encoders, self._quiet = folder, encoders, quiet
        self._seconds = 60 * minutes
        self._now, self._processor, self._day = now, processor, day
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._turn: _Turn | None = None
        self._nothing: dict[Path, object] = {}  # the state of the files of indexes that have nothing to be read
        self._failed: dict[Path, float] = {}  # when an index can be tried again

    def start(self) -> None:
        """Begin, on a thread of its own; nothing where no minutes are given."""
        if self._seconds and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="reading on", daemon=True)
            self._thread.start()

    def close(self, seconds: float | None = None) -> None:
        """End after the pass under way, and wait for that, no longer than so many seconds."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(seconds)

    def of(self, index: Index) -> Waiting | None:
        """Return what is read on of an index; None where nothing ever is."""
        if not self._seconds:
            return None
        state = opened(index)
        left = max(0.0, self._seconds - spent_seconds(state, self._day())) / 60
        return Waiting(left, half_read(state))

    def step(self) -> float:
        """Do a pass, unless somebody waits; return the seconds after which another is worth trying."""
        if not self._quiet():
            self._end_turn()  # what was asked may come first now
            return LOOK_SECONDS
        if self._turn is None:
            self._turn = self._next_turn()
        if self._turn is None:
            return IDLE_SECONDS
        if not self._passed(self._turn):
            self._end_turn()
        return 0.0

    def _run(self) -> None:
        pause = 0.0
        while not self._closed.wait(pause):
            try:
                pause = self.step()
            except BaseException as error:  # a library's panic is no Exception; nothing is above this
                _LOG.error("Reading on failed", exc_info=error)
                self._end_turn()
                pause = RETRY_SECONDS
        self._end_turn()

    def _passed(self, turn: _Turn) -> bool:
        """Read some texts of a turn, and return whether it goes on."""
        began, used, state = self._now(), self._processor(), opened(turn.index)
        try:
            if is_written(state):
                return False
            try:
                read = turn.texts.read(turn.characters)
            finally:
                spent = spend(state, self._day(), self._processor() - used)
        except RetrieverError as error:
            _LOG.warning("%s is not read on for now: %s", turn.path.name, error)
            self._failed[turn.path] = self._now() + RETRY_SECONDS
            return False
        pace = read / max(0.001, self._now() - began)
        turn.characters = min(MOST_CHARACTERS, max(1, int(pace * PASS_SECONDS)))
        return not turn.texts.over and spent < self._seconds

    def _next_turn(self) -> _Turn | None:
        """Return the turn of the question that was used last of all whose index has minutes left; None for none."""
        found: list[tuple[str, Path, int]] = []
        for name in self._folder.names():
            if not self._quiet():
                return None
            path = self._folder.folder / name
            if self._failed.get(path, self._now()) > self._now() or self._nothing.get(path) == _files(path):
                continue
            if last := self._last_used(path):
                found.append((last.last_used, path, last.view))
        if not found:
            return None
        _, path, view = max(found)
        with suppress(RetrieverError):  # it was there a moment ago
            return _Turn(path, self._open(path), view)
        return None

    def _last_used(self, path: Path) -> HalfRead | None:
        """Return the question of an index that comes next; None where it has none, or is not read on now."""
        files, waiting = _files(path), list[HalfRead]()
        with suppress(RetrieverError), self._open(path) as index:  # it may be damaged, of another version, or gone
            state = opened(index)
            if is_written(state) or spent_seconds(state, self._day()) >= self._seconds:
                return None
            waiting = half_read(state)
        if not waiting and _files(path) == files:
            self._nothing[path] = files
        return next(iter(waiting), None)

    def _open(self, path: Path) -> Index:
        """Open an index for this thread: what clients have open stays as they used it."""
        return Index(path, load=self._encoders.described)

    def _end_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.close()


def _files(path: Path) -> list[tuple[str, int, int, int]]:
    """Return what changes with the files of an index's database; those that are gone by now are left out."""
    states = []
    for file in sorted(path.glob("*.sqlite3*")):
        with suppress(FileNotFoundError):
            stat = file.stat()
            states.append((file.name, stat.st_ino, stat.st_size, stat.st_mtime_ns))
    return [state for state in states if not state[0].endswith("-shm")]
