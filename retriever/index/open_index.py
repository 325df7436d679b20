"""An index as it is open: its folder, database, encoder and writer's lock, each there from its first use."""

import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from retriever.core.closing import Closing
from retriever.core.encoder import Encoder
from retriever.core.errors import EncoderMismatchError, IndexNotFoundError, UsageError
from retriever.core.requests import SearchOptions
from retriever.core.types import Document, Ids
from retriever.index import encoding
from retriever.index.open_views import OpenViews
from retriever.index.readers import PlainReader, Readers, load_plain
from retriever.index.run_record import recorded
from retriever.index.status import ENCODER, PLAIN, ReaderDescriptions, reader_descriptions
from retriever.store.database import DATABASE, Store, identity_of
from retriever.store.lock import LOCK_NAME, WriterLock


@dataclass(frozen=True, slots=True)
class DatabaseIdentity:
    """Identity of an index's database, to tell it from another one that takes its place, also in the same file.

    Attributes:
        device: number of the file's file system.
        inode: the file's number there.
        first_run: when the index's first run began; empty before that.
    """

    device: int
    inode: int
    first_run: str


def is_index(path: Path) -> bool:
    """Whether a folder holds an index; it may be damaged."""
    return (path / DATABASE).is_file()


def database_identity(path: Path) -> DatabaseIdentity:
    """Identify the database in an index's folder, to tell it from others; it is not opened as an index.

    Raises:
        IndexNotFoundError: there is none.
    """
    try:
        found = (path / DATABASE).stat()
    except FileNotFoundError as error:
        raise IndexNotFoundError(f"There is no index at {path}.", hint="Make one with `retriever index`.") from error
    return DatabaseIdentity(found.st_dev, found.st_ino, identity_of(path / DATABASE))


