"""What people changed in saved clusterings: who, when and what, each change on top of those before it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from retriever.core.text import require_text
from retriever.store.connection import Connections, utc_now
from retriever.store.stored_json import stored_json


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of a saved clustering.

    Attributes:
        number: grows with every edit of the index.
        change: what was done, as JSON.
        author: who did it.
        made: when, ISO 8601 in UTC.
        undone: when it was taken back; None while it holds.
    """

    number: int
    change: Mapping[str, Any]
    author: str
    made: str
    undone: str | None


class EditTable:
    """The edits of the index's saved clusterings."""

    def __init__(self, connections: Connections) -> None:
        self._db = connections

    def add(self, clustering: str, changes: Sequence[Mapping[str, Any]], author: str) -> None:
        """Store changes of a clustering in the order given, all of them or none.

        Raises:
            UsageError: the author is no text.
        """
        require_text(author)
        now = utc_now()
        rows = [(clustering, json.dumps(one, ensure_ascii=False, allow_nan=False), author, now) for one in changes]
        with self._db.writing(data=False):
            self._db.write_many("INSERT INTO edits (clustering, change, author, made) VALUES (?, ?, ?, ?)", rows)

    def all(self, clustering: str) -> list[Edit]:
        """Return the edits of a clustering in the order they were made, those taken back too."""
        rows = self._db.rows(
            "SELECT edit_id, change, author, made, undone FROM edits WHERE clustering = ? ORDER BY edit_id",
            (clustering,),
        )
        return [Edit(number, stored_json(change), *rest) for number, change, *rest in rows]

    def undo(self, clustering: str) -> Edit | None:
        """Take back the last edit that holds and return it; None where there is none."""
        with self._db.writing(data=False):
            holding = [one for one in self.all(clustering) if one.undone is None]
            if not holding:
                return None
            self._db.write("UPDATE edits SET undone = ? WHERE edit_id = ?", (utc_now(), holding[-1].number))
        return holding[-1]

    def remove_from(self, numbers: Iterable[int]) -> None:
        """Remove edits, and of the same clustering all later ones, which rest on them."""
        self._db.write_many(
            "DELETE FROM edits WHERE edit_id >= ? AND clustering = (SELECT clustering FROM edits WHERE edit_id = ?)",
            [(one, one) for one in sorted(numbers, reverse=True)],
        )

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove edits alone."""
        self._db.write_many("DELETE FROM edits WHERE edit_id = ?", [(one,) for one in numbers])
