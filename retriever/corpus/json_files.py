"""Files of JSON: lines, values, arrays, one object of many records, or lists of cells, told apart by how they begin."""

import json
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import cast

from retriever.corpus.encodings import LONGEST_LINE, readable
from retriever.corpus.json_objects import Object, Shape, find_shape
from retriever.corpus.json_text import JsonText
from retriever.corpus.rows import Row
from retriever.corpus.sources import Source

LARGEST_OBJECT = 256_000_000
"""Characters of one object that holds many records, at most: it is held in memory as a whole."""

_JSON = re.compile(r"[\s\ufeff]*(?:\{\s*[\"}]|\[\s*[{\]\"])")
_LINES = 100  # by which lists are told from objects
_ARRAY_OF_LISTS = re.compile(r"[\s\ufeff]*\[\s*\[\s*[^\s{\[]")


def is_json(head: str) -> bool:
    """Return whether a text begins as JSON objects or a list of them, or of texts, does."""
    return _JSON.match(head) is not None


class JsonFile:
    """A file of JSON, which can be read several times.

    Args:
        source: the file.
        head: the beginning of its text.
        raw: whether an object that holds many records is a row as it is.

    Raises:
        InputError: it is one object with several lists of records.
    """

    def __init__(self, source: Source, head: str, *, raw: bool) -> None:
        self._source = source
        self.notes: list[str] = []
        self._lines, self._longest = False, LONGEST_LINE
        self._shape: Shape | None = None
        self._is_readable = True
        self._before = head.index("[") + 1 if _ARRAY_OF_LISTS.match(head) else 0  # characters, to the first list
        is_array = head.lstrip("\ufeff \t\r\n").startswith("[")
        self.has_lists = is_array and not raw and (self._before > 0 or _are_lists(head))
        by_lines = source.suffix != ".json"
        if not is_array:
            self._look(by_lines, raw)
        if by_lines and not self.has_lists and not self._lines and self._shape is None:
            self.notes.append("read as one JSON value after the other, not by lines")

    def rows(self) -> Generator[Row, None, None]:
        """Yield every row."""
        with closing(self._source.text()) as text:
            if self._shape is None:
                yield from JsonText(text, self._source.encoding, lines=self._lines, longest=self._longest).rows()
            else:
                whole, _ = JsonText(text, self._source.encoding, longest=LARGEST_OBJECT).value()
                rows = self._shape.rows(cast("Object", whole), self._source.name)
                yield from rows if self._is_readable else map(self._readable, rows)

    def lists(self) -> Iterator[Sequence[object] | str]:
        """Yield the items of every list, or why it cannot be read."""
        with closing(self._source.text()) as text:
            text.read(self._before)
            for row in JsonText(text, self._source.encoding, lists=True).rows():
                yield row.problem or list((row.values or {}).values())

    def _look(self, by_lines: bool, raw: bool) -> None:
        """Tell lines from values that go beyond theirs, and one object of many records from one that is a row."""
        with closing(self._source.text()) as text:
            values = JsonText(text, self._source.encoding, longest=LARGEST_OBJECT)
            begins_object = values.peek() == "{"
            try:
                first, several_lines = values.value()
                self._is_readable = values.is_readable()
                alone = not values.peek()
            except ValueError:
                self._lines = by_lines or not begins_object
                self._longest = LARGEST_OBJECT
                return
        self._lines = not several_lines
        if alone and isinstance(first, dict) and not raw:
            self._shape = find_shape(first, self._source.name)
        if self._shape is not None:
            self.notes.append(self._shape.note)

    def _readable(self, row: Row) -> Row:
        """Return a row of an object as `JsonText` would read it by itself: whole, or with what could not be decoded."""
        text = json.dumps(row.values, ensure_ascii=False, default=str)
        try:
            whole = readable(text, self._source.encoding)
        except ValueError as error:
            return replace(row, values=None, problem=str(error))
        return row if whole is text or row.values is None else replace(row, values=json.loads(whole))


def _are_lists(head: str) -> bool:
    """Return whether the lines of a text that begins as a list are a list of cells each, as far as can be seen."""
    first, *rest = [line for line in map(str.strip, head.split("\n")) if line][:_LINES]
    is_list = re.fullmatch(r"\ufeff?\[\s*[^\s{\[].*\]", first) is not None
    return is_list and bool(rest) and rest[0].startswith("[") and not any(line.startswith("{") for line in rest)
