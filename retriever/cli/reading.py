"""Commands that may use a language model: its options, consent before texts leave the machine, and its costs."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retriever.cli import output
from retriever.cli.model_notes import say_encoders
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
class Chosen:
    """The encoders that somebody named for an index, and the hosts that may get its texts for them."""

    question: "Encoder | None"
    plain: "BaseEncoder | None"
    hosts: Sequence[str]

    @property
    def encoders(self) -> dict[str, Any]:
        """The encoders as `Index` takes them."""
        return {"encoder": self.question, "plain": self.plain}


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
    yes: bool = option(False, "Allow hosts that are named, or that the index names, to get texts of it, now and later.")
    allow_http: bool = option(False, "Accept an unencrypted connection to such a host.", advanced=True)

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
    def opened(self, index: Path, device: str, chosen: Chosen | None = None) -> Iterator["Index"]:
        """Open an index within the limits; at the end, also of a run that fails, say what language models were asked.

        Args:
            index: its folder.
            device: as for `Index`.
            chosen: the encoders that somebody named for it; None for those that it has.
        """
        from retriever.index.asking.limits import ReadingLimits, read_limits
        from retriever.workspace import Index

        limits = ReadingLimits(self.max_texts, self.max_tokens, self.max_minutes)
        limits = limits.filled(read_limits(index.absolute().parent))
        with (
            self.asking(),
            Index(index, device=device, limits=limits, **({} if chosen is None else chosen.encoders)) as opened,
        ):
            if chosen is None:
                self._permit_own(opened)
            else:
                for host in chosen.hosts:
                    opened.teaching.allow(host)
            try:
                yield opened
            finally:
                with suppress(IndexNotFoundError):
                    _say_spent(opened.teaching.spent)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Let endpoints be asked as the options say, and say what takes long, until the context ends."""
        from retriever.index.asking.asker import on_wait

        given = {_ALLOW_HTTP: int(self.allow_http) or None, _CALL_SECONDS: self.seconds_a_call}
        with _environment(given), on_wait(output.say):
            yield

    def chosen(self, index: Path, device: str, encoder: str | None, base: str | None, *, new: bool) -> Chosen:
        """Load the encoders that somebody named for an index; first ask whether their hosts may get texts.

        Raises:
            ConsentError: one is at a host that nobody allowed; nothing was sent.
        """
        from retriever.index.asking.consent import not_allowed
        from retriever.index.sources.encoders import load_encoders
        from retriever.workspace import Index

        hosts = []
        with self.asking():
            with Index(index) as unopened:
                for name in filter(None, (encoder, base)):
                    place = unopened.teaching.place(name)
                    if not self.permit(unopened, name):
                        raise not_allowed(place.host)
                    if not place.local:
                        hosts.append(place.host)
            question, plain = load_encoders(encoder, base, new=new, device=device)
            say_encoders(question, plain)
        return Chosen(question, plain, hosts)

    def _permit_own(self, opened: "Index") -> None:
        """Ask whether hosts of the index's own encoders may get texts; otherwise what is stored is searched."""
        with suppress(EncoderError, IndexNotFoundError):
            for name in opened.teaching.elsewhere():
                self.permit(opened, name)

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
    """Say what was sent to whom, and which texts have no answer; nothing where nothing was to be sent."""
    others = {"a reranker": spent.reranked, "the encoder's endpoint": spent.embedded}
    sent = {whom: texts for whom, texts in others.items() if texts}
    if spent.texts or spent.unread or (spent.tokens and not sent):
        sent = {"a language model": spent.texts, **sent}
    if not sent:
        return
    parts = ", ".join(f"{output.counted(texts, 'text')} to {whom}" for whom, texts in sent.items())
    tokens = output.counted(spent.tokens, "token")
    said = f"Sent {parts}: about {tokens}, queries, replies and probes included."
    if spent.unread:
        said += f" A limit left {output.counted(spent.unread, 'text')} unread."
    if spent.failures:
        said += f" {output.counted(sum(spent.failures.values()), 'text')} got no answer: {spent.reasons}"
        said += " `retriever answers --again` lets them be asked about again."
    output.say(printable(said))
