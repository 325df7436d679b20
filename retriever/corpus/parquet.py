"""Parquet, read by DuckDB, which holds a few thousand rows in memory and gives nanoseconds without pandas."""

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING
from uuid import UUID

from retriever.core.errors import InputError
from retriever.corpus.fields import FieldNames
from retriever.corpus.layout import distinct
from retriever.corpus.rows import Row
from retriever.corpus.sources import Source

if TYPE_CHECKING:
    import duckdb

_BATCH = 256
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "memory_limit": "4GB",  # of which a batch of reviews takes some megabytes
    "temp_directory": "",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


class Parquet:
    """A Parquet file, which can be read several times.

    Args:
        source: the file.
        fields: which columns are texts, of which bytes are read as UTF-8.

    Raises:
        InputError: the file is no Parquet or is damaged, as the methods do.
    """

    def __init__(self, source: Source, fields: FieldNames) -> None:
        self._source, self._fields = source, fields
        self.notes: list[str] = []
        with self._opened() as (connection, path):
            elements = connection.execute("SELECT name, num_children FROM parquet_schema(?)", [path]).fetchall()
        self.columns = distinct(list(_top_level(elements)), self.notes)

    def rows(self) -> Generator[Row, None, None]:
        """Yield every row; null means that a field is absent."""
        names = self.columns
        as_text = [at for at, name in enumerate(names) if name in self._fields.as_text(names)]
        with self._opened() as (connection, path):
            result = connection.execute("SELECT * FROM read_parquet(?)", [path])
            batches = iter(partial(result.fetchmany, _BATCH), [])
            for line, cells in enumerate(chain.from_iterable(batches), start=1):
                values: dict[str, object] = dict(zip(names, cells, strict=True))
                for at in as_text:
                    if isinstance(cells[at], bytes):
                        values[names[at]] = _text(cells[at])
                yield Row(line, values, values, sparse=True)

    @contextmanager
    def _opened(self) -> "Iterator[tuple[duckdb.DuckDBPyConnection, str]]":
        import duckdb

        try:
            with self._source.local() as path, duckdb.connect(config=_SETTINGS) as connection:
                connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
                yield connection, re.sub(r"([\[*?])", r"[\1]", str(path))  # not a pattern of several files
        except (duckdb.Error, OSError, ValueError, OverflowError, MemoryError, RuntimeError) as error:
            reason = str(error).partition("\n")[0].replace(str(self._source.path.resolve()), self._source.name)
            problem = f"{self._source.name} cannot be read as Parquet: {reason}."
            raise InputError(problem, hint="Copy or write it again.") from error


def _text(held: bytes) -> str:
    """Return bytes of UTF-8 as text; the 16 of a UUID, which are none, as it is written."""
    text = held.decode("utf-8", "replace")
    return str(UUID(bytes=held)) if len(held) == 16 and re.search("[\0\ufffd]", text) else text


def _top_level(elements: list[tuple[str, int | None]]) -> Iterator[str]:
    """Yield the names of the columns, the children of the root of a schema that is listed depth first."""
    below = 0  # elements to come that are inside a column
    for name, children in elements[1:]:
        if below == 0:
            yield name
        below += (children or 0) - (below > 0)
