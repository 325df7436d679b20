"""Flips one bit of a stored row where it lies in the file, as a failing disk does; SQLite's indexes stay as before."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

_BODIES = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 7: 8, 8: 0, 9: 0}
_ROWID = "rowid"


def flip(database: Path, table: str, rowid: int, column: str, bit: int) -> None:
    """Flip a bit of a row's column, ``rowid`` for its key; of a 1, which has no byte of its own, the lowest bit."""
    with closing(sqlite3.connect(database)) as opened:
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = opened.execute("PRAGMA page_size").fetchone()[0]
        pages = opened.execute("SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf'", (table,)).fetchall()
        columns = [row[1] for row in opened.execute(f"PRAGMA table_info({table})")]
    data = bytearray(database.read_bytes())
    (cell,) = [at for (page,) in pages for at in _cells(data, (page - 1) * size) if _key(data, at) == rowid]
    at, bit = _place(data, cell, None if column == _ROWID else columns.index(column), bit)
    data[at] ^= 1 << bit
    database.write_bytes(data)


def _cells(data: bytearray, page: int) -> Iterator[int]:
    for cell in range(int.from_bytes(data[page + 3 : page + 5], "big")):
        pointer = page + 8 + 2 * cell
        yield page + int.from_bytes(data[pointer : pointer + 2], "big")


def _key(data: bytearray, cell: int) -> int:
    return _number(data, _number(data, cell)[1])[0]


def _place(data: bytearray, cell: int, column: int | None, bit: int) -> tuple[int, int]:
    """Return the byte and the bit to flip."""
    key = _number(data, cell)[1]
    record = _number(data, key)[1]
    if column is None:
        return record - 1, bit
    length, at = _number(data, record)
    body = record + length
    for _ in range(column):
        kind, at = _number(data, at)
        body += _BODIES[kind] if kind < 12 else (kind - 12) // 2
    kind, behind = _number(data, at)
    if kind in (8, 9):
        return behind - 1, 0
    return body + (_BODIES[kind] if kind < 12 else 1) - 1, bit


def _number(data: bytearray, at: int) -> tuple[int, int]:
    """Return one of SQLite's numbers of one to nine bytes, and where it ends."""
    value = 0
    for place in range(at, at + 8):
        value = value << 7 | data[place] & 127
        if data[place] < 128:
            return value, place + 1
    return value << 8 | data[at + 8], at + 9
