"""Settings of a server: what it serves and where, who may do what, and how much one request may ask for."""

import hmac
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from retriever.core.addresses import LOOPBACK, is_loopback
from retriever.core.errors import InputError, UsageError
from retriever.core.files import read_text, read_toml
from retriever.core.requests import SearchRequest
from retriever.core.text import require_text
from retriever.index.asking.limits import ReadingLimits
from retriever.index.sources.encoders import DEFAULT_BASE
from retriever.serving.budget import MINUTES

PORT = 8600
READER_VARIABLE = "RETRIEVER_TOKEN"
WRITER_VARIABLE = "RETRIEVER_WRITER_TOKEN"
LEAST_TOKEN = 16
READING = ReadingLimits(texts=1000, tokens=500_000, day_texts=5000, day_tokens=2_500_000)
"""The most that language models are asked where `settings.toml` does not say it: of a question, a request, a day."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_TOKEN = re.compile(rf"[!-~]{{{LEAST_TOKEN},}}")


@dataclass(frozen=True, slots=True)
class Tokens:
    """Secrets that requests are told apart by.

    Attributes:
        reader: what requests must bring; None where everybody who reaches the server may read.
        writer: what requests that change something must bring, and may bring for the others; None where nobody may.

    Raises:
        UsageError: one is too short, or holds characters that a header cannot hold.
    """

    reader: str | None = field(default=None, repr=False)
    writer: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name, token in (("reader's", self.reader), ("writer's", self.writer)):
            if token is not None:
                _require_token(token, f"The {name} token")

    def may_read(self, given: str | None) -> bool:
        """Whether who brings this token may read."""
        return self.reader is None or _same(given, self.reader) or self.may_write(given)

    def may_write(self, given: str | None) -> bool:
        """Whether who brings this token may change documents, clusterings and answers."""
        return self.writer is not None and _same(given, self.writer)


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of a server; docs/server.md has them as a table.

    Attributes:
        body_bytes: of a request's body.
        body_seconds: until a request's head is there whole, and then its body; and until a client that stopped reading
            its answer goes on.
        texts: of one request for embeddings.
        text_characters: of a text or a query.
        instruction_characters: of an instruction.
        hits: of one search.
        documents: of one request that adds, deletes or fetches.
        seconds: until a request is answered.
        waiting_texts: texts that may wait for the model.
        threads: searches and other requests to indexes that are worked on at a time.
        waiting_requests: of those, how many more may wait.
        readings: searches that read texts under their questions at a time.
        waiting_readings: how many more may wait.
        jobs: jobs that run at a time.
        waiting_jobs: how many more may wait for others that write to the same index.
        kept_jobs: jobs that are over and can still be asked for.
        grace_seconds: that requests under way get when the server is stopped.
    """

    body_bytes: int = 16_000_000
    body_seconds: float = 30
    texts: int = 2048
    text_characters: int = 100_000
    instruction_characters: int = 2000
    hits: int = 1000
    documents: int = 1000
    seconds: float = 60
    waiting_texts: int = 4096
    threads: int = 16
    waiting_requests: int = 128
    readings: int = 2
    waiting_readings: int = 64
    jobs: int = 2
    waiting_jobs: int = 16
    kept_jobs: int = 32
    grace_seconds: int = 10

    @property
    def bodies_bytes(self) -> int:
        """Of the bodies of all requests under way together."""
        return 16 * self.body_bytes

    def check_texts(self, texts: Sequence[str], field: str) -> None:
        """Refuse too many texts, and texts that are blank or too long.

        Raises:
            UsageError: the field, and the place of the text in it, are named.
        """
        if not texts:
            raise UsageError(f"{field} is empty.", hint="Send at least one text.")
        if len(texts) > self.texts:
            raise UsageError(f"{field} holds {len(texts)} texts.", hint=f"Send {self.texts} at most at a time.")
        for place, text in enumerate(texts):
            name = f"{field}[{place}]" if len(texts) > 1 else field
            if not text.strip():
                raise UsageError(f"{name} is an empty text.", hint="Leave it out, or send what it should say.")
            self.check_text(text, name)

    def check_search(self, request: SearchRequest) -> SearchRequest:
        """Return a search that keeps to the limits; raise `UsageError` for another."""
        self.check_text(request.query or request.like or "", "query")
        self.check_instruction(request.instruction or "")
        if request.k > self.hits:
            raise UsageError(f"k is {request.k}.", hint=f"Ask for {self.hits} hits at most.")
        return request

    def check_text(self, text: str, field: str) -> None:
        """Raise `UsageError`, which names the field, for what is too long or no text."""
        require_text(text)
        _check_length(text, self.text_characters, field)

    def check_instruction(self, *instructions: str) -> None:
        """Raise `UsageError` for an instruction that is too long or no text."""
        require_text(*instructions)
        for instruction in instructions:
            _check_length(instruction, self.instruction_characters, "instruction")

    def check_documents(self, count: int) -> None:
        """Raise `UsageError` for too many documents, or none."""
        if not 1 <= count <= self.documents:
            raise UsageError(f"The request names {count} documents.", hint=f"Send 1 to {self.documents} at a time.")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Settings of a server.

    Attributes:
        index: an index's folder, or a folder of indexes.
        host: address to listen at.
        port: to listen at; 0 for any that is free.
        encoder: name of the model that embeds; the name that it is served under too.
        tokens: who may do what.
        instructions: saved ones, by name.
        limits: what may be asked for.
        read_on: minutes of the processor, for each index and day, in which texts are read under questions that somebody
            asked while nobody waits; 0 for none.

    Raises:
        UsageError: the index is a file, others than this machine could reach the server without a token, or there are
            instructions for a model that takes none.
    """

    index: Path
    host: str = LOOPBACK
    port: int = PORT
    encoder: str = "default"
    tokens: Tokens = field(default_factory=Tokens)
    instructions: Mapping[str, str] = field(default_factory=dict)
    limits: ServerLimits = field(default_factory=ServerLimits)
    read_on: float = MINUTES

    def __post_init__(self) -> None:
        if self.index.is_file():
            raise UsageError(
                f"{self.index} is a file.", hint="Name an index's folder, or a folder of indexes, with --index."
            )
        if not self.local and self.tokens.reader is None:
            raise UsageError(
                f"Other machines reach {self.host}, and there is no token.",
                hint=f"Give one with --token-file or {READER_VARIABLE}, or listen at {LOOPBACK}.",
            )
        if self.instructions and self.encoder == DEFAULT_BASE:
            raise UsageError(
                f"{self.encoder} reads texts as they are and takes no instruction.",
                hint="Serve another with --encoder, or leave --instructions out.",
            )
        for name in self.instructions:
            self.limits.check_instruction(self.instructions[name])

    @property
    def local(self) -> bool:
        """Whether only this machine reaches the address."""
        return is_loopback(self.host)


def read_tokens(reader: Path | None, writer: Path | None) -> Tokens:
    """Read the tokens from files, and where none is named from the environment.

    Raises:
        InputError: a file cannot be read.
        UsageError: a token cannot be used.
    """
    return Tokens(_token(reader, READER_VARIABLE), _token(writer, WRITER_VARIABLE))


def read_instructions(path: Path) -> dict[str, str]:
    """Read a TOML file of saved instructions, lines ``name = "instruction"``; raise `InputError` for any other file."""
    instructions = read_toml(path, 'Write lines such as product = "What is it?".')
    for name, instruction in instructions.items():
        if not _NAME.fullmatch(name):
            raise InputError(
                f"{path}: {name!r} cannot be the name of an instruction.",
                hint="Use letters, digits, dots, - and _, beginning with a letter or digit; 64 at most.",
            )
        if not isinstance(instruction, str) or not instruction.strip():
            raise InputError(f"{path}: {name} is no instruction.", hint="Write it in quotes, in plain words.")
    return instructions


def _token(path: Path | None, variable: str) -> str | None:
    token = (os.environ.get(variable, "") if path is None else read_text(path)).strip()
    if path is None and not token:
        return None
    _require_token(token, f"The token in {path or variable}")
    return token


def _require_token(token: str, which: str) -> None:
    if not _TOKEN.fullmatch(token):
        raise UsageError(
            f"{which} is too short, or holds characters that a header cannot hold.",
            hint=f"Take {LEAST_TOKEN} letters and digits or more: `openssl rand -hex 32` gives one.",
        )


def _same(given: str | None, token: str) -> bool:
    return given is not None and hmac.compare_digest(given.encode(), token.encode())


def _check_length(text: str, most: int, field: str) -> None:
    if len(text) > most:
        raise UsageError(f"{field} has {len(text)} characters.", hint=f"Send {most} at most.")
