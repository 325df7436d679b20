"""Views, one embedding of the corpus each, told apart by all that moves a vector; and what was found out about each."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.core.errors import RetrieverError
from retriever.core.similarity import LEVELS
from retriever.core.text import require_text
from retriever.core.types import JSON
from retriever.store.columns import stored_json
from retriever.store.connection import Table, utc_now
from retriever.store.sources import SourceTable, with_dependents

_STORED_QUANTILES = np.dtype("<f4")
_COLUMNS = "fingerprint, instruction, pooling, steps, look_ahead, dtype, dim"
_STORED = f"view_id, created, last_used, lazy, {_COLUMNS}"
_BY_KEY = (
    "fingerprint = ? AND instruction = ? AND pooling = ? AND steps IS ? AND look_ahead IS ? AND dtype = ? AND dim = ?"
)


@dataclass(frozen=True, slots=True)
class ViewKey:
    """Identity of a view: vectors of two keys are never compared.

    Attributes:
        fingerprint: the encoder's, or a hash over all that makes the vectors besides, behind the kind of source.
        instruction: stripped; empty for the base view under the encoder's default instruction.
        pooling: the encoder's pooling.
        steps: soft tokens generated per document, for encoders that generate.
        look_ahead: learned look-ahead tokens, for encoders that have them.
        dtype: the precision the encoder computed in.
        dim: length of a vector.
    """

    fingerprint: str
    instruction: str
    pooling: str
    steps: int | None
    look_ahead: int | None
    dtype: str
    dim: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "instruction", self.instruction.strip())
        require_text(self.instruction)
        if self.dim < 1:
            raise RetrieverError(f"A view needs a dimension of at least 1, not {self.dim}.")


@dataclass(frozen=True, slots=True)
class View:
    """A stored view.

    Attributes:
        view_id: its id.
        key: what makes it.
        created: ISO 8601 in UTC.
        last_used: likewise.
        lazy: whether searches and completions of a part alone filled it; nobody asked for the whole view.
    """

    view_id: int
    key: ViewKey
    created: str
    last_used: str
    lazy: bool = False


class Views(Table):
    """The index's views."""

    def ensure(self, key: ViewKey, *, lazy: bool = False) -> View:
        """Return the view of this key, made now if there is none.

        It is ``lazy`` while a few vectors are wanted, by a search or for a part of the documents, not the whole view.
        """
        view = self.find(key)
        if view is None or (view.lazy and not lazy):
            with self._db.writing(data=view is None):
                now = utc_now()
                self._db.write(
                    f"INSERT INTO views ({_COLUMNS}, created, last_used, lazy) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
                    "ON CONFLICT DO NOTHING",
                    (*astuple(key), now, now, lazy),
                )
                if not lazy:
                    self._db.write(f"UPDATE views SET lazy = 0 WHERE {_BY_KEY}", astuple(key))
            view = self.find(key)
        if view is None:
            raise RetrieverError(f"The view {key.instruction!r} was dropped while it was made.", hint="Run it again.")
        return view

    def find(self, key: ViewKey) -> View | None:
        """Return the view of this key, or None."""
        # A damaged index would hide the view; the few rows are sealed.
        row = self._db.row(f"SELECT {_STORED} FROM views NOT INDEXED WHERE {_BY_KEY}", astuple(key))
        return None if row is None else _view(row)

    def all(self) -> list[View]:
        """Return every view, oldest first."""
        rows = self._db.rows(f"SELECT {_STORED} FROM views ORDER BY view_id")
        return [_view(row) for row in rows]

    def touch(self, view_id: int) -> None:
        """Note that the view was used now."""
        self._db.record("UPDATE views SET last_used = ? WHERE view_id = ?", (utc_now(), view_id))

    def drop(self, *view_ids: int) -> list[int]:
        """Remove views with their vectors, all that is made of them, and hidden views that nothing needs then.

        Their generations become obsolete, for their files to be removed. Returns the ids of all that were removed.
        """
        with self._db.writing():
            gone = with_dependents(SourceTable(self._db).rows(), view_ids)
            for view_id in gone:
                self._db.write("UPDATE generations SET active = 0 WHERE view_id = ?", (view_id,))
                self._db.write("DELETE FROM views WHERE view_id = ?", (view_id,))
        return gone


@dataclass(frozen=True, slots=True)
class Similarities:
    """The cosines of random pairs of a view.

    Attributes:
        vectors: how many the view had when they were drawn.
        quantiles: see `core.similarity.pair_quantiles`.
    """

    vectors: int
    quantiles: NDArray[np.float32]