class OpenIndex(Closing):
    """The base of every operation on an index (`workspace.Index`). A context manager.

    Its files are open from the first use until `close`, or until nobody holds the object any more.

    Args:
        path: the index folder.
        encoder: what follows instructions; None takes the one the index was made with, ``default`` for a new one.
        plain: what fills the base view: an encoder, or ``none`` for ``encoder``. None takes what the index was made
            with; for a new one `minilm` where no encoder is given, else none.
        device: where loaded encoders run.
        load: gives an encoder that the index describes; None loads it on ``device``.
        search_options: how far searches go; None for the defaults.

    Raises:
        UsageError: what was given is no `Encoder`.
    """

    def __init__(
        self,
        path: Path,
        *,
        encoder: Encoder | None = None,
        plain: PlainReader | None = None,
        device: str = "auto",
        load: encoding.Loader | None = None,
        search_options: SearchOptions | None = None,
    ) -> None:
        for given in (encoder, None if plain == "none" else plain):
            if given is not None and not isinstance(given, Encoder):
                raise UsageError(
                    f"{type(given).__name__} is no encoder: an index asks for `spec` and `encode_views`.",
                    hint="Subclass retriever.core.encoder.Encoder; docs/add-an-encoder.md shows it.",
                )
        self.path = path
        self._given = encoder
        self._given_plain = plain
        self._search_options = search_options or SearchOptions()
        self._load = load or (lambda description: encoding.load_described(description, device=device))
        self._readers: Readers | None = None
        self._descriptions: ReaderDescriptions | None = None  # of those; `reembed` elsewhere changes the index's
        self._device = device
        self._opening = threading.RLock()  # threads that come first together open it once
        self._store: Store | None = None
        self._closing: weakref.finalize[[], OpenIndex] | None = None  # closes the store, once
        self._views: OpenViews | None = None

    @property
    def _database(self) -> Path:
        return self.path / DATABASE

    @property
    def store(self) -> Store:
        """The index's database.

        Raises:
            IndexNotFoundError: nothing was indexed here yet.
        """
        with self._opening:
            return self._store or self._open(create=False)

    @property
    def _open_views(self) -> OpenViews:
        with self._opening:
            if self._views is None:
                self._views = OpenViews(self.store, self.path, device=self._device)
            return self._views

    @property
    def encoder(self) -> Encoder:
        """The index's encoder that follows instructions, loaded on first use.

        Raises:
            EncoderMismatchError: it is not the one the index was made with.
        """
        return self.readers.question

    @property
    def readers(self) -> Readers:
        """The index's encoders, each loaded on first use, with errors as for `encoder`.

        Raises:
            UsageError: nothing was indexed here yet.
            EncoderMismatchError: a plain reader is given and the index has none, or the other way round.
        """
        found = reader_descriptions(self.store)
        with self._opening:
            if self._readers is None or found != self._descriptions:
                if found is None:
                    raise UsageError(f"{self.path} holds no documents yet.", hint="Run `retriever index CORPUS` first.")
                self._require_plain(found)
                if self._given is not None:  # also where only the other reader is asked
                    encoding.check_fingerprint(self._given, found.question)
                given = self._given_plain if isinstance(self._given_plain, Encoder) else None
                self._readers = Readers(
                    partial(encoding.described_encoder, found.question, self._given, self._load),
                    None
                    if found.plain is None
                    else partial(encoding.described_encoder, found.plain, given, self._load),
                )
                self._descriptions = found
            return self._readers

    def _require_plain(self, found: ReaderDescriptions) -> None:
        """Refuse an index that has a plain reader where none is asked for, or the other way round."""
        given = self._given_plain
        if isinstance(given, Encoder) and given.fingerprint == found.question["fingerprint"]:
            given = "none"
        if given is not None and (given == "none") is not (found.plain is None):
            has = "no plain reader" if found.plain is None else f"the plain reader {found.plain.get('name')}"
            raise EncoderMismatchError(
                f"{self.path} has {has}.",
                hint="`retriever reembed --plain NAME` gives it another one, `--plain none` takes it away.",
            )

    @property
    def identity(self) -> str:
        """Key that tells this index from all others, also from one that was in its folder before; to key caches by."""
        return f"{self.path} {self.store.identity()}"

    @property
    def revision(self) -> int:
        """A number that grows with every change of documents, vectors or views, whichever process makes it."""
        return self.store.data_version()

    def documents(self, ids: Iterable[str]) -> dict[str, Document]:
        """Return documents by their ids, and units by theirs; ids that are not there are left out."""
        asked = list(ids)
        found = self.store.documents.get(asked)
        if self.store.units.divided:
            found |= self.store.units.get([one for one in asked if one not in found])
        return found

    def count_tokens(self, contents: Ids) -> int:
        """Count the tokens that the texts of some content ids have together, for the question reader."""
        return sum(encoding.count_tokens(self.encoder, list(self.store.documents.texts(contents).values())))

    def close(self) -> None:
        """Close the database."""
        if self._closing is not None:
            self._closing()
        self._closing = self._store = self._views = None

    def _open(self, *, create: bool) -> Store:
        self._store = Store.open(self._database, create=create)
        self._closing = weakref.finalize(self, self._store.close)
        self._closing.atexit = False  # a thread may still be at work on it then
        return self._store

    @contextmanager
    def _writing(self, command: str) -> Iterator[int]:
        """Hold the writer's lock over a recorded run; a new index gets its database and encoder first."""
        if command != "index" and not self._database.exists():
            raise IndexNotFoundError(f"There is no index at {self.path}.", hint="Make one with `retriever index`.")
        with WriterLock(self.path / LOCK_NAME):
            with self._opening:
                if self._store is None:
                    self._open(create=command == "index")
            if command == "index" and self.store.settings.get(ENCODER) is None:
                self._adopt()
            with recorded(self.store, command) as run_id:
                yield run_id

    def _adopt(self) -> None:
        """Make the encoders at hand the index's own."""
        if self._given is None:
            from retriever.encoders import catalog

            self._given = catalog.load_encoder(device=self._device)
            if self._given_plain is None:
                self._given_plain = load_plain(device=self._device)
        plain = self._given_plain if isinstance(self._given_plain, Encoder) else None
        if plain is not None and plain.fingerprint == self._given.fingerprint:
            plain = None  # one encoder, named twice, is one reader
        with self.store.transaction():
            self.store.settings.set(ENCODER, encoding.describe(self._given))
            if plain is not None:
                self.store.settings.set(PLAIN, encoding.describe(plain))
