"""Is a database's schema ours, letter by letter? Asked of files that come from elsewhere, before anything runs in them.

A foreign schema could hold triggers, views or generated columns that run when rows are read or written.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from retriever.core.errors import InputError, SchemaError
from retriever.store.connection import connect, explain
from retriever.store.migrations import MIGRATIONS

_OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat%' ORDER BY type, name"


def require_own_schema(path: Path) -> None:
    """Refuse a database whose schema is not what our migrations make, up to the last one it has.

    Raises:
        SchemaError: a newer version wrote it.
        InputError: its schema was changed.
        IndexDamagedError: it is no database.
    """
    try:
        with closing(connect(path, "ro")) as found:
            found.execute("PRAGMA trusted_schema = OFF")
            newer, applied = MIGRATIONS.newer(found), set(MIGRATIONS.applied(found))
            objects = found.execute(_OBJECTS).fetchall()
    except sqlite3.Error as error:
        raise explain(error, path) from error
    if newer:
        raise SchemaError(
            f"{path.name} was written by a newer version of retriever (it has {', '.join(sorted(newer))}).",
            hint="Update retriever from where it was installed.",
        )
    if objects != _expected(applied):
        raise InputError(f"{path.name} has tables or triggers that retriever did not make.", hint="It is not taken in.")


def _expected(applied: set[str]) -> list[tuple[str, str, str, str]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        MIGRATIONS.apply(connection, stop_before=next((name for name in MIGRATIONS.names if name not in applied), None))
        return connection.execute(_OBJECTS).fetchall()
