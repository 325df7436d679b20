"""What all sessions share: loaded encoders, open indexes, and running jobs."""

import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from retriever.core.errors import IndexNotFoundError, RetrieverError
from retriever.core.protocols import Encoder
from retriever.core.types import JSON
from retriever.corpus.columns import Columns
from retriever.services import encoding, profiling
from retriever.services.profiling import Profile, read_columns
from retriever.services.results import IndexStatus
from retriever.services.workspace import Index
from retriever.store.database import DATABASE, identity_of
from retriever_app.jobs import Jobs
from retriever_app.place import Place, name_of, read_place
from retriever_app.trainings import FOLDER, Trainings

if TYPE_CHECKING:
    from retriever_app.clusterings import Clusterings

MOST_OPEN = 16


class Encoders:
    """Encoders by their description, each loaded once, by one thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: dict[str, Encoder] = {}

    def described(self, description: Mapping[str, JSON]) -> Encoder:
        """Return the encoder an index was made with.

        Raises:
            EncoderError: it cannot be loaded, or is another one by now.
        """
        name = json.dumps(description, sort_keys=True)
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = encoding.load_described(description)
            return self._loaded[name]

    def default(self) -> Encoder:
        """Return the encoder of new indexes; loaded anew where the user promoted another."""
        from retriever import load_encoder

        with self._lock:
            encoder = load_encoder()
            return self._loaded.setdefault(json.dumps(encoding.describe(encoder), sort_keys=True), encoder)


@st.cache_resource(show_spinner=False)
def encoders() -> Encoders:
    """Return the process's encoders."""
    return Encoders()


@st.cache_resource(show_spinner=False)
def jobs() -> Jobs:
    """Return the process's jobs."""
    return Jobs()


@st.cache_resource(show_spinner=False)
def clusterings() -> "Clusterings":
    """Return the clusterings that the process has worked out."""
    from retriever_app.clusterings import Clusterings  # scikit-learn takes a second to load

    return Clusterings()


def place() -> Place:
    """Return where the indexes lie."""
    return read_place()


def trainings() -> Trainings:
    """Return the trainings of this place."""
    return Trainings(place().folder / FOLDER)


def made_with(model: Path) -> list[str]:
    """Return the names of the indexes whose vectors a model made; indexes that cannot be read are left out."""
    found = []
    for name in place().names():
        with suppress(RetrieverError):
            if status(open_index(name)).encoder.get("name") == str(model.resolve()):
                found.append(name)
    return found


def open_index(name: str) -> Index:
    """Return an index, open; every session gets the same one until its database is replaced by another.

    Raises:
        IndexNotFoundError: there is none of that name, or no longer.
    """
    database = place().find(name) / DATABASE
    try:
        status = database.stat()
    except FileNotFoundError as error:
        raise IndexNotFoundError(f"The index {name!r} was deleted.", hint="Choose another one.") from error
    return _open(str(database), (status.st_dev, status.st_ino, identity_of(database)))


@st.cache_resource(show_spinner=False, max_entries=MOST_OPEN)
def _open(database: str, identity: tuple[int, int, str]) -> Index:
    """Open the database that this file is now; ``identity`` tells it from one that took its place."""
    return Index(Path(database).parent, load=encoders().described)


def revision(index: Index) -> int:
    """Return the number that grows whenever the index's data change; what pages cache is keyed by it."""
    return index.store.data_version()


def status(index: Index) -> IndexStatus:
    """Return what the index holds now."""
    return _status(index, name_of(index), revision(index))


@st.cache_data(show_spinner=False, max_entries=MOST_OPEN)
def _status(_index: Index, name: str, revision: int) -> IndexStatus:
    return _index.status()


def columns(index: Index) -> Columns:
    """Return which of the index's fields hold what."""
    return _columns(index, name_of(index), _last_command(index))


def profile(index: Index) -> Profile:
    """Return the index's counts as they are now."""
    name, command = name_of(index), _last_command(index)
    return _profile(index, name, command, _columns(index, name, command))


def _last_command(index: Index) -> str:
    """Return what changes with every command and its progress, and with the columns chosen, but not with a search."""
    return repr((index.store.runs.last(1), index.store.settings.get(profiling.COLUMNS)))


@st.cache_data(show_spinner=False, max_entries=MOST_OPEN)
def _columns(_index: Index, name: str, command: str) -> Columns:
    return read_columns(_index)


@st.cache_data(show_spinner=False, max_entries=MOST_OPEN)
def _profile(_index: Index, name: str, command: str, columns: Columns) -> Profile:
    return profiling.profile(_index, columns)
