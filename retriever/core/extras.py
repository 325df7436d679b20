"""Packages that only a part of retriever needs, and how they are installed: ``pip install 'retriever[train]'``."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Literal, TypeAlias

from retriever.core.errors import RetrieverError

Extra: TypeAlias = Literal["app", "eval", "mcp", "serve", "train"]

_MEASURING = ("ir_measures", "matplotlib")
_TOOLS = ("anyio", "mcp")
PACKAGES: Mapping[Extra, Sequence[str]] = {
    "app": ("streamlit", "altair", *_MEASURING),
    "eval": _MEASURING,
    "mcp": _TOOLS,
    "serve": ("fastapi", "fastapi_swagger", "uvicorn", "prometheus_client", "starlette", *_TOOLS),
    "train": _MEASURING,
}
"""The modules each extra of pyproject.toml brings."""


def require_extra(extra: Extra) -> None:
    """Refuse to begin what would end in a package that is not there.

    Raises:
        RetrieverError: a package is missing; the hint is the line that installs it.
    """
    missing = next((name for name in PACKAGES[extra] if find_spec(name) is None), None)
    if missing:
        raise RetrieverError(f"The package {missing!r} is missing.", hint=f"pip install 'retriever[{extra}]'")
