"""Steps of a database's schema: which there are, which a database has, and applying the others.

sqlite-utils applies and records the steps. It is imported only where some are pending: it imports pandas where that is
installed, which takes longer than a search.
"""

import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from sqlite_utils import Database

    Step: TypeAlias = Callable[[Database], None]

_SET = "retriever"
_RECORDED = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '_sqlite_migrations'"
_APPLIED = "SELECT name FROM _sqlite_migrations WHERE migration_set = ? ORDER BY rowid"


class StepList:
    """The steps in order, and which of them a database has; ``@MIGRATIONS()`` adds one."""

    def __init__(self) -> None:
        self._steps: dict[str, Step] = {}

    def __call__(self) -> "Callable[[Step], Step]":
        """Return a decorator that makes a function the next step, by its name."""

        def add(step: "Step") -> "Step":
            self._steps[step.__name__] = step
            return step

        return add

    @property
    def names(self) -> list[str]:
        """Names of the steps, in order."""
        return list(self._steps)

    def applied(self, connection: sqlite3.Connection) -> list[str]:
        """Return the names of the steps that a database records, in order, those of newer versions too."""
        if not connection.execute(_RECORDED).fetchone():
            return []
        return [row[0] for row in connection.execute(_APPLIED, (_SET,)).fetchall()]

    def newer(self, connection: sqlite3.Connection) -> set[str]:
        """Return the steps recorded in a database that this version does not know."""
        return set(self.applied(connection)) - self._steps.keys()

    def apply(self, connection: sqlite3.Connection, *, stop_before: str | None = None) -> None:
        """Apply the steps that are lacking, up to one if it is named, each with its record."""
        from sqlite_utils import Database, Migrations

        known = Migrations(_SET)
        for name, step in self._steps.items():
            known(name=name)(step)
        database = Database(connection, recursive_triggers=False, execute_plugins=False)
        known.apply(database, stop_before=stop_before)
