"""Named JSON values an index carries with it, such as the encoder it was made with."""

import json
from typing import cast

from retriever.core.types import JSON
from retriever.store.connection import Connections
from retriever.store.stored_json import stored_json


class Settings:
    """The index's settings."""

    def __init__(self, connections: Connections) -> None:
        self._db = connections

    def get(self, key: str, default: JSON = None) -> JSON:
        """Return the value of a key, or ``default`` where it was never set."""
        row = self._db.row("SELECT value FROM settings WHERE key = ?", (key,))
        return default if row is None else cast("JSON", stored_json(row[0]))

    def set(self, key: str, value: JSON) -> None:
        """Set a key, in the caller's transaction if there is one."""
        with self._db.writing(data=False):
            self._db.write(
                "INSERT INTO settings VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (key, json.dumps(value, allow_nan=False)),
            )

    def remove(self, key: str) -> None:
        """Forget a key; one that was never set is fine."""
        with self._db.writing(data=False):
            self._db.write("DELETE FROM settings WHERE key = ?", (key,))
