"""How long an indexing run takes, by how long its first texts took; nothing is assumed of the machine.

Rows are embedded in the base view, then texts are read under instructions. As long as the time of one of the two is
unknown, the whole is.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from retriever.core.pace import Pace, Rate
from retriever.core.results import Forecast, IndexingReport, OnIndexing
from retriever.store.documents import Documents

LEAST_TEXTS = 100
"""Texts of a run from which on a few are read ahead of the others, to measure how long they take."""

_MOST = 2000  # characters of a text that count: encoders read no more, about
_AROUND = 100  # characters of a prompt around a text, about
_FIRST = 8  # texts of the first of these pieces; each is twice as large as the one before

clock = time.monotonic


@dataclass(frozen=True, slots=True)
class Amount:
    """A number of texts, and of their characters."""

    texts: float = 0
    characters: float = 0

    @classmethod
    def of(cls, texts: Collection[str]) -> Self:
        """Return the amount of some texts; of long ones, what encoders read counts."""
        return cls(len(texts), sum(min(len(text), _MOST) for text in texts))

    @classmethod
    def stored(cls, documents: Documents, content_ids: Sequence[int]) -> Self:
        """Return the amount of stored texts."""
        return cls(len(content_ids), documents.characters(content_ids, _MOST))

    @property
    def work(self) -> float:
        """The characters that are read, with prompts."""
        return self.characters + _AROUND * self.texts

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.texts + other.texts, self.characters + other.characters)

    def __mul__(self, times: float) -> "Amount":
        return Amount(self.texts * times, self.characters * times)


@dataclass(slots=True)
class Stretch:
    """A part of a run, in which one encoder reads. Its work is characters, as `Amount.work` counts them.

    Attributes:
        whole: work that there is, about; None where nobody knows.
        done: work that is stored or about to be.
        rate: how long it takes.
    """

    whole: float | None = None
    done: float = 0.0
    rate: Rate = field(default_factory=Rate)

    def took(self, work: float, seconds: float) -> None:
        """Note work that was done, and how long it took."""
        self.done += work
        self.rate.took(work, seconds)

    def left(self, under_way: float = 0.0) -> float | None:
        """Return the seconds that the rest takes, without the work under way that is done; None where unknown."""
        return None if self.whole is None else self.rate.seconds(max(0.0, self.whole - self.done - under_way))

    def pieces(self, most: int) -> Iterator[int]:
        """Yield how many rows or texts to read next as long as the rate is not known."""
        size = _FIRST
        while not self.rate.known:
            yield min(size, most)
            size *= 2


class Course:
    """How far a run is.

    Args:
        rows: of the input, about; None where nobody knows.
        instructions: that texts are read under.
        later: whether they are read under these after the rows, and not with them.

    Attributes:
        ahead: the first part, the new texts of rows.
        behind: the second part, the texts that are stored.
    """

    def __init__(self, rows: int | None, instructions: int, *, later: bool) -> None:
        self.ahead, self.behind = Stretch(), Stretch(None if later else 0.0)
        self._rows, self._instructions, self._later = rows, instructions, later
        self._stored = self._new = Amount()
        self._reached = self._number = 0  # rows; texts of the run

    def begin(self, stored: Amount) -> None:
        """Note the stored texts that lack vectors before the first row is read."""
        self._stored = stored

    def embedded(self, rows: int, new: Amount, seconds: float) -> None:
        """Note rows that were embedded, with their new texts; rows to come are taken to be like the last ones."""
        self._reached += rows
        self._new += new
        if new.texts:
            self.ahead.took(new.work, seconds)
        if self._rows is not None:
            to_come = new * (max(0, self._rows - self._reached) / rows)
            self.ahead.whole = self.ahead.done + to_come.work
            expected = self._stored + self._new + to_come
            self._number = round(expected.texts)
            if self._later:
                self.behind.whole = expected.work

    def fill(self, lacking: Amount) -> None:
        """Note that the rows are over, and the stored texts that lack vectors now."""
        self.ahead.whole = self.ahead.done
        self.behind.whole, self.behind.done = lacking.work, 0.0
        self._number, self._later = round(lacking.texts), False

    def left(self, ahead: float = 0.0, behind: float = 0.0) -> float | None:
        """Return the seconds to the end of the run; None as long as they are not known.

        So much work of each part is done that is not stored yet.
        """
        rows, texts = self.ahead.left(ahead), self.behind.left(behind)
        return None if rows is None or texts is None else rows + texts

    def forecast(self) -> Forecast | None:
        """Return what the run takes from now on; None as long as that is not known, and where nothing is left."""
        left = self.left()
        if not left:
            return None
        return Forecast(self._number, self._instructions, left, self.ahead.left() if self._later else None)


def counting(report: IndexingReport, progress: OnIndexing | None) -> Callable[[int, int], None] | None:
    """Return a function of (done, total) that shows them as ``in_hand`` and ``expected`` of a report, with ``left``."""
    if progress is None:
        return None
    pace = Pace()

    def notify(done: int, total: int) -> None:
        report.in_hand, report.expected, report.left = done, total, pace.left(done / max(1, total))
        progress(report)

    return notify
