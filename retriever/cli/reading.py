"""Commands that may use a language model: its options, consent before texts leave the machine, and its costs."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from retriever.cli import output
from retriever.core.errors import EncoderError, IndexNotFoundError, UsageError
from retriever.core.options import option
from retriever.core.requests import READER
from retriever.core.text import printable

if TYPE_CHECKING:
    from retriever.clusters.budget import Read
    from retriever.core.protocols import Encoder
    from retriever.core.results import KnownAnswers
    from retriever.index.asking.limits import Spent
    from retriever.index.sources.encoders import BaseEncoder
    from retriever.workspace import Index

_ALLOW_HTTP, _CALL_SECONDS = "RETRIEVER_ALLOW_HTTP", "RETRIEVER_CALL_SECONDS"


@dataclass(frozen=True, slots=True)
class Reading:
    """The reader of an instruction and its limits; those left out are taken from `settings.toml`."""

    reader: str | None = option(None, READER)
    read: str = option("300", "Texts that a language model reads, those it read before included, or all.")
    max_texts: int | None = option(
        None, "Most texts to send under a question, those sent before included.", advanced=True
    )
    max_tokens: int | None = option(None, "Most tokens to send and receive in this run, about.", advanced=True)
    max_minutes: float | None = option(None, "Most minutes to use a language model in this run.", advanced=True)
    seconds_a_call: int | None = option(None, "Seconds that a call of a language model may take.", advanced=True)
    yes: bool = option(False, "Allow the reader's host to get texts of this index, now and later, without asking.")
    allow_http: bool = option(False, "Accept an unencrypted connection to the reader's host.", advanced=True)

    @property
    def texts(self) -> "Read":
        """The number of texts to read, or all; raises `UsageError` for anything else."""
        if self.read == "all":
            return "all"
        try:
            return int(self.read)
        except ValueError:
            raise UsageError(f"--read is {self.read!r}.", hint="Give a number of texts, or all.") from None

    @contextmanager
    def opened(
        self, index: Path, device: str, encoder: "Encoder | None" = None, plain: "BaseEncoder | None" = None
    ) -> Iterator["Index"]:
        """Open an index within the limits; at the end, also of a run that fails, say what language models were asked.

        Arguments are those of `Index`.
        """
        from retriever.index.asking.asker import on_wait
        from retriever.index.asking.limits import ReadingLimits, read_limits
        from retriever.workspace import Index

        limits = ReadingLimits(self.max_texts, self.max_tokens, self.max_minutes)
        limits = limits.filled(read_limits(index.absolute().parent))
        with (
            _environment({_ALLOW_HTTP: int(self.allow_http) or None, _CALL_SECONDS: self.seconds_a_call}),
            on_wait(output.say),
            Index(index, device=device, limits=limits, encoder=encoder, plain=plain) as opened,
        ):
            try:
                yield opened
            finally:
                with suppress(IndexNotFoundError):
                    _say_spent(opened.teaching.spent)

    def begin(self, opened: "Index", instruction: str, reader: str | None = None, *, required: bool = True) -> None:
        """Let the reader that was named, if one was, serve an instruction; first ask whether it may get texts.

        The reader that serves the instruction already is asked about too, where texts have no answer. ``reader`` stands
        in for `self.reader`. Where it is ``required``, a person's no ends the command; otherwise nothing changes.

        Raises:
            ConsentError: the reader that was named is at a host that nobody allowed; nothing was sent.
        """
        named, teaching = reader or self.reader, opened.teaching
        if named is not None:
            if self.permit(opened, named) or required or not _at_terminal():
                teaching.read_by(instruction, named)
        elif serving := teaching.reader(instruction):
            with suppress(EncoderError):  # what serves may be away: the work says so where it needs it
                if not teaching.place(serving).allowed and _lacks_answers(opened, instruction):
                    self.permit(opened, serving)

    def permit(self, opened: "Index", reader: str) -> bool:
        """Return whether a reader may get texts; ask where its host was never allowed. Errors as `Teaching.place`."""
        place = opened.teaching.place(reader)
        if place.allowed:
            return True
        question = f"{reader} reads at {place.host}. May texts of this index be sent there?"
        if self.yes or (_at_terminal() and output.agreed(question)):
            opened.teaching.allow(place.host)
            return True
        return False


def _lacks_answers(opened: "Index", instruction: str) -> bool:
    status = opened.teaching.answers_status(instruction)
    return status.answers < status.texts


def _at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


@contextmanager
def _environment(variables: Mapping[str, object]) -> Iterator[None]:
    """Set those environment variables that have a value, for a while."""
    given = {name: str(value) for name, value in variables.items() if value is not None}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
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


def _say_spent(spent: "Spent") -> None:
    """Say what language models were sent, and which texts have no answer; nothing where nothing was to be sent."""
    if not (spent.texts or spent.tokens or spent.unread):
        return
    texts = output.counted(spent.texts, "text")
    said = f"A language model was sent {texts}: about {spent.tokens:,} tokens, replies and probes included."
    if spent.unread:
        said += f" A limit left {output.counted(spent.unread, 'text')} unread."
    if spent.failures:
        said += f" {output.counted(sum(spent.failures.values()), 'text')} got no answer: {spent.reasons}"
        said += " `retriever answers --again` lets them be asked about again."
    output.say(printable(said))
