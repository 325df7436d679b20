"""Commands that may use a language model: its options, consent before texts leave the machine, and its costs."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
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
    from retriever.index.asking.limits import ReadingLimits
    from retriever.workspace import Index

T = TypeVar("T")
_ALLOW_HTTP, _CALL_SECONDS = "RETRIEVER_ALLOW_HTTP", "RETRIEVER_CALL_SECONDS"
C = TypeVar("C", bound="Clustering")


@dataclass(frozen=True, slots=True)
class Reading:
    """The reader of an instruction and its limits; those left out are taken from `settings.toml`."""

    reader: str | None = option(None, READER)
    read: str = option("300", "Number of texts that a language model reads, or all.")
    max_texts: int | None = option(None, "Most texts to send to a language model.", advanced=True)
    max_tokens: int | None = option(None, "Most tokens to send to a language model, about.", advanced=True)
    max_minutes: float | None = option(None, "Most minutes to use a language model.", advanced=True)
    seconds_a_call: float | None = option(None, "Seconds that a call of a language model may take.", advanced=True)
    yes: bool = option(False, "Allow the reader's host to get texts of this index, now and later, without asking.")
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
        from retriever.workspace import Index

        with self.limits(index) as limits, Index(index, device=device, limits=limits) as opened:
            yield opened
            say_spent(opened)

    @contextmanager
    def limits(self, index: Path) -> Iterator["ReadingLimits"]:
        """Give the limits for an index, with the environment that the options stand for."""
        from retriever.index.asking.limits import ReadingLimits, read_limits

        limits = ReadingLimits(self.max_texts, self.max_tokens, self.max_minutes)
        variables = {
            _ALLOW_HTTP: "1" if self.allow_http else None,
            _CALL_SECONDS: None if self.seconds_a_call is None else str(self.seconds_a_call),
        }
        with _environment({name: value for name, value in variables.items() if value is not None}):
            yield limits.filled(read_limits(index.absolute().parent))

    def begin(self, opened: "Index", instruction: str, reader: str | None = None) -> None:
        """Let the reader that was named, if one was, serve an instruction from now on.

        Where it, or the language model that serves the instruction already, is at a host that nobody allowed, ask once.

        Args:
            opened: the index.
            instruction: the question.
            reader: in the place of `self.reader`.

        Raises:
            ConsentError: a reader was named, nobody can be asked, or the answer is no.
        """
        named = reader or self.reader
        name = named or (opened.teaching.reader(instruction) if instruction else "")
        if name.startswith("chat:"):
            place, unanswered = opened.teaching.place(name), named is not None or _lacks_answers(opened, instruction)
            question = f"{name}: may texts of this index be sent to {place.host}?"
            if not place.allowed and unanswered and (self.yes or _agreed(question)):
                opened.teaching.allow(place.host)
        if named is not None and instruction:
            opened.teaching.read_by(instruction, named)

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
            if not (self.yes or _agreed(f"{refused.message} May they?")):
                raise
            opened.teaching.allow(refused.host)
        return work()


def _lacks_answers(opened: "Index", instruction: str) -> bool:
    status = opened.teaching.answers_status(instruction)
    return status.answers < status.texts


def _agreed(question: str) -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    return typer.confirm(printable(question), err=True)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for a while."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            os.environ.update({} if value is None else {name: value})


def say_known(known: "KnownAnswers | None") -> None:
    """Say how many answers a filter looks at; nothing where it asks for none."""
    if known is not None:
        output.say(known.sentence)


def say_spent(opened: "Index") -> None:
    """Say what language models were asked, and which texts have no answer; nothing where none was asked."""
    spent = opened.teaching.spent
    if not (spent.texts or spent.tokens or spent.unread):
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
