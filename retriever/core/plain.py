"""Values of Python, NumPy and pandas as JSON has them."""

import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

import numpy as np

_MISSING = ("NAType", "NaTType")  # of pandas


def plain(value: Any, left_out: Callable[[str], None] = lambda place: None, place: str = "") -> Any:  # noqa: ANN401
    """Return a value as JSON has it: itself where it is JSON already, or where JSON has nothing like it.

    Dates and times become ISO strings, to the microsecond; durations seconds; UUIDs and paths strings. NaN, infinities
    and what pandas calls missing become None. Bytes in a mapping are left out.

    >>> plain({"price": Decimal("2.50"), "day": date(2024, 5, 31), "stars": float("nan")})
    {'price': 2.5, 'day': '2024-05-31', 'stars': None}

    Args:
        value: any value.
        left_out: called with the place of bytes that are left out: ``image.bytes``.
        place: the place of the value, as names joined by dots; empty for the whole.
    """
    if value is None or type(value) in (str, bool, int):
        return value
    if isinstance(value, Mapping):
        return _mapping(value, left_out, place)
    if isinstance(value, list | tuple):
        made = [plain(item, left_out, place) for item in value]
        return value if isinstance(value, list) and _same(made, value) else made
    if isinstance(value, set | frozenset):
        return sorted((plain(item, left_out, place) for item in value), key=repr)
    if isinstance(value, np.datetime64 | np.timedelta64):
        unit = "datetime64[us]" if isinstance(value, np.datetime64) else "timedelta64[us]"
        return plain(value.astype(unit).item())
    if isinstance(value, np.generic | np.ndarray) and not isinstance(value, str | float):
        return plain(value.tolist(), left_out, place)
    return _scalar(value)


def _mapping(value: Mapping[Any, Any], left_out: Callable[[str], None], place: str) -> Mapping[str, Any]:
    made = {}
    for key, item in value.items():
        name = key if type(key) is str else str(plain(key))
        inner = f"{place}.{name}" if place else name
        if isinstance(item, bytes | bytearray | memoryview):
            left_out(inner)
        else:
            made[name] = plain(item, left_out, inner)
    same = len(made) == len(value) and all(key in made and made[key] is item for key, item in value.items())
    return value if same else made


def _same(made: list[Any], value: list[Any]) -> bool:
    return all(new is old for new, old in zip(made, value, strict=True))


def _scalar(value: Any) -> Any:  # noqa: ANN401
    if type(value).__name__ in _MISSING:
        return None
    if isinstance(value, float | Decimal):
        if not math.isfinite(value):
            return None
        whole = isinstance(value, Decimal) and value == value.to_integral_value()
        return value if type(value) is float else int(value) if whole else float(value)
    convert = next((convert for kind, convert in _SCALARS.items() if isinstance(value, kind)), None)
    return value if convert is None else convert(value)


_SCALARS: dict[type, Callable[[Any], Any]] = {
    Enum: lambda value: plain(value.value),
    datetime: datetime.isoformat,  # pandas' own writes nanoseconds
    date: date.isoformat,
    time: time.isoformat,
    timedelta: timedelta.total_seconds,
    UUID: str,
    PurePath: str,
    str: str,
    int: int,
}
