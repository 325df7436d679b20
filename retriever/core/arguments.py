"""Checks of what a caller in Python gives: an argument of another type is an error that names it."""

import os
from collections.abc import Collection, Iterable, Mapping
from numbers import Integral, Real
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import numpy as np

from retriever.core.errors import UsageError

_WORDS: dict[Any, str] = {
    NoneType: "None",
    Path: "a path",
    bool: "True or False",
    float: "a number",
    int: "a whole number",
    str: "a string",
}


def require(kind: Any, **values: object) -> None:  # noqa: ANN401 - a type
    """Refuse arguments that are not of a type.

    A number of NumPy's is a number. One string is no list of strings, and an iterator's items are not looked at.

    >>> from collections.abc import Sequence
    >>> require(int | None, k=3)
    >>> require(Sequence[str], instructions="What broke?")
    Traceback (most recent call last):
    retriever.core.errors.UsageError: instructions is 'What broke?', of type str. Give a list, each item a string.

    Args:
        kind: a type as an annotation has it: ``str | None``, ``Sequence[str]``.
        values: arguments by their names.

    Raises:
        UsageError: one is of another type.
    """
    for name, value in values.items():
        if not _fits(value, kind):
            raise UsageError(f"{name} is {value!r:.60}, of type {type(value).__name__}.", hint=f"Give {_wanted(kind)}.")


def _fits(value: object, kind: Any) -> bool:  # noqa: ANN401 - a type
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return isinstance(value, str)  # which ones there are is told where it is used
    if isinstance(origin, type) and issubclass(origin, Iterable):
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            return False
        return not isinstance(value, Collection) or all(_fits(item, parts[0]) for item in value)
    if parts:
        return any(_fits(value, part) for part in parts)
    if kind in (int, float):
        return isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
    return isinstance(value, {bool: (bool, np.bool_), Path: (str, os.PathLike)}.get(kind, kind))


def _wanted(kind: Any) -> str:  # noqa: ANN401 - a type
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(map(repr, parts))
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return f"a list, each item {_wanted(parts[0])}"
    return " or ".join(map(_wanted, parts)) or _WORDS.get(kind) or f"a {kind.__name__}"
