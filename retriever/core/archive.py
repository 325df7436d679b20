"""Archives: files behind a manifest, in the plain tar format that every `tar` reads.

Reading is strict, since an archive may come from anybody. Only regular files are taken, whose names, sizes and order
are the manifest's; each is hashed while it is written to a new file. Nothing is compressed, so what comes out is never
larger than the archive. Headers are read one by one, since `tarfile.open` takes names of any length and attributes that
a header announces into memory before one can refuse them, and passes over what stands between files.
"""

import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from retriever.core.errors import InputError
from retriever.core.fingerprint import file_hash

MANIFEST = "manifest.json"
SEAL = "manifest.sha256"
"""The last file: the hex SHA-256 of the manifest."""
FORMAT = 1
MAX_MANIFEST = 1 << 26
MAX_FILES = 10_000
_BLOCK = tarfile.BLOCKSIZE
_CHUNK = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_HINT = "Export the index again; an archive that was changed is not read."


@dataclass(frozen=True, slots=True)
class Member:
    """A file of an archive: its name with forward slashes, its bytes, their hex SHA-256."""

    name: str
    size: int
    sha256: str


def write_archive(file: BinaryIO, facts: Mapping[str, Any], files: Mapping[str, Path]) -> dict[str, Any]:
    """Write files behind a manifest and return the manifest.

    Args:
        file: where to.
        facts: what the manifest says besides format and files.
        files: by name in the archive.
    """
    members = [Member(name, path.stat().st_size, file_hash(path)) for name, path in files.items()]
    manifest = {"format": FORMAT, **facts, "files": [asdict(member) for member in members]}
    data = json.dumps(manifest, indent=1, ensure_ascii=False).encode()
    seal = hashlib.sha256(data).hexdigest().encode()
    packed = tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT)
    packed.addfile(_header(MANIFEST, len(data)), io.BytesIO(data))
    for member in members:
        with files[member.name].open("rb") as source:
            packed.addfile(_header(member.name, member.size), source)
    packed.addfile(_header(SEAL, len(seal)), io.BytesIO(seal))
    file.write(bytes(2 * _BLOCK))
    return manifest


def _header(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o600
    return info


class ArchiveReader:
    """An archive open for reading, its manifest read and checked.

    Args:
        file: seekable, at its beginning.

    Raises:
        InputError: it is no archive, its manifest is malformed or of a newer format, or it is longer than the file.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._left = file.seek(0, os.SEEK_END)
        file.seek(0)
        size = self._header(MANIFEST)
        if size > MAX_MANIFEST:
            raise _refused(f"its manifest has {size} bytes")
        data = self._read(size)
        self._seal = hashlib.sha256(data).hexdigest().encode()
        self.manifest = _parsed(data)
        self._skip_padding(size)
        self.members = _members(self.manifest)
        if (total := sum(member.size for member in self.members)) > self._left:
            raise _refused(f"its files have {total} bytes, and the archive only {self._left}")

    def extract(self, folder: Path) -> None:
        """Write all files into an empty folder, readable by their owner alone.

        Raises:
            InputError: a file is not what the manifest says, or not a file. What was written so far is worthless.
        """
        for member in self.members:
            if self._header(member.name) != member.size:
                raise _refused(f"{member.name} has another size than its manifest says")
            path = folder.joinpath(*member.name.split("/"))
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with os.fdopen(descriptor, "wb") as target:
                if self._copy(member.size, target) != member.sha256:
                    raise _refused(f"{member.name} differs from its checksum")
            self._skip_padding(member.size)
        if self._header(SEAL) != len(self._seal) or self._read(len(self._seal)) != self._seal:
            raise _refused("its manifest differs from its checksum")
        self._skip_padding(len(self._seal))
        rest = self._read(2 * _BLOCK)
        if self._left or any(rest):
            raise _refused("something follows its last file")

    def _header(self, name: str) -> int:
        """Return the size of the next member, which has to be a plain file of that name."""
        try:
            found = tarfile.TarInfo.frombuf(self._read(_BLOCK), "utf-8", "strict")
        except (tarfile.HeaderError, UnicodeDecodeError, ValueError) as error:
            raise _refused(f"where {name} should begin, there is {error}") from error
        if found.type != tarfile.REGTYPE or found.name != name or found.size < 0:
            raise _refused(f"it holds {found.name!r} of type {found.type!r} where {name} should be")
        return found.size

    def _copy(self, size: int, target: BinaryIO) -> str:
        digest = hashlib.sha256()
        for start in range(0, size, _CHUNK):
            chunk = self._read(min(_CHUNK, size - start))
            digest.update(chunk)
            target.write(chunk)
        return digest.hexdigest()

    def _skip_padding(self, size: int) -> None:
        if any(self._read(-size % _BLOCK)):
            raise _refused("something stands between its files")

    def _read(self, size: int) -> bytes:
        data = self._file.read(size)
        self._left -= len(data)
        if len(data) != size:
            raise _refused("it ends too early")
        return data


def _members(manifest: Mapping[str, Any]) -> Sequence[Member]:
    try:
        if manifest["format"] != FORMAT:
            found = repr(manifest["format"])[:80]
            raise InputError(f"The archive has format {found}.", hint="Update retriever to read it.")
        members = [Member(str(one["name"]), int(one["size"]), str(one["sha256"])) for one in manifest["files"]]
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
