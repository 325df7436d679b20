"""The user's own default encoder: a checkpoint folder that the name ``default`` stands for instead of the shipped one.

What is kept is a pointer, the folder's path and its manifest's hash, in the user's configuration. The manifest holds
the hash of every file of the checkpoint, so its own hash stands for all of them.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from retriever.core.errors import CheckpointError
from retriever.core.fingerprint import file_hash
from retriever.core.paths import config_dir, make_folder, write_whole
from retriever.encoders.sources import MANIFEST

POINTER = "default.json"
_NEXT = (
    "`retriever models promote FOLDER` names another, `retriever models promote --reset` goes back to the shipped one."
)


@dataclass(frozen=True, slots=True)
class Promotion:
    """A promoted checkpoint: its folder's absolute path, and the hex SHA-256 of its manifest at that time."""

    folder: Path
    digest: str


def read_promotion() -> Promotion | None:
    """Read which checkpoint the user promoted, whether its folder is still there or not; None where none was.

    Raises:
        CheckpointError: the pointer cannot be read.
    """
    pointer = config_dir() / POINTER
    try:
        stored = json.loads(pointer.read_text(encoding="utf-8"))
        return Promotion(Path(stored["folder"]), str(stored["digest"]))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{pointer} cannot be read ({error}).", hint=_NEXT) from error


def promoted_folder() -> Path | None:
    """Return the folder that ``default`` stands for, or None where the user promoted none.

    Raises:
        CheckpointError: it is gone, or another checkpoint than was promoted.
    """
    promotion = read_promotion()
    if promotion is None:
        return None
    manifest = promotion.folder / MANIFEST
    if not manifest.is_file():
        raise CheckpointError(f"The default encoder {promotion.folder} is gone.", hint=f"Put it back; {_NEXT}")
    if file_hash(manifest) != promotion.digest:
        raise CheckpointError(
            f"The default encoder {promotion.folder} has changed since it was promoted.",
            hint=f"If that is meant, promote it again; {_NEXT}",
        )
    return promotion.folder


def write_promotion(folder: Path) -> None:
    """Make a checkpoint folder the user's default encoder; the pointer is replaced whole or not at all.

    Raises:
        CheckpointError: it cannot be written.
    """
    place = folder.expanduser().resolve()
    stored = {"folder": str(place), "digest": file_hash(place / MANIFEST)}
    pointer = config_dir() / POINTER
    try:
        make_folder(pointer.parent)
        write_whole(pointer, json.dumps(stored, indent=1) + "\n")
    except OSError as error:
        raise CheckpointError(
            f"{pointer} cannot be written: {error.strerror}.", hint="RETRIEVER_CONFIG names another folder for it."
        ) from error


def remove_promotion() -> None:
    """Go back to the shipped default encoder."""
    (config_dir() / POINTER).unlink(missing_ok=True)
