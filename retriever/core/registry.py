"""Imports that wait for their first use: entries of name tables, and the packages of an extra."""

import difflib
import importlib
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias

from retriever.core.errors import RetrieverError

DISTRIBUTION = "instruction-retriever"
"""The name of this project as pip knows it; the package index has another one called like our module."""

Extra: TypeAlias = Literal["app", "chat", "eval", "mcp", "milvus", "peers", "ray", "serve", "train"]

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
"""The modules that each extra of a command brings (pyproject.toml)."""


def resolve(target: str, *, package: str = "", extra: Extra | None = None) -> Any:  # noqa: ANN401 - whatever the table names
    """Return the object behind ``"module:attribute"``, importing the module now.

    Args:
        target: dotted module, colon, attribute.
        package: the pip name to tell the user when the import fails.
        extra: the extra that brings it, where one does.

    Raises:
        RetrieverError: a package is missing; the line that installs it is named.
    """
    module, attribute = target.split(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        needed = package or error.name or module
        if extra:
            raise missing_extra(extra, needed) from error
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
        raise missing_extra(extra, missing)


def missing_extra(extra: Extra, package: str) -> RetrieverError:
    """Return the error of a missing package of an extra. No index has this project yet: a clone installs its extras."""
    return RetrieverError(
        f"The package {package!r} is missing.", hint=f"Run in a clone of {DISTRIBUTION}: pip install '.[{extra}]'"
    )
