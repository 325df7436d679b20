"""Views: one embedding of the corpus each, told apart by encoder, instruction and all else that moves a vector."""

from dataclasses import astuple, dataclass
from typing import Any

from retriever.core.encoder import TUNED
from retriever.core.errors import RetrieverError
from retriever.core.text import require_text
from retriever.store.connection import Connections, utc_now

TAUGHT = "taught:"
"""What the fingerprint of a view begins with whose vectors a head makes of another view's, not an encoder of texts."""

_COLUMNS = "fingerprint, instruction, pooling, steps, look_ahead, dtype, dim"
_STORED = f"view_id, created, last_used, lazy, {_COLUMNS}"
_BY_KEY = (
    "fingerprint = ? AND instruction = ? AND pooling = ? AND steps IS ? AND look_ahead IS ? AND dtype = ? AND dim = ?"
)


@dataclass(frozen=True, slots=True)
class ViewKey:
    """Identity of a view: vectors of two keys are never compared.

    Attributes:
        fingerprint: the encoder's; of a taught view `TAUGHT` and a hash over the encoder's and the head; of a tuned one
            `TUNED`, a hash over what tuned it and the view of the question, and the plain reader's behind a colon.
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

    @property
    def taught(self) -> bool:
        """Whether its vectors are made of those of another view by what examples taught."""
        return self.key.fingerprint.startswith(TAUGHT)

    @property
    def tuned(self) -> bool:
        """Whether a plain reader made its vectors that was fine-tuned for its question; a head takes them."""
        return self.key.fingerprint.startswith(TUNED)


class Views:
    """The index's views."""

    def __init__(self, connections: Connections) -> None:
        self._db = connections

    def ensure(self, key: ViewKey, *, lazy: bool = False) -> View:
        """Return the view of this key, made now if there is none.

        Args:
            key: what makes the view.
            lazy: whether a few vectors are wanted, by a search or for a part of the documents, not the whole view.
        """
        found = self.find(key)
        if found is None or (found.lazy and not lazy):
            with self._db.writing(data=found is None):
                now = utc_now()
                self._db.write(
                    f"INSERT INTO views ({_COLUMNS}, created, last_used, lazy) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
                    "ON CONFLICT DO NOTHING",
                    (*astuple(key), now, now, lazy),
                )
                if not lazy:
                    self._db.write(f"UPDATE views SET lazy = 0 WHERE {_BY_KEY}", astuple(key))
            found = self.find(key)
        if found is None:
            raise RetrieverError(f"The view {key.instruction!r} was dropped while it was made.", hint="Run it again.")
        return found

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
        with self._db.writing(data=False):
            self._db.write("UPDATE views SET last_used = ? WHERE view_id = ?", (utc_now(), view_id))

    def drop(self, view_id: int) -> None:
        """Remove the view and its vectors, taught views that are made of these, and tuned ones that only these need.

        Their generations become obsolete, for their files to be removed.
        """
        with self._db.writing():
            made_of = self._db.rows("SELECT view_id FROM heads WHERE ? IN (source_id, plain_id)", (view_id,))
            tuned = self._db.rows(
                "SELECT plain_id FROM heads JOIN views ON views.view_id = plain_id "
                "WHERE ? IN (heads.view_id, source_id) AND substr(fingerprint, 1, ?) = ?",
                (view_id, len(TUNED), TUNED),
            )
            for one in [(view_id,), *made_of, *tuned]:
                self._db.write("UPDATE generations SET active = 0 WHERE view_id = ?", one)
                self._db.write("DELETE FROM views WHERE view_id = ?", one)


def _view(row: tuple[Any, ...]) -> View:
    view_id, created, last_used, lazy, *key = row
    return View(view_id, ViewKey(*key), created, last_used, bool(lazy))
