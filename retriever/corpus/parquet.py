"""Parquet, a few hundred rows at a time."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from retriever.core.errors import InputError
from retriever.corpus.fields import FieldNames
from retriever.corpus.rows import Row
from retriever.corpus.sources import Source

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

_BATCH = 256


def read_parquet(source: Source, fields: FieldNames) -> Iterator[Row]:
    """Yield every row; null, NaN and infinities mean that a field is absent, dates become ISO strings.

    Columns of bytes are left out, but for those of id, title and text, which are read as UTF-8.

    Raises:
        InputError: the file is no Parquet, is damaged, or has a column twice.
    """
    with _opened(source) as table:
        wanted = _wanted(table.schema_arrow, source.name, fields)
        line = 0
        for batch in table.iter_batches(_BATCH, columns=wanted.names):
            yield from _rows(batch.cast(wanted, safe=False), line)
            line += batch.num_rows


def parquet_columns(source: Source) -> list[str]:
    """Return the names of the columns; raises `InputError` as `read_parquet` does."""
    with _opened(source) as table:
        return list(table.schema_arrow.names)


def count_parquet_rows(source: Source) -> int:
    """Return how many rows there are; raises `InputError` as `read_parquet` does."""
    with _opened(source) as table:
        return int(table.metadata.num_rows)


@contextmanager
def _opened(source: Source) -> "Iterator[parquet.ParquetFile]":
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with source.seekable() as stream, parquet.ParquetFile(stream) as table:
            yield table
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise InputError(
            f"{source.name} cannot be read as Parquet: {error}.", hint="Copy or write it again."
        ) from error


def _rows(batch: "pa.RecordBatch", before: int) -> Iterator[Row]:
    """Yield the rows of a batch, in which a value that Python cannot hold costs its row alone."""
    for number in range(batch.num_rows):
        line = before + number + 1
        try:
            row = {name: _plain(column[number].as_py()) for name, column in zip(batch.schema.names, batch, strict=True)}
        except (ValueError, OverflowError, TypeError) as error:
            yield Row(line, "", problem=f"a value cannot be read: {error}")
        else:
            yield Row(line, row, row, sparse=True)


def _wanted(schema: "pa.Schema", file: str, fields: FieldNames) -> "pa.Schema":
    """Return the columns to read, with types that Python has."""
    import pyarrow as pa

    if repeated := {name for name in schema.names if schema.names.count(name) > 1}:
        raise InputError(f"{file}: the column {min(repeated)!r} appears more than once.", hint="Rename one of them.")
    as_text = fields.as_text(schema.names)
    columns = []
    for column in schema:
        if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
            if column.name in as_text:
                columns.append(column.with_type(pa.large_string()))
        elif pa.types.is_timestamp(column.type):
            columns.append(column.with_type(pa.timestamp("us", column.type.tz)))
        else:
            columns.append(column)
    return pa.schema(columns)


def _plain(value: object) -> object:
    """Return the value as JSON has it, as far as JSON can."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value
