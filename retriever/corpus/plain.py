"""Values as they can be stored: JSON, without NUL and lone surrogates, in composed form; a row is never lost for one.

Values that Python and file formats have and JSON lacks are written as text or numbers. Bytes are left out, and what
cannot be read is null; both are reported by the field's name.
"""

import math
import re
import unicodedata
from base64 import b64decode
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

import numpy as np

from retriever.core.text import is_text
from retriever.corpus.rows import DEEPEST, kind_of

_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_LEFT_OUT = object()
_MISSING = ("NAType", "NaTType")  # of pandas
_WRITTEN: Mapping[type, Callable[[Any], object]] = {
    Enum: lambda value: value.value,
    set: lambda value: sorted(value, key=repr),
    frozenset: lambda value: sorted(value, key=repr),
    np.datetime64: lambda value: value.astype("datetime64[us]").item(),  # nanoseconds would be whole numbers
    np.timedelta64: lambda value: value.astype("timedelta64[us]").item(),
    datetime: datetime.isoformat,  # pandas' own writes nanoseconds
    date: date.isoformat,
    time: time.isoformat,
    timedelta: timedelta.total_seconds,
    UUID: str,
    PurePath: str,
    str: lambda value: str.__str__(value),
    int: int,
}
"""Makes the value that is written in the place of one of a type; it may need writing in its turn."""


class Plain:
    """Makes plain values, and reports each kind of change.

    Args:
        report: takes a statement; it may come again.
        composes: whether texts are brought into composed form (NFC).
    """

    def __init__(self, report: Callable[[str], None], *, composes: bool = True) -> None:
        self._report, self._composes = report, composes

    def text(self, text: str) -> str:
        """Return a text that can be stored."""
        if text.isascii():
            return self._replaced(text) if "\0" in text else text
        if not is_text(text) or "\0" in text:
            text = self._replaced(text)
        if not self._composes or unicodedata.is_normalized("NFC", text):
            return text
        self._report("characters composed (NFC)")
        return unicodedata.normalize("NFC", text)

    def fields(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return the fields of a row with plain names and values."""
        return self._mapping(values, "", DEEPEST - 1)

    def _value(self, value: object, place: str, depth: int) -> object:
        kind = type(value)
        if kind is str:
            return self.text(str(value))
        if value is None or kind is bool or kind is int:
            return value
        if isinstance(value, Mapping | list | tuple):
            if depth == 0:
                self._lose(place, "nested too deeply")
                return None
            if isinstance(value, Mapping):
                return self._mapping(value, place, depth - 1)
            items = (self._value(item, f"{place}.{number}", depth - 1) for number, item in enumerate(value))
            return [item for item in items if item is not _LEFT_OUT]
        return self._other(value, place)

    def _mapping(self, values: Mapping[str, object], place: str, depth: int) -> dict[str, object]:
        plain: dict[str, object] = {}
        for key, value in values.items():
            name = key if type(key) is str and key.isascii() and "\0" not in key else self.text(str(key))
            if name != key and (name in values or name in plain):
                name = self._replaced(str(key))  # two spellings of one name in one row
            if type(value) is str and value.isascii() and "\0" not in value:
                plain[name] = value
            elif (item := self._value(value, f"{place}.{name}" if place else name, depth)) is not _LEFT_OUT:
                plain[name] = item
        return plain

    def _other(self, value: object, place: str) -> object:
        """Return what JSON has for a value of another type, of NumPy's and pandas' too."""
        if isinstance(value, float | Decimal):
            return self._number(value, place)
        if isinstance(value, bytes | bytearray | memoryview):
            self._report(f"{place!r} left out, as it holds bytes")
            return _LEFT_OUT
        if type(value).__name__ in _MISSING:
            return None
        for kind, write in _WRITTEN.items():
            if isinstance(value, kind):
                return self._value(write(value), place, 1)
        if hasattr(value, "tolist"):  # of NumPy
            return self._value(value.tolist(), place, 1)
        self._lose(place, f"{kind_of(value)}, which cannot be read")
        return None

    def _number(self, value: float | Decimal, place: str) -> object:
        if not math.isfinite(value):
            if math.isinf(value):
                self._report(f"{place!r}: numbers that are too large are null")
            return None
        whole = isinstance(value, Decimal) and value == value.to_integral_value()
        return int(value) if whole else float(value)

    def _lose(self, place: str, why: str) -> None:
        self._report(f"{place[:100]!r}: {why}, is null")

    def _replaced(self, text: str) -> str:
        if _NO_TEXT.search(text):
            self._report("NUL and halves of characters replaced by U+FFFD")
        return _NO_TEXT.sub("\ufffd", text)


def unwrapped(value: object) -> object:
    """Return a value without the objects by which MongoDB and Firestore tell types: ``{"$oid": "..."}``."""
    if isinstance(value, list):
        return [unwrapped(item) for item in value]
    if not isinstance(value, dict):
        return value
    plain = {key: unwrapped(item) for key, item in value.items()}
    if len(plain) == 1:
        ((key, inner),) = plain.items()
        with suppress(ValueError, KeyError, TypeError):  # another program's, or spoiled: it stays
            return _TYPED[key](inner)
    return plain


def _mongo_date(value: object) -> object:
    return f"/Date({value})/" if isinstance(value, int) else value


def _mongo_bytes(value: Mapping[str, str]) -> object:
    held = b64decode(value["base64"])
    return str(UUID(bytes=held)) if value.get("subType") in ("03", "04", "3", "4") else held


_TYPED: dict[str, Callable[[Any], object]] = {
    **dict.fromkeys(("$numberInt", "$numberLong", "integerValue"), int),
    **dict.fromkeys(("$numberDouble", "$numberDecimal"), float),
    **dict.fromkeys(("$oid", "$uuid", "$symbol"), lambda value: value),
    **dict.fromkeys(("stringValue", "timestampValue", "doubleValue", "booleanValue"), lambda value: value),
    **dict.fromkeys(("$undefined", "nullValue"), lambda value: None),
    "$date": _mongo_date,
    "$timestamp": lambda value: _mongo_date(1000 * value["t"]),
    "$binary": _mongo_bytes,
}
