"""Which models there are, by name, and what the names stand for; nothing here loads one."""

from retriever.core.fingerprint import file_hash
from retriever.encoders.catalog import (
    DEFAULT,
    SHIPPED,
    CatalogEntry,
    Promotion,
    checkpoint_folder,
    named,
    read_promotion,
    resolve_name,
    shipped,
)
from retriever.encoders.sources import MANIFEST, WHEELS, find_source, is_installed

__all__ = [
    "DEFAULT",
    "SHIPPED",
    "WHEELS",
    "CatalogEntry",
    "Promotion",
    "default_identity",
    "find_source",
    "is_installed",
    "named",
    "read_promotion",
    "resolve_name",
    "shipped",
]


def default_identity() -> str:
    """Identify the model that ``default`` stands for: a text that differs whenever the model does.

    Raises:
        CheckpointError: the folder that was made the default is gone or changed.
    """
    name = resolve_name(DEFAULT)
    folder = checkpoint_folder(name)
    return name if folder is None else f"{name} {file_hash(folder / MANIFEST)}"
