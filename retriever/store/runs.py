"""The record of what commands did to the index, and the rows they had to leave out."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from retriever.core.types import JSON, BadRow
from retriever.store.columns import stored_json
from retriever.store.connection import Table, utc_now

RunStatus = Literal["running", "finished", "partial", "failed", "interrupted"]
"""``partial``: finished with rows skipped.

A killed command leaves ``running`` behind: see `index.run_record.last_runs`."""

_COLUMNS = "run_id, command, started, finished, status, statistics, versions"


@dataclass(frozen=True, slots=True)
class Run:
    """One command's record; times are ISO 8601 in UTC."""

    run_id: int
    command: str
    started: str
    finished: str | None
    status: RunStatus
    statistics: Mapping[str, JSON]
    versions: Mapping[str, JSON]


class Runs(Table):
    """The index's runs and quarantine."""

    def start(self, command: str, versions: Mapping[str, JSON] | None = None) -> int:
        """Record that a command begins and return its run id."""
        with self._db.writing(data=False):
            rows = self._db.rows(
                "INSERT INTO runs (command, started, status, statistics, versions) VALUES (?, ?, 'running', '{}', ?) "
                "RETURNING run_id",
                (_printable(command), utc_now(), json.dumps(dict(versions or {}))),
            )
        return int(rows[0][0])

    def progress(self, run_id: int, statistics: Mapping[str, JSON]) -> None:
        """Replace the run's statistics; inside a batch's transaction they are exactly what was stored."""
        self._db.record("UPDATE runs SET statistics = ? WHERE run_id = ?", (json.dumps(dict(statistics)), run_id))

    def finish(self, run_id: int, status: RunStatus) -> None:
        """Record how the run ended."""
        self._db.record("UPDATE runs SET finished = ?, status = ? WHERE run_id = ?", (utc_now(), status, run_id))

    def quarantine(self, run_id: int, rows: Sequence[BadRow]) -> None:
        """Keep rows that were left out, for the user to look at."""
        with self._db.writing(data=False):
            self._db.write_many(
                "INSERT INTO quarantine VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (run_id, _printable(row.file), row.line, _printable(row.id), row.reason, _printable(row.raw))
                    for row in rows
                ],
            )

    def quarantined(self, run_id: int) -> list[BadRow]:
        """Return the rows a run left out, in the order it met them."""
        rows = self._db.rows(
            "SELECT file, line, document_id, reason, raw FROM quarantine WHERE run_id = ? ORDER BY rowid", (run_id,)
        )
        return [BadRow(*row) for row in rows]

    def last(self, n: int) -> list[Run]:
        """Return the last n runs, newest first."""
        rows = self._db.rows(f"SELECT {_COLUMNS} FROM runs ORDER BY run_id DESC LIMIT ?", (max(n, 0),))
        return [Run(*row[:5], *map(stored_json, row[5:])) for row in rows]


def _printable(text: str | None) -> str | None:
    """Return the text with what UTF-8 cannot hold written as escapes."""
    return None if text is None else text.encode("utf-8", "backslashreplace").decode("utf-8")
