"""Where the indexes lie that the app shows: one index, or a folder of them."""

import os
from dataclasses import dataclass
from pathlib import Path

from retriever.core.errors import IndexNotFoundError, UsageError
from retriever.core.paths import plain_name
from retriever.services.workspace import Index
from retriever.store.database import DATABASE

VARIABLE = "RETRIEVER_APP_INDEX"
DEFAULT = Path("indexes")


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of indexes.

    Attributes:
        folder: where they lie, and where new ones are made.
        only: the name of the one index to show; None for all in the folder.
    """

    folder: Path
    only: str | None = None

    def names(self) -> list[str]:
        """Return the names of the indexes that are there now; what begins with a dot is a draft of one."""
        if not self.folder.is_dir():
            return []
        found = sorted(database.parent.name for database in self.folder.glob(f"*/{DATABASE}"))
        if self.only is not None:
            return [name for name in found if name == self.only]
        return [name for name in found if not name.startswith(".")]

    def find(self, name: str) -> Path:
        """Return the folder of an index.

        Raises:
            IndexNotFoundError: there is none of that name.
        """
        if name not in self.names():
            raise IndexNotFoundError(
                f"There is no index {name!r} here any more.", hint="Choose another one, or open a file of reviews."
            )
        return self.folder / name

    def new(self, name: str) -> Path:
        """Return the folder for an index of that name, which may exist.

        Raises:
            UsageError: the name is no plain folder name, or the app was started for another index alone.
        """
        wanted = plain_name(name, "an index")
        if self.only not in (None, wanted):
            raise UsageError(
                f"The app was started for the index {self.only!r} alone.",
                hint="Start `retriever app` with a folder of indexes to make others.",
            )
        return self.folder / wanted


def read_place() -> Place:
    """Return the place the app was started for: the environment names an index's folder or the folder above."""
    path = Path(os.environ.get(VARIABLE) or DEFAULT).expanduser()
    return Place(path.parent, path.name) if (path / DATABASE).is_file() else Place(path)


def name_of(index: Index) -> str:
    """Return what tells an index from all others, also from one that was in its place; caches are keyed by it."""
    return f"{index.path} {index.store.identity()}"
