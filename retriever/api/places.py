"""What an error tells a client of the server's disk: the name of an index or a model, and no place of a file."""

import re
from pathlib import Path

_OURS = (
    r"corpus\.sqlite3(?:-wal|-shm)?|writer\.lock(?:\.json)?|changes\.lock|shards\.json|moves\.json|shard-\d{4}"
    r"|(?:views|model|ledger)(?:/[\w.-]*\w)+"
)
_INSIDE = re.compile(rf"(?:/(?:{_OURS}))+(?![\w/-])")
"""The rest of a path from an index's folder on: files of ours, whose names hold no spaces."""

_ABSOLUTE = re.compile(r"(?<![\w.~/:<-])(?!/(?:v1|indexes|jobs)/)/(?:[^\s/'\",;:()]+/)+([^\s/'\",;:()]+)")
"""A path of two names or more, but no address of this server."""


def without_places(text: str, folder: Path | None) -> str:
    """Return a message in which indexes and models are named, and not where they lie.

    Args:
        text: the message, as the command line has it.
        folder: that indexes lie in; None where that is not known.
    """
    if folder is not None:
        text = text.replace(f"{folder.absolute()}/", "")
    return _ABSOLUTE.sub(r"\1", _INSIDE.sub("", text))
