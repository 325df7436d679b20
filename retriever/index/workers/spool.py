"""The spool: a folder of files by which a writer and its workers share what is to be embedded and what is.

A *piece* is some texts of a batch with the views they lack. Its name is a hash of both, so that whoever embeds it finds
the same name: another run, another number of workers, with Ray or without. ``NAME.task`` says what is to be read and
with what, ``NAME.piece`` holds the vectors. Both appear whole or not at all. What lies there is the truth: nothing else
remembers what is done.
"""

import hashlib
import json
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from retriever.core.errors import OutputError, RetrieverError
from retriever.core.fingerprint import json_hash
from retriever.core.paths import DRAFT_SUFFIX, atomic_write, make_folder
from retriever.core.types import JSON, Encoded
from retriever.index.encoding import WORDS
from retriever.store.views import ViewKey

FOLDER = "spool"
"""The spool's name inside an index's folder."""

_FORMAT = 3
_TASK, _PIECE = ".task", ".piece"
_NOTES = "notes"  # a tensor of bytes beside those of the views
_LOOK = 0.2  # seconds between two looks for a file
_DIGEST = 32  # bytes of SHA-256 before what is stored


@dataclass(frozen=True, slots=True)
class Task:
    """The work that a worker is asked for.

    Attributes:
        texts: to read.
        instructions: under which; an empty one is the encoder's default.
        encoder: its description, as `index.encoding.describe` gives it.
    """

    texts: Sequence[str]
    instructions: Sequence[str]
    encoder: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class Finished:
    """A piece that was embedded: for each of its views the vectors and words of its texts, and the tokens read."""

    encoded: Sequence[Encoded]
    tokens: int


class Spool:
    """A spool in a folder that every worker reaches under this name; it is made when the first piece is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def name(self, texts: Sequence[str], views: Sequence[ViewKey]) -> str:
        """Return the name of a piece: the hex SHA-256 of its texts and of all that makes its views."""
        return json_hash({"format": _FORMAT, "words": WORDS, "views": list(map(asdict, views)), "texts": list(texts)})

    def ask(self, name: str, task: Task) -> None:
        """Write what is to be embedded, for a worker to read.

        Raises:
            OutputError: the folder cannot be written.
        """
        path = self._path(name, _TASK)
        try:
            make_folder(self.folder, private=True)
            with atomic_write(path) as file:
                file.write(json.dumps(asdict(task), ensure_ascii=False).encode())
        except OSError as error:
            raise OutputError(
                f"{path} cannot be written: {error.strerror or error}.", hint="Choose another --spool."
            ) from error

    def task(self, name: str) -> Task:
        """Read what is to be embedded.

        Raises:
            RetrieverError: this process does not find it.
        """
        path = self._path(name, _TASK)
        try:
            return Task(**json.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError) as error:
            raise RetrieverError(
                f"A worker cannot read {path}: {error}.",
                hint="Name a folder with --spool that all machines reach under the same name.",
            ) from error

    def finish(self, name: str, done: Finished) -> None:
        """Write the vectors of a piece."""
        from safetensors.numpy import save

        notes = json.dumps({"words": [each.words for each in done.encoded], "tokens": done.tokens}).encode()
        tensors = {str(view): np.ascontiguousarray(each.embeddings) for view, each in enumerate(done.encoded)}
        data = save({**tensors, _NOTES: np.frombuffer(notes, dtype=np.uint8)})
        with atomic_write(self._path(name, _PIECE)) as file:
            file.write(hashlib.sha256(data).digest())
            file.write(data)

    def find(self, name: str, texts: int, views: Sequence[ViewKey], *, patience: float = 0) -> Finished | None:
        """Return the vectors of so many texts for some views in a piece; None where they are not there, or not whole.

        Its file is looked for as many seconds as there is ``patience``.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load

        path, end = self._path(name, _PIECE), time.monotonic() + patience
        while not path.exists() and time.monotonic() < end:
            time.sleep(_LOOK)
        with suppress(OSError, SafetensorError, ValueError, KeyError, TypeError):
            stored = path.read_bytes()
            if hashlib.sha256(stored[_DIGEST:]).digest() == stored[:_DIGEST]:
                tensors = load(stored[_DIGEST:])
                notes = json.loads(tensors[_NOTES].tobytes())
                encoded = [Encoded(tensors[str(view)], words) for view, words in enumerate(notes["words"])]
                shapes = [(each.embeddings.shape, str(each.embeddings.dtype), len(each.words)) for each in encoded]
                if shapes == [((texts, view.dim), "float32", texts) for view in views]:
                    return Finished(encoded, int(notes["tokens"]))
        return None

    def remove(self, names: Collection[str]) -> None:
        """Remove pieces that are stored elsewhere by now, and the folder when it is empty."""
        for name in names:
            for suffix in (_TASK, _PIECE):
                with suppress(OSError):  # what stays is in nobody's way
                    self._path(name, suffix).unlink(missing_ok=True)
        with suppress(OSError):  # not empty, or not there
            self.folder.rmdir()

    def clear(self) -> None:
        """Remove whatever lies here: pieces and tasks that nobody asks for any more, and drafts."""
        for path in sorted(self.folder.glob("*")):
            if path.suffix in (_TASK, _PIECE, DRAFT_SUFFIX) and path.is_file():
                with suppress(OSError):
                    path.unlink()
        self.remove(())

    def is_empty(self) -> bool:
        """Whether no piece lies here."""
        return next(self.folder.glob(f"*{_PIECE}"), None) is None

    def _path(self, name: str, suffix: str) -> Path:
        return self.folder / f"{name}{suffix}"
