"""Settings of a server: which indexes and model it serves, where it listens, and who may do what."""

import hmac
import ipaddress
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from retriever.api.limits import ServerLimits
from retriever.core.errors import InputError, UsageError
from retriever.index.readers import DEFAULT_PLAIN

HOST = "127.0.0.1"
PORT = 8600
READER_VARIABLE = "RETRIEVER_TOKEN"
WRITER_VARIABLE = "RETRIEVER_WRITER_TOKEN"
LEAST_TOKEN = 16
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_TOKEN = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class Tokens:
    """Secrets that requests are told apart by.

    Attributes:
        reader: what requests must bring; None where everybody who reaches the server may read.
        writer: what requests that change documents must bring, and may bring for the others; None where nobody may.

    Raises:
        UsageError: one is too short, or holds signs that a header cannot.
    """

    reader: str | None = field(default=None, repr=False)
    writer: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name, token in (("reader's", self.reader), ("writer's", self.writer)):
            if token is None:
                continue
            if len(token) < LEAST_TOKEN or not _TOKEN.fullmatch(token):
                raise UsageError(
                    f"The {name} token is too short, or holds signs that a header cannot.",
                    hint=f"Take {LEAST_TOKEN} letters and digits or more: `openssl rand -hex 32` gives one.",
                )

    def may_read(self, given: str | None) -> bool:
        """Whether who brings this token may read."""
        return self.reader is None or _same(given, self.reader) or self.may_write(given)

    def may_write(self, given: str | None) -> bool:
        """Whether who brings this token may change documents."""
        return self.writer is not None and _same(given, self.writer)


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
        ray: where ``index`` is a folder of shards, the address of the Ray cluster that serves them.

    Raises:
        UsageError: the index is a file, others than this machine could reach the server without a token, or there are
            instructions for a model that takes none.
    """

    index: Path
    host: str = HOST
    port: int = PORT
    encoder: str = "default"
    tokens: Tokens = field(default_factory=Tokens)
    instructions: Mapping[str, str] = field(default_factory=dict)
    limits: ServerLimits = field(default_factory=ServerLimits)
    ray: str | None = None

    def __post_init__(self) -> None:
        if self.index.is_file():
            raise UsageError(
                f"{self.index} is a file.", hint="Name an index's folder, or a folder of indexes, with --index."
            )
        if not 0 <= self.port <= 65_535:
            raise UsageError(f"The port is {self.port}.", hint="Ports are 0 to 65535; 0 takes one that is free.")
        if not self.local and self.tokens.reader is None:
            raise UsageError(
                f"Others than this machine reach {self.host}, and there is no token.",
                hint=f"Give one with --token-file or {READER_VARIABLE}, or listen at {HOST}.",
            )
        if self.instructions and self.encoder == DEFAULT_PLAIN:
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


def is_loopback(host: str) -> bool:
    """Whether an address is one that only this machine reaches."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_tokens(reader: Path | None, writer: Path | None) -> Tokens:
    """Read the tokens from files, and where none is named from the environment.

    Raises:
        InputError: a file cannot be read.
        UsageError: a token cannot be used.
    """
    return Tokens(_token(reader, READER_VARIABLE), _token(writer, WRITER_VARIABLE))


def read_instructions(path: Path) -> dict[str, str]:
    """Read saved instructions: a TOML file with lines ``name = "instruction"``.

    Raises:
        InputError: the file cannot be read, or holds something else.
    """
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read: {error}.", hint='It is TOML, with lines such as product = "What is it?".'
        ) from error
    for name, instruction in found.items():
        if not _NAME.fullmatch(name):
            raise InputError(
                f"{path}: {name!r} cannot be the name of an instruction.",
                hint="Use letters, digits, dots, - and _, beginning with a letter or digit; 64 at most.",
            )
        if not isinstance(instruction, str) or not instruction.strip():
            raise InputError(f"{path}: {name} is no instruction.", hint="Write it in quotes, in plain words.")
    return found


def _token(path: Path | None, variable: str) -> str | None:
    if path is None:
        return os.environ.get(variable) or None
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}.", hint="It holds one line, the token.") from error


def _same(given: str | None, token: str) -> bool:
    return given is not None and hmac.compare_digest(given.encode(), token.encode())
