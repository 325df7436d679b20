"""Documents that change their shard: noted before they do, so that none is in two shards after a kill.

Each is put where it goes before it is deleted where it was. Who finds the note later deletes it where it was, if it is
anywhere else.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from retriever.core.paths import sync_directory, write_whole

_NAME = "moves.json"


class Moves:
    """The note of a folder of shards.

    Args:
        folder: of the shards.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / _NAME

    def write(self, leaving: Mapping[int, Sequence[str]]) -> None:
        """Note the documents that leave each shard."""
        write_whole(self._path, json.dumps({str(part): list(ids) for part, ids in leaving.items()}))

    def read(self) -> dict[int, list[str]]:
        """Return what is noted; nothing where nothing is."""
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return {int(part): list(map(str, ids)) for part, ids in found.items()}

    def forget(self) -> None:
        """Remove the note."""
        if self._path.exists():
            self._path.unlink()
            sync_directory(self._path.parent)
