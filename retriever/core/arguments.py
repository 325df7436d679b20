"""Checks of what a caller in Python gives: an argument of another type is an error that names it."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
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
    fits = _check(kind)
    for name, value in values.items():
        if not fits(value):
            raise UsageError(f"{name} is {value!r:.60}, of type {type(value).__name__}.", hint=f"Give {_wanted(kind)}.")


@lru_cache
def _check(kind: Any) -> Callable[[object], bool]:  # noqa: ANN401 - a type
    """Return what tells whether a value is of a type."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return lambda value: isinstance(value, str)  # which ones there are is told where it is used
    checks = tuple(map(_check, parts))
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return lambda value: _is_list(value, checks[0])
    if parts:
        return lambda value: any(check(value) for check in checks)
    if kind in (int, float):
        number = Integral if kind is int else Real
        return lambda value: isinstance(value, number) and not isinstance(value, bool)
    kinds = {bool: (bool, np.bool_), Path: (str, os.PathLike)}.get(kind, kind)
    return lambda value: isinstance(value, kinds)


def _is_list(value: object, fits: Callable[[object], bool]) -> bool:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return False
    return not isinstance(value, Collection) or all(map(fits, value))


def _wanted(kind: Any) -> str:  # noqa: ANN401 - a type
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(map(repr, parts))
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return f"a list, each item {_wanted(parts[0])}"
    return " or ".join(map(_wanted, parts)) or _WORDS.get(kind) or f"a {kind.__name__}"
