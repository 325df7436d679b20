"""Tables that a program holds, as rows: DataFrames of pandas, and whatever streams Arrow (Polars, DuckDB, pyarrow).

None of these libraries is imported before one of its tables is given.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from retriever.core.errors import InputError
from retriever.corpus.layout import distinct

_ROWS = 1000  # that are made of Arrow's columns at a time
_EXACT = 2**53  # floats below it have no other whole number between them


@runtime_checkable
class ArrowTable(Protocol):
    """A table that gives its rows as an Arrow stream: of pyarrow, Polars, DuckDB and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule with the stream."""


def is_table(given: object) -> bool:
    """Whether something is a table of rows and columns; a single column is none."""
    return _is_frame(given) or (
        isinstance(given, ArrowTable) and (hasattr(given, "columns") or hasattr(given, "schema"))
    )


def table_rows(table: Any) -> Iterator[Mapping[str, Any]]:  # noqa: ANN401 - of several libraries
    """Yield the rows of a table, by the names of its columns; of a name that is there twice, the second is ``q (2)``.

    Raises:
        InputError: the library cannot give its values.
    """
    return _frame_rows(table) if _is_frame(table) else _arrow_rows(table)


def _is_frame(given: object) -> bool:
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pandas" for kind in type(given).__mro__
    )


def _frame_rows(frame: Any) -> Iterator[Mapping[str, Any]]:  # noqa: ANN401 - of pandas
    """Yield the rows of pandas' DataFrame; the levels of its index that have a name are columns."""
    levels = [level for level, name in enumerate(frame.index.names) if name is not None and name not in frame.columns]
    columns = [frame.index.get_level_values(level) for level in levels]
    columns += [_whole(frame.iloc[:, place]) for place in range(frame.shape[1])]
    names = distinct([str(column.name) for column in columns])
    return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))


def _whole(column: Any) -> Any:  # noqa: ANN401 - of pandas
    """Return a column with the whole numbers that it held before pandas made them floats, for want of a value."""
    if column.dtype.kind != "f" or not column.isna().any():
        return column
    held = column.dropna()
    return column.astype("Int64") if ((held % 1 == 0) & (held.abs() < _EXACT)).all() else column


def _arrow_rows(table: ArrowTable) -> Iterator[Mapping[str, Any]]:
    import pyarrow as pa

    try:
        with pa.RecordBatchReader.from_stream(table) as reader:
            names = distinct(reader.schema.names)
            kinds = pa.schema(list(zip(names, map(_readable, reader.schema.types), strict=True)))
            for batch in reader:
                for start in range(0, batch.num_rows, _ROWS):
                    part = batch.slice(start, _ROWS).rename_columns(names).cast(kinds, safe=False)
                    yield from part.to_pylist(maps_as_pydicts="lossy")
    except (pa.ArrowException, OverflowError, ValueError) as error:
        raise InputError(f"The table cannot be read: {error}.", hint="Convert the column, or leave it out.") from error


def _readable(kind: Any) -> Any:  # noqa: ANN401 - of pyarrow
    """Return a type whose values Python has: times to the microsecond, also within lists and structs."""
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_time64(kind):
        return pa.time64("us")
    if pa.types.is_duration(kind):
        return pa.duration("us")
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _readable(field.type)) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return (pa.list_ if pa.types.is_list(kind) else pa.large_list)(_readable(kind.value_type))
    return kind