class SimilarityTable(Table):
    """The distributions of the index's views."""

    def get(self, view_id: int) -> Similarities | None:
        """Return a view's distribution, or None where there is none of today's levels."""
        row = self._db.row("SELECT vectors, quantiles FROM similarities WHERE view_id = ?", (view_id,))
        if row is None or len(row[1]) != len(LEVELS) * _STORED_QUANTILES.itemsize:
            return None
        return Similarities(row[0], np.frombuffer(row[1], dtype=_STORED_QUANTILES).astype(np.float32))

    def put(self, view_id: int, found: Similarities) -> None:
        """Store a view's distribution in place of the one before."""
        self._db.record(
            "INSERT OR REPLACE INTO similarities VALUES (?, ?, ?)",
            (view_id, found.vectors, found.quantiles.astype(_STORED_QUANTILES).tobytes()),
        )


class VerdictTable(Table):
    """The verdicts on the index's views."""

    def get(self, view_id: int) -> Mapping[str, JSON] | None:
        """Return what is stored of a view's verdict, or None where there is none."""
        row = self._db.row("SELECT document FROM verdicts WHERE view_id = ?", (view_id,))
        verdict = None if row is None else stored_json(row[0])
        return verdict if isinstance(verdict, dict) else None

    def put(self, view_id: int, verdict: Mapping[str, JSON]) -> None:
        """Store a view's verdict in place of the one before; of a view that is gone nothing is stored."""
        self._db.record(
            "INSERT OR REPLACE INTO verdicts SELECT view_id, ? FROM views WHERE view_id = ?",
            (json.dumps(verdict, allow_nan=False), view_id),
        )


@dataclass(frozen=True, slots=True)
class Settled:
    """A search that has settled in a view.

    Attributes:
        ranking: as it was stored; None where texts or vectors changed since.
        newest: the largest content id by then: later texts were not looked at.
        removed: whether vectors of texts that stay were taken out since.
    """

    ranking: JSON
    newest: int
    removed: bool


class SettledTable(Table):
    """The rankings that searches settled on, so that asked again they read nothing and give the same list."""

    def get(self, view_id: int, search: bytes) -> Settled | None:
        """Return what a search settled on in a view, by a hash of its query and options; None where it has not.

        Vectors that were added count as no change.
        """
        row = self._db.row(
            "SELECT ranking, checksum, newest, settled.documents = revision.documents, settled.removals = "
            "views.removals FROM settled JOIN views USING (view_id), revision WHERE view_id = ? AND search = ?",
            (view_id, search),
        )
        if row is None or zlib.crc32(row[0].encode()) != row[1]:
            return None
        return Settled(stored_json(row[0]) if row[3] and row[4] else None, row[2], removed=not row[4])

    def put(self, view_id: int, search: bytes, ranking: JSON) -> None:
        """Note the ranking that a search settled on; of a view that is gone nothing is stored."""
        written = json.dumps(ranking, allow_nan=False)
        self._db.record(
            "INSERT OR REPLACE INTO settled (view_id, search, ranking, checksum, documents, removals, newest) "
            "SELECT view_id, ?, ?, ?, revision.documents, removals, "
            "(SELECT COALESCE(MAX(content_id), 0) FROM contents) FROM views, revision WHERE view_id = ?",
            (search, written, zlib.crc32(written.encode()), view_id),
        )

    def forget(self, view_id: int) -> None:
        """Forget which searches have settled in a view: asked again, they read on."""
        self._db.record("DELETE FROM settled WHERE view_id = ?", (view_id,))


class SampleTable(Table):
    """How far the random order of texts was read, by view and selection of documents.

    Texts are drawn whose permanent random number is at most the threshold.
    """

    def threshold(self, view_id: int, *populations: str) -> float:
        """Return the largest threshold that was stored for a view and one of some populations; 0 for none.

        A population is named by the filter of its documents, empty for all.
        """
        marks = ",".join("?" * len(populations))
        row = self._db.row(
            f"SELECT MAX(threshold) FROM samples WHERE view_id = ? AND population IN ({marks})", (view_id, *populations)
        )
        return float(row[0] or 0.0) if row else 0.0

    def extend(self, view_id: int, population: str, threshold: float) -> None:
        """Store a threshold, unless a larger one is stored."""
        self._db.record(
            "INSERT INTO samples (view_id, population, threshold) VALUES (?, ?, ?) ON CONFLICT "
            "(view_id, population) DO UPDATE SET threshold = MAX(threshold, excluded.threshold)",
            (view_id, population, threshold),
        )


def _view(row: tuple[Any, ...]) -> View:
    view_id, created, last_used, lazy, *key = row
    return View(view_id, ViewKey(*key), created, last_used, bool(lazy))
