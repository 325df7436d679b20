"""Files cut into parts that are carried one by one, and put together again where they arrive.

What is cut is one tar archive. Each part lies in a numbered folder of its own beside `parts.json`, which lists them all
with their hashes, so that any of these folders can be carried alone and in any order. Knows nothing of models.
"""

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from retriever.core.errors import InputError
from retriever.core.fingerprint import file_hash

LIST = "parts.json"
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Part:
    """A part: its file's name, how many bytes it has, and their SHA-256."""

    name: str
    size: int
    sha256: str


class _Cut(io.RawIOBase):
    """A file to write to that goes on in another file after so many bytes."""

    def __init__(self, folder: Path, size: int) -> None:
        self.parts: list[Part] = []
        self._folder, self._size = folder, size
        self._buffer = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._buffer += data
        while len(self._buffer) >= self._size:
            self._put(bytes(self._buffer[: self._size]))
            del self._buffer[: self._size]
        return len(data)

    def finish(self) -> None:
        """Write what is left."""
        if self._buffer:
            self._put(bytes(self._buffer))

    def _put(self, data: bytes) -> None:
        number = f"{len(self.parts) + 1:02}"
        part = Part(f"part-{number}", len(data), hashlib.sha256(data).hexdigest())
        (self._folder / number).mkdir(parents=True)
        (self._folder / number / part.name).write_bytes(data)
        self.parts.append(part)


class _Joined(io.RawIOBase):
    """Several files read as one."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._chunks = self._read(paths)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while size < 0 or len(self._rest) < size:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            self._rest += chunk
        size = len(self._rest) if size < 0 else size
        found, self._rest = self._rest[:size], self._rest[size:]
        return found

    @staticmethod
    def _read(paths: Sequence[Path]) -> Iterator[bytes]:
        for path in paths:
            with path.open("rb") as file:
                while chunk := file.read(_CHUNK):
                    yield chunk


def cut(files: Mapping[str, Path], folder: Path, size: int) -> list[Part]:
    """Write files, by the names they are to have, as parts of at most so many bytes; equal files make equal parts."""
    writer = _Cut(folder, size)
    with tarfile.open(fileobj=writer, mode="w|") as archive:
        for name, path in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.size, info.mode = path.stat().st_size, 0o644
            with path.open("rb") as file:
                archive.addfile(info, file)
    writer.finish()
    for number in range(1, len(writer.parts) + 1):
        (folder / f"{number:02}" / LIST).write_text(json.dumps([asdict(part) for part in writer.parts]) + "\n")
    return writer.parts


def take(arrived: Path, inbox: Path) -> list[Part]:
    """Copy the parts that lie in a folder, or in folders of it, into the inbox; return those still missing.

    Parts of another cut, which the inbox holds from before, are removed.

    Raises:
        InputError: there is no list of parts, or a part is not what the list says.
    """
    lists = sorted(arrived.rglob(LIST))
    if not lists:
        raise InputError(f"{arrived} holds no {LIST}.", hint="Name a folder that `pack` wrote.")
    listed = lists[0].read_text()
    if inbox.exists() and (inbox / LIST).read_text() != listed:
        shutil.rmtree(inbox)
    inbox.mkdir(parents=True, exist_ok=True)
    (inbox / LIST).write_text(listed)
    parts = [Part(**one) for one in json.loads(listed)]
    for part in parts:
        for path in sorted(arrived.rglob(part.name)):
            if file_hash(path) != part.sha256:
                raise InputError(f"{path} is not what was packed.", hint="Carry it again.")
            shutil.copyfile(path, inbox / part.name)
    return [part for part in parts if not (inbox / part.name).exists()]


def join(inbox: Path, target: Path) -> None:
    """Write the files that the inbox's parts hold into a folder; all parts must be there."""
    parts = [Part(**one) for one in json.loads((inbox / LIST).read_text())]
    with tarfile.open(fileobj=_Joined([inbox / part.name for part in parts]), mode="r|") as archive:
        archive.extractall(target, filter="data")
