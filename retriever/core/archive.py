"""Archives: files behind a manifest, in the plain tar format that every `tar` reads.

Reading is strict, since an archive may come from anybody. Only regular files are taken, whose names, sizes, order and
SHA-256 are the manifest's, with the guards of `tarfile`'s ``data`` filter. Nothing is compressed, so what comes out is
never larger than the archive.
"""

import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, Self, cast

from retriever.core.errors import InputError
from retriever.core.fingerprint import file_hash

MANIFEST = "manifest.json"
SEAL = "manifest.sha256"
"""The last file: the hex SHA-256 of the manifest."""
FORMAT = 1
MAX_MANIFEST = 1 << 26
MAX_FILES = 10_000
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_HINT = "Export the index again; an archive that was changed is not read."


@dataclass(frozen=True, slots=True)
class Member:
    """A file of an archive: its name with forward slashes, its bytes, their hex SHA-256."""

    name: str
    size: int
    sha256: str


def write_archive(file: BinaryIO, facts: Mapping[str, Any], files: Mapping[str, Path]) -> dict[str, Any]:
    """Write files, by their names in the archive, behind a manifest of facts, and return the manifest."""
    members = [Member(name, path.stat().st_size, file_hash(path)) for name, path in files.items()]
    manifest = {"format": FORMAT, **facts, "files": [asdict(member) for member in members]}
    data = json.dumps(manifest, indent=1, ensure_ascii=False).encode()
    seal = hashlib.sha256(data).hexdigest().encode()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as tar:
        tar.addfile(_header(MANIFEST, len(data)), io.BytesIO(data))
        for member in members:
            with files[member.name].open("rb") as source:
                tar.addfile(_header(member.name, member.size), source)
        tar.addfile(_header(SEAL, len(seal)), io.BytesIO(seal))
    return manifest


def _header(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o600
    return info


class ArchiveReader:
    """An archive open for reading at its beginning, its manifest read and checked; the file is seekable.

    Raises:
        InputError: it is no archive, its manifest is malformed or of a newer format, or it is longer than the file.
    """

    def __init__(self, file: BinaryIO) -> None:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        with _refusing():
            self._tar = tarfile.open(fileobj=file, mode="r:", tarinfo=_FileHeader, encoding="utf-8", errors="strict")
            data = self._read(self._next(MANIFEST), MAX_MANIFEST)
        self._seal = hashlib.sha256(data).hexdigest().encode()
        self.manifest = _parsed(data)
        self.members = _members(self.manifest)
        if (total := sum(member.size for member in self.members)) > size:
            raise _refused(f"its files have {total} bytes, and the archive only {size}")

    def extract(self, folder: Path) -> None:
        """Write all files into an empty folder, readable by their owner alone.

        Raises:
            InputError: a file is not what the manifest says, or not a file. What was written so far is worthless.
        """
        with _refusing():
            for member in self.members:
                header = self._next(member.name)
                if header.size != member.size:
                    raise _refused(f"{member.name} has another size than its manifest says")
                path = folder / member.name
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._tar.extract(header.replace(mode=0o600, deep=False), folder, filter="data")
                if file_hash(path) != member.sha256:
                    raise _refused(f"{member.name} differs from its checksum")
            if self._read(self._next(SEAL), len(self._seal)) != self._seal:
                raise _refused("its manifest differs from its checksum")

    def _next(self, name: str) -> tarfile.TarInfo:
        """Return the header of the next file, which has to be of that name."""
        header = self._tar.next()
        if header is None or header.name != name:
            raise _refused(f"it holds {header.name if header else 'nothing'!r} where {name} should be")
        return header

    def _read(self, header: tarfile.TarInfo, most: int) -> bytes:
        if header.size > most:
            raise _refused(f"its {header.name} has {header.size} bytes")
        return cast("IO[bytes]", self._tar.extractfile(header)).read()


class _FileHeader(tarfile.TarInfo):
    """The header of a regular file, and of nothing else.

    `tarfile` reads the long names and attributes that other headers announce into memory, however long they are.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)
        if header.type != tarfile.REGTYPE:
            raise _refused(f"it holds {header.name!r} of type {header.type!r}")
        return header


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn the errors of `tarfile` into ours."""
    try:
        yield
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise _refused(str(error)) from error


def _members(manifest: Mapping[str, Any]) -> Sequence[Member]:
    try:
        if manifest["format"] != FORMAT:
            other = repr(manifest["format"])[:80]
            raise InputError(f"The archive has format {other}.", hint="Update retriever to read it.")
        members = [Member(str(file["name"]), int(file["size"]), str(file["sha256"])) for file in manifest["files"]]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise _refused(f"its manifest lacks something: {error}") from error
    for member in members:
        if not _NAME.fullmatch(member.name) or len(member.name) > tarfile.LENGTH_NAME or member.size < 0:
            raise _refused(f"its manifest names {member.name[:200]!r}, which is no name for a file")
    names = {member.name.casefold() for member in members}
    if len(names) != len(members) or names & {MANIFEST, SEAL} or len(members) > MAX_FILES:
        raise _refused("its manifest names a file twice, or too many")
    return members


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        manifest = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _refused(f"its manifest is no JSON: {error}") from error
    if not isinstance(manifest, dict):
        raise _refused("its manifest is no object")
    return manifest


def _refused(why: str) -> InputError:
    return InputError(f"This is no archive that retriever wrote: {why}.", hint=_HINT)
