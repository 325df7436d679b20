"""An index as it is open: its folder, database, encoder and writer's lock, each there from its first use."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from retriever.core.closing import Closing
from retriever.core.errors import IndexNotFoundError, UsageError
from retriever.core.protocols import Encoder
from retriever.core.types import JSON
from retriever.services import encoding
from retriever.services.index_status import ENCODER, described
from retriever.services.open_views import OpenViews
from retriever.services.run_record import recorded
from retriever.store.database import DATABASE, Store
from retriever.store.lock import LOCK_NAME, WriterLock


class OpenIndex(Closing):
    """What every operation on an index stands on (`workspace.Index`). A context manager.

    Args:
        path: the index folder.
        encoder: what to embed with; None takes the one the index was made with, ``default`` for a new one.
        device: where a loaded encoder runs.
        load: gives the encoder that the index describes; None loads it on ``device``.
    """

    def __init__(
        self,
        path: Path,
        *,
        encoder: Encoder | None = None,
        device: str = "auto",
        load: encoding.Loader | None = None,
    ) -> None:
        self.path = path
        self._given = encoder
        self._load = load or (lambda description: encoding.load_described(description, device=device))
        self._encoder: Encoder | None = None
        self._description: JSON = None  # of that encoder; `reembed` in another process changes the index's
        self._device = device
        self._store: Store | None = None
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
        return self._store or self._open(create=False)

    @property
    def _open_views(self) -> OpenViews:
        if self._views is None:
            self._views = OpenViews(self.store, self.path, device=self._device)
        return self._views

    @property
    def encoder(self) -> Encoder:
        """The index's encoder, loaded on first use.

        Raises:
            EncoderMismatchError: it is not the one the index was made with.
        """
        description = described(self.store)
        if self._encoder is None or description != self._description:
            if description is None:
                raise UsageError(f"{self.path} holds no documents yet.", hint="Run `retriever index CORPUS` first.")
            self._encoder = encoding.described_encoder(description, self._given, self._load)
            self._description = description
        return self._encoder

    def close(self) -> None:
        """Close the database."""
        if self._store is not None:
            self._store.close()
        self._store = self._views = None

    def _open(self, *, create: bool) -> Store:
        self._store = Store.open(self._database, create=create)
        return self._store

    @contextmanager
    def _writing(self, command: str) -> Iterator[int]:
        """Hold the writer's lock over a recorded run; a new index gets its database and encoder first."""
        if command != "index" and not self._database.exists():
            raise IndexNotFoundError(f"There is no index at {self.path}.", hint="Make one with `retriever index`.")
        with WriterLock(self.path / LOCK_NAME):
            if self._store is None:
                self._open(create=command == "index")
            if command == "index" and self.store.settings.get(ENCODER) is None:
                self._adopt()
            with recorded(self.store, command) as run_id:
                yield run_id

    def _adopt(self) -> None:
        """Make the encoder at hand the index's own."""
        if self._given is None:
            from retriever import load_encoder

            self._given = load_encoder(device=self._device)
        self.store.settings.set(ENCODER, encoding.describe(self._given))
