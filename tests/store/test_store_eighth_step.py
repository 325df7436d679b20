"""An index whose generations were FAISS files alone becomes one whose generations are of any backend."""

import json
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from retriever.core.errors import IndexDamagedError
from retriever.store.checksums import row_checksum
from retriever.store.database import DATABASE, Store

GOLDEN = Path(__file__).parents[1] / "golden" / "schema-7.tar.gz"
BEFORE = (
    "SELECT generation_id, view_id, path, sha256, factory, size, watermark, recall, details, active FROM generations"
)


@pytest.fixture
def old(tmp_path):
    with tarfile.open(GOLDEN) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / DATABASE


def change(path, sql, *, seal=True):
    """Change the old database, and seal its generations again as the old version would."""
    with closing(sqlite3.connect(path)) as database, database:
        assert database.execute(sql).rowcount
        if seal:
            for row in database.execute(BEFORE).fetchall():
                database.execute(
                    "UPDATE seals SET checksum = ? WHERE kind = 'generation' AND key = ?",
                    (row_checksum(row), str(row[0])),
                )


def rows(path):
    with closing(sqlite3.connect(path)) as database:
        return database.execute(BEFORE).fetchall()


def test_a_file_becomes_a_handle(old):
    change(old, """UPDATE generations SET details = '{"probes": 8, "note": "x"}' WHERE view_id = 2""")
    before = {row[0]: row for row in rows(old)}
    with Store.open(old) as store:
        for view_id in (1, 2):
            found = store.generations.active(view_id)
            _, _, path, sha256, factory, size, watermark, recall, details, _ = before[found.generation_id]
            assert found.backend == "faiss"
            assert found.handle == {
                "path": path, "sha256": sha256, "size": size, "dim": 16, "probes": json.loads(details)["probes"]
            }  # fmt: skip
            assert (found.size, found.watermark, found.recall, found.factory) == (size, watermark, recall, factory)
        assert store.generations.active(2).details == {"note": "x", "factory": "SQfp16"}
        assert store.settings.get("vector_index") is None
        assert store.seals.broken() == []


@pytest.mark.parametrize("factory", ["HNSW32,SQ8", "IVF16,PQ4x4", "Flat"])
def test_a_type_that_somebody_asked_for_is_remembered(old, factory):
    change(old, f"UPDATE generations SET factory = '{factory}' WHERE view_id = 2")
    with Store.open(old) as store:
        assert store.settings.get("vector_index") == {"factory": factory}
        assert store.seals.broken() == []


def test_a_type_that_was_chosen_by_size_is_not(old):
    change(old, "UPDATE generations SET factory = 'IVF4096,SQfp16'")
    with Store.open(old) as store:
        assert store.settings.get("vector_index") is None


def test_a_damaged_record_is_dropped_and_not_blessed(old):
    change(old, "UPDATE generations SET path = '../x' WHERE view_id = 1", seal=False)
    with Store.open(old) as store:
        assert store.generations.active(1) is None
        assert store.generations.active(2) is not None


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE views SET instruction = 'other' WHERE view_id = 2",
        "UPDATE settings SET value = '1' WHERE key = 'encoder'",
    ],
)
def test_other_damage_is_still_seen_afterwards(old, sql):
    change(old, sql, seal=False)
    with pytest.raises(IndexDamagedError, match="is not what was stored"):
        Store.open(old)
    with pytest.raises(IndexDamagedError, match="is not what was stored"):
        Store.open(old)


def test_ids_of_generations_go_on(old):
    highest = max(row[0] for row in rows(old))
    with Store.open(old) as store:
        active = store.generations.active(1)
        store.generations.retire(1)
        for generation in store.generations.obsolete():
            store.generations.forget(generation.generation_id)
        assert store.generations.activate(1, active).generation_id > highest
