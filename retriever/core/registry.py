"""Name tables whose entries are imported only when used."""

import difflib
import importlib
from collections.abc import Iterable
from typing import Any

from retriever.core.errors import RetrieverError


def resolve(target: str, *, package: str = "") -> Any:  # noqa: ANN401 - whatever the table names
    """Return the object behind ``"module:attribute"``, importing the module now.

    Args:
        target: dotted module, colon, attribute.
        package: the pip name to tell the user when the import fails.
    """
    module, attribute = target.split(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        needed = package or error.name or module
        raise RetrieverError(f"The package {needed!r} is missing.", hint=f"pip install {needed}") from error


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a sentence fragment that suggests the known name closest to ``name``, or lists all."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(names)}."
