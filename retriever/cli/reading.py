"""Commands that may use a language model: its options, consent before texts leave the machine, and its costs."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from retriever.cli import output
from retriever.core.errors import ConsentError, UsageError
from retriever.core.options import option
from retriever.core.requests import READER
from retriever.core.text import printable

if TYPE_CHECKING:
    from retriever.clusters.budget import Read
    from retriever.clusters.clustering import Clustering
    from retriever.core.results import KnownAnswers
    from retriever.workspace import Index

T = TypeVar("T")
C = TypeVar("C", bound="Clustering")


@dataclass(frozen=True, slots=True)
class Reading:
    """The reader of an instruction and its limits; those left out are taken from `settings.toml`."""

    reader: str | None = option(None, READER)
    read: str = option("300", "Number of texts that a language model reads, or all.")
    max_texts: int | None = option(None, "Most texts to send to a language model.", advanced=True)
    max_tokens: int | None = option(None, "Most tokens to send to a language model, about.", advanced=True)
    max_minutes: float | None = option(None, "Most minutes to use a language model.", advanced=True)
    yes: bool = option(False, "Send texts to the reader's host without asking; the index remembers the host.")
    allow_http: bool = option(False, "Accept an unencrypted connection to the reader's host.", advanced=True)

    @property
    def texts(self) -> "Read":
        """The number of texts to read.

        Raises:
            UsageError: it is no number, and not all.
        """
        if self.read == "all":
            return "all"
        try:
            return int(self.read)
        except ValueError:
            raise UsageError(f"--read is {self.read!r}.", hint="Give a number of texts, or all.") from None

    @contextmanager
    def opened(self, index: Path, device: str) -> Iterator["Index"]:
        """Open an index within the limits; at the end, say what language models were asked."""
        from retriever.index.sources.limits import ReadingLimits, read_budgets
        from retriever.index.teaching.readers import http_allowed
        from retriever.workspace import Index

        limits = ReadingLimits(self.max_texts, self.max_tokens, self.max_minutes)
        budgets = read_budgets(index.absolute().parent)
        with (
            http_allowed(self.allow_http),
            Index(index, device=device, limits=limits.filled(budgets.reading)) as opened,
        ):
            yield opened
            _say_spent(opened)

    def begin(self, opened: "Index", instruction: str) -> None:
        """Let the reader that was named, if one was, serve an instruction from now on."""
        if self.reader is not None:
            opened.teaching.read_by(instruction, self.reader)

    def make(self, opened: "Index", instruction: str, work: Callable[[], C], save: str | None) -> C:
        """Make clusters or categories under an instruction, and save them if they are to have a name."""
        if save is not None:
            opened.clusterings.check_name(save)
        self.begin(opened, instruction)
        clustering = self.with_consent(opened, work)
        if save is not None:
            opened.clusterings.save(save, clustering)
        return clustering

    def with_consent(self, opened: "Index", work: Callable[[], T]) -> T:
        """Do some work; where texts would be sent to another machine, ask once whether they may.

        Args:
            opened: the index.
            work: is done again after consent; what it read before stays.

        Raises:
            ConsentError: nobody can be asked, or the answer is no.
        """
        try:
            return work()
        except ConsentError as refused:
            if not (self.yes or _agreed(refused)):
                raise
            opened.teaching.allow(refused.host)
        return work()


def _agreed(refused: ConsentError) -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    return typer.confirm(f"{printable(refused.message)} May texts of this index be sent there?", err=True)


def say_known(known: "KnownAnswers | None") -> None:
    """Say how many answers a filter looks at; nothing where it asks for none."""
    if known is not None:
        output.say(known.sentence)


def _say_spent(opened: "Index") -> None:
    """Say what language models were asked, and which texts have no answer; nothing where none was asked."""
    spent = opened.teaching.spent
    if not spent.texts and not spent.unread:
        return
    failed = sum(spent.failures.values())
    texts = "text" if spent.texts == 1 else "texts"
    parts = [f"A language model read {spent.texts} {texts}, about {spent.tokens} tokens"]
    if failed:
        reasons = ", ".join(f"{reason} {count}" for reason, count in spent.failures.items())
        parts.append(f"{failed} answers are missing ({printable(reasons)})")
    if spent.unread:
        parts.append(f"{spent.unread} texts were not read, because the limit was reached")
    output.say("; ".join(parts) + ".")
