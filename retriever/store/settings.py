"""Named JSON values an index carries with it, such as the encoder it was made with."""

import json
from typing import cast

from retriever.core.types import JSON
from retriever.store.columns import stored_json
from retriever.store.connection import Table


class Settings(Table):
    """The index's settings."""

    def get(self, key: str, default: JSON = None) -> JSON:
        """Return the value of a key, or ``default`` where it was never set."""
        row = self._db.row("SELECT value FROM settings WHERE key = ?", (key,))
        return default if row is None else cast("JSON", stored_json(row[0]))

    def set(self, key: str, value: JSON) -> None:
        """Set a key, in the caller's transaction if there is one."""
        self._db.record("INSERT OR REPLACE INTO settings VALUES (?, ?)", (key, json.dumps(value, allow_nan=False)))

    def remove(self, key: str) -> None:
        """Forget a key; one that was never set is fine."""
        self._db.record("DELETE FROM settings WHERE key = ?", (key,))
