"""What is imported only when it is used: entries of name tables, and the packages of an extra."""

import difflib
import importlib
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias

from retriever.core.errors import RetrieverError

Extra: TypeAlias = Literal["app", "chat", "eval", "mcp", "peers", "serve", "train"]

_MEASURING = ("ir_measures", "matplotlib")
_TOOLS = ("anyio", "mcp")
PACKAGES: Mapping[Extra, Sequence[str]] = {
    "app": ("streamlit", *_MEASURING),
    "chat": ("anyio", "httpx"),
    "eval": _MEASURING,
    "mcp": _TOOLS,
    "peers": ("sentence_transformers",),
    "serve": ("fastapi", "fastapi_swagger", "uvicorn", "prometheus_client", "starlette", *_TOOLS),
    "train": _MEASURING,
}
"""The modules each extra of pyproject.toml brings."""


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
    """Return a sentence fragment that suggests the known name closest to ``name`` or holding it, or lists all."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1) or [longer for longer in names if name and name in longer]
    return f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(names)}."


def require_extra(extra: Extra) -> None:
    """Raise `RetrieverError`, with the line that installs it, where a package of an extra is missing."""
    missing = next((name for name in PACKAGES[extra] if find_spec(name) is None), None)
    if missing:
        raise RetrieverError(f"The package {missing!r} is missing.", hint=f"pip install 'retriever[{extra}]'")
