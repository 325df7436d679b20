"""Whether the views' questions are followed, as it was found: one verdict a view, read without a model."""

import json
from collections.abc import Mapping

from retriever.core.types import JSON
from retriever.store.connection import Connections
from retriever.store.stored_json import stored_json


class VerdictTable:
    """The verdicts on the index's views."""

    def __init__(self, connections: Connections) -> None:
        self._db = connections

    def get(self, view_id: int) -> Mapping[str, JSON] | None:
        """Return what is stored of a view's verdict, or None where there is none."""
        row = self._db.row("SELECT document FROM verdicts WHERE view_id = ?", (view_id,))
        found = None if row is None else stored_json(row[0])
        return found if isinstance(found, dict) else None

    def put(self, view_id: int, verdict: Mapping[str, JSON]) -> None:
        """Store a view's verdict in place of the one before; of a view that is gone nothing is stored."""
        with self._db.writing(data=False):
            self._db.write(
                "INSERT INTO verdicts SELECT view_id, ? FROM views WHERE view_id = ? "
                "ON CONFLICT (view_id) DO UPDATE SET document = excluded.document",
                (json.dumps(verdict, allow_nan=False), view_id),
            )
