"""The folder of indexes that is served: all of them, or one alone."""

from dataclasses import dataclass
from pathlib import Path

from retriever.core.errors import IndexNotFoundError, UsageError
from retriever.core.paths import plain_name
from retriever.index.open_index import is_index


@dataclass(frozen=True, slots=True)
class IndexFolder:
    """A folder of indexes, known by the names of their own folders; no name leads out of it.

    New ones are made there. With ``only`` the one index of that name is served.
    """

    folder: Path
    only: str | None = None

    def names(self) -> list[str]:
        """Return the names of the indexes that are there now; what begins with a dot is a draft of one."""
        if not self.folder.is_dir():
            return []
        found = sorted(path.name for path in self.folder.glob("*") if is_index(path))
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
                f"Only the index {self.only!r} is served here.",
                hint="Start with a folder of indexes, not with one of them, to make others.",
            )
        return self.folder / wanted


def index_folder(path: Path) -> IndexFolder:
    """Resolve a path to one index, which is then served alone, or to a folder of indexes."""
    return IndexFolder(path.parent, path.name) if is_index(path) else IndexFolder(path)
