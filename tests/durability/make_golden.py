"""Makes the golden indexes: one small index as each schema version stored it, for today's version to open.

    python tests/durability/make_golden.py tests/golden

Run it once for a new schema; archives that are there already stay as they are. An older schema is made by its own
migrations alone, and holds the rows that it had columns for. Before the third step an index did not name its encoder,
so there is none of the first two. Those before the eighth, whose generations had other columns, cannot be made again.
"""

import gzip
import io
import sqlite3
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

if __name__ == "__main__":
    tests = Path(__file__).parents[1]
    sys.path[:0] = [str(tests / "durability"), str(tests / "index"), str(tests.parent)]

from index_fakes import FAULT, MOOD, FakeEncoder
from operations import CORPUS
from replay import read_tree

from retriever.store.database import DATABASE
from retriever.store.migrations import MIGRATIONS
from retriever.workspace import Index

FIRST = 3
SAVED = "saved"
_KEPT = ("_sqlite_migrations", "sqlite_sequence")


def step_names() -> list[str]:
    """Return all steps of the schema, oldest first."""
    return MIGRATIONS.names


def build(path: Path) -> None:
    """Make the index that all archives hold: two whole views, a lazily filled one, a tail, a deleted document."""
    with Index(path, encoder=FakeEncoder()) as index:
        index.add(CORPUS, instructions=[MOOD])
        index.save_clustering(SAVED, index.cluster(MOOD, k=2))
        index.search("hot", instruction=FAULT)
        index.delete(["d04"])


def step_back(path: Path, names: Sequence[str]) -> None:
    """Replace an index's database by one that knows these steps of the schema alone."""
    old = path / "older"
    with closing(sqlite3.connect(old, isolation_level=None)) as made:
        made.execute("PRAGMA journal_mode = WAL")
        rest = step_names()[len(names) :]
        MIGRATIONS.apply(made, stop_before=next(iter(rest), None))
        made.execute("ATTACH ? AS today", (str(path / DATABASE),))
        for (table,) in made.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'").fetchall():
            if table in _KEPT or table.startswith("contents_words"):
                continue
            columns = ", ".join(row[1] for row in made.execute(f"PRAGMA main.table_info({table})"))
            made.execute(f"DELETE FROM main.{table}")
            made.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM today.{table}")
        made.execute("DETACH today")
    old.replace(path / DATABASE)


def pack(path: Path, archive: Path) -> None:
    """Write a closed index as a compressed tar file."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, data in read_tree(path).items():
            if data is not None:
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    archive.write_bytes(gzip.compress(packed.getvalue(), mtime=0))


def main(folder: Path) -> None:
    """Make the archives that are not there yet."""
    names = step_names()
    for version in range(FIRST, len(names) + 1):
        archive = folder / f"schema-{version}.tar.gz"
        if archive.exists():
            continue
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / "index"
            build(path)
            if version < len(names):
                step_back(path, names[:version])
            pack(path, archive)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
