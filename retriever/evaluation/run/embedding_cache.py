"""An encoder that keeps what it has embedded between evaluations: a second suite over the same texts embeds nothing.

What is kept is a cache and nothing more: it is bounded, it may be deleted at any time, and it is never trusted. A
vector that differs from its checksum, or a file that SQLite cannot read, condemns the encoder's file, which is moved
aside.
"""

import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from retriever.core.closing import Closing
from retriever.core.encoder import Encoder, WrappedEncoder
from retriever.core.errors import IndexDamagedError
from retriever.core.fingerprint import content_hash, json_hash
from retriever.core.types import Embeddings, Encoded
from retriever.index.encoding import view_key
from retriever.store.connection import Connections
from retriever.store.views import ViewKey

CHUNK_TEXTS = 256  # texts embedded between two commits: the most that an interruption costs

FILE_PREFIX = "embeddings"  # the prefix of the files' names; another layout of theirs needs another name

MAX_BYTES = 8 * 2**30
"""Bytes that the files hold; beyond them the encoder that was not used for longest goes first."""

_KEYS_AT_ONCE = 500  # bound one by one
_LAYOUT = "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL, checksum INTEGER NOT NULL)"

_Result = TypeVar("_Result")


class EmbeddingCache(Closing):
    """Vectors by view and text, exact to the last bit: a SQLite file an encoder. Several processes may share them.

    The files are kept in a folder, which is made where there is none, up to ``max_bytes`` of them. ``notes`` say what
    the user should know, such as that a damaged file was moved aside.
    """

    def __init__(self, folder: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self.notes: list[str] = []
        self._folder = folder
        self._max_bytes = max_bytes
        self._opened: dict[Path, Connections] = {}

    def get(self, view: ViewKey, digests: Sequence[bytes]) -> dict[bytes, NDArray[np.float32]]:
        """Give the vectors (dim,) that are kept, by the SHA-256 of their text."""
        return self._safely(view, lambda database: _read(database, view, digests))

    def put(self, vectors: Mapping[ViewKey, Mapping[bytes, NDArray[np.float32]]]) -> None:
        """Keep vectors (dim,) by view and text; where they exceed the bound, other encoders' go, or these stay out."""
        for view, by_digest in vectors.items():
            self._keep(view, by_digest)

    def close(self) -> None:
        """Close the files."""
        for database in self._opened.values():
            database.close()
        self._opened.clear()

    def _keep(self, view: ViewKey, vectors: Mapping[bytes, NDArray[np.float32]]) -> None:
        start = _beginning(view)
        blobs = {start + digest: vector.astype("<f4").tobytes() for digest, vector in vectors.items()}
        rows = [(key, blob, _checksum(key, blob)) for key, blob in blobs.items()]

        def write(database: Connections) -> None:
            with database.transaction():
                database.write_many("INSERT OR IGNORE INTO vectors VALUES (?, ?, ?)", rows)

        if self._makes_room(self._file(view)):
            self._safely(view, write)

    def _makes_room(self, kept: Path) -> bool:
        """Remove the files that were not used for longest, never ``kept``, until the rest fits; say whether it does."""
        used = {}
        for path in self._folder.glob(f"{FILE_PREFIX}*[!lm]"):  # no journals, -wal and -shm, which stay small
            with suppress(FileNotFoundError):  # another process made room
                used[path] = path.stat()
        held = sum(one.st_size for one in used.values())
        for path in sorted(used, key=lambda path: used[path].st_mtime):
            if held > self._max_bytes and path != kept:
                if path in self._opened:
                    self._opened.pop(path).close()
                path.unlink(missing_ok=True)
                held -= used[path].st_size
        return held <= self._max_bytes

    def _file(self, view: ViewKey) -> Path:
        """Name the file of the view's encoder."""
        return self._folder / f"{FILE_PREFIX}-{json_hash({**asdict(view), 'instruction': ''})[:20]}.sqlite3"

    def _database(self, file: Path) -> Connections:
        """Open an encoder's file at its first use, and note that use."""
        if file not in self._opened:
            self._folder.mkdir(parents=True, exist_ok=True)
            file.touch()
            self._opened[file] = Connections(file)
            self._opened[file].write(_LAYOUT)
        return self._opened[file]

    def _safely(self, view: ViewKey, action: Callable[[Connections], _Result]) -> _Result:
        """Run an action on the view's file; where that is damaged, move it aside and run the action on a new one."""
        file = self._file(view)
        try:
            return action(self._database(file))
        except IndexDamagedError as error:
            self._opened.pop(file).close()
            file.replace(f"{file}.damaged")
            self.notes.append(f"The embedding cache was set aside as {file}.damaged: {error.message}")
        return action(self._database(file))


@dataclass(frozen=True, slots=True)
class EmbeddingProgress:
    """The progress of one call of an encoder.

    Attributes:
        done: texts embedded by now, each counted once per instruction.
        total: texts that were missing.
        seconds: time since the call began.
        left: seconds the rest will take, judged by the lengths of the texts.
    """

    done: int
    total: int
    seconds: float
    left: float


class CachedEncoder(WrappedEncoder):
    """An encoder that keeps what it has embedded.

    Words are not kept, and none are given: an evaluation needs none, and asking for them costs a pass of its own.
    """

    def __init__(
        self, encoder: Encoder, cache: EmbeddingCache, *, on_progress: Callable[[EmbeddingProgress], None] | None = None
    ) -> None:
        super().__init__(encoder)
        self._cache = cache
        self._on_progress = on_progress
        self._keys: dict[str, ViewKey] = {}
        self._cut: set[bytes] = set()

    @property
    def notes(self) -> list[str]:
        """Notes for the user: on the cache, and how many of the texts embedded were cut."""
        cut = [f"{len(self._cut)} texts were cut to the encoder's limit."] if self._cut else []
        return [*self._cache.notes, *cut]

    def encode_views(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        words: int = 0,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        """Embed what is not kept; texts that miss the same instructions share one pass. There are no words."""
        digests = [content_hash(text) for text in texts]
        distinct = dict(zip(digests, texts, strict=True))
        keys = [self._key(instruction) for instruction in instructions]
        found = {key: self._cache.get(key, list(distinct)) for key in dict.fromkeys(keys)}
        asked = dict(zip(keys, instructions, strict=True))
        missing: dict[tuple[ViewKey, ...], list[bytes]] = {}
        for digest in distinct:
            if wanted := tuple(key for key in asked if digest not in found[key]):
                missing.setdefault(wanted, []).append(digest)
        clock = _Clock(self._on_progress, {digest: len(text) for digest, text in distinct.items()}, missing)
        for wanted, rows in missing.items():
            rows.sort(key=lambda digest: -len(distinct[digest]))  # like beside like: batches without padding
            for start in range(0, len(rows), CHUNK_TEXTS):
                chunk = rows[start : start + CHUNK_TEXTS]
                read = {digest: distinct[digest] for digest in chunk}
                encoded = self._encoder.encode_views(list(read.values()), [asked[key] for key in wanted])
                new = {
                    key: dict(zip(chunk, one.embeddings, strict=True)) for key, one in zip(wanted, encoded, strict=True)
                }
                self._cache.put(new)
                for key in wanted:
                    found[key].update(new[key])
                self._note_cut(read)
                clock.tick(len(wanted), chunk)
        if on_tokens is not None:
            on_tokens(sum(self.count_tokens(texts)))
        return [Encoded(self._rows(found[key], digests), [[] for _ in texts]) for key in keys]

    def _note_cut(self, texts: Mapping[bytes, str]) -> None:
        limit = self.spec.max_text_tokens
        if limit is not None:
            counts = zip(texts, self.count_tokens(list(texts.values())), strict=True)
            self._cut.update(digest for digest, count in counts if count > limit)

    def _key(self, instruction: str) -> ViewKey:
        if instruction not in self._keys:
            self._keys[instruction] = view_key(self._encoder, instruction)
        return self._keys[instruction]

    def _rows(self, found: Mapping[bytes, NDArray[np.float32]], digests: Sequence[bytes]) -> Embeddings:
        rows = np.empty((len(digests), self.dim), dtype=np.float32)
        for row, digest in enumerate(digests):
            rows[row] = found[digest]
        return rows


def _beginning(view: ViewKey) -> bytes:
    """Give what the keys of a view's texts begin with, 32 bytes; a text's SHA-256 follows."""
    return bytes.fromhex(json_hash(asdict(view)))


def _checksum(key: bytes, vector: bytes) -> int:
    return zlib.crc32(vector, zlib.crc32(key))


def _read(database: Connections, view: ViewKey, digests: Sequence[bytes]) -> dict[bytes, NDArray[np.float32]]:
    start, found = _beginning(view), {}
    for first in range(0, len(digests), _KEYS_AT_ONCE):
        keys = [start + digest for digest in digests[first : first + _KEYS_AT_ONCE]]
        marks = ", ".join("?" * len(keys))
        sql = f"SELECT key, vector, checksum FROM vectors WHERE key IN ({marks})"
        for key, vector, checksum in database.rows(sql, keys):
            if len(vector) != 4 * view.dim or _checksum(key, vector) != checksum:
                raise IndexDamagedError("A vector differs from its checksum.")
            found[key[len(start) :]] = np.frombuffer(vector, dtype="<f4").astype(np.float32)
    return found


class _Clock:
    """Tells how far one call is: texts times instructions, the time left judged by characters."""

    def __init__(
        self,
        tell: Callable[[EmbeddingProgress], None] | None,
        lengths: Mapping[bytes, int],
        missing: Mapping[tuple[ViewKey, ...], Sequence[bytes]],
    ) -> None:
        self._tell = tell
        self._lengths = lengths
        self._total = sum(len(wanted) * len(rows) for wanted, rows in missing.items())
        self._work = sum(len(wanted) * self._size(rows) for wanted, rows in missing.items())
        self._done = self._worked = 0
        self._started = time.monotonic()

    def tick(self, instructions: int, chunk: Sequence[bytes]) -> None:
        self._done += instructions * len(chunk)
        self._worked += instructions * self._size(chunk)
        if self._tell is not None:
            seconds = time.monotonic() - self._started
            left = seconds * (self._work - self._worked) / self._worked
            self._tell(EmbeddingProgress(self._done, self._total, seconds, left))

    def _size(self, rows: Sequence[bytes]) -> int:
        return sum(1 + self._lengths[digest] for digest in rows)
