"""Edits are sealed, kept together with their clustering, and mended like the rest of the catalogue."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from retriever.core.errors import IndexDamagedError, UsageError
from retriever.index.upkeep.repair import repair
from retriever.store.database import DATABASE, Store


@pytest.fixture
def path(tmp_path):
    path = tmp_path / DATABASE
    with Store.open(path, create=True) as store:
        centroids = np.eye(1, 4, dtype=np.float32)
        for name in ("first", "second"):
            store.clusterings.save(name, "f", {"clusters": [{}]}, centroids)
            store.edits.add(name, [{"kind": "hide", "cluster": row} for row in range(3)], "Ada")
    return path


def change(path, sql):
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("PRAGMA foreign_keys = ON")
        assert raw.execute(sql).rowcount


def kept(store, name):
    return [one.change["cluster"] for one in store.edits.all(name)]


def test_edits_are_taken_back_last_first(path):
    with Store.open(path) as store:
        assert [store.edits.undo("first").change["cluster"] for _ in range(3)] == [2, 1, 0]
        assert store.edits.undo("first") is None
        assert all(one.undone for one in store.edits.all("first"))
        assert not any(one.undone for one in store.edits.all("second"))


def test_edits_go_with_their_clustering(path):
    with Store.open(path) as store, store.transaction():
        store.clusterings._db.write("DELETE FROM clusterings WHERE rowid = 1")
    with Store.open(path) as store:
        assert (kept(store, "first"), kept(store, "second")) == ([], [0, 1, 2])


def test_who_edits_is_text(path):
    with Store.open(path) as store, pytest.raises(UsageError, match="not valid UTF-8"):
        store.edits.add("first", [], "\ud800")


@pytest.mark.parametrize(
    ("sql", "edits"),
    [
        ("UPDATE edits SET change = replace(change, '1', '0') WHERE edit_id = 2", [0]),
        ("UPDATE edits SET author = 'Eve' WHERE edit_id = 3", [0, 1]),
    ],
    ids=["change", "author"],
)
def test_a_changed_row_is_damage_and_what_rests_on_it_is_taken_out(path, sql, edits):
    change(path, sql)
    with pytest.raises(IndexDamagedError, match="is not what was stored"):
        Store.open(path)
    report = repair(path.parent)
    assert any(line.startswith("edit ") for line in report.lost)
    with Store.open(path) as store:
        assert (kept(store, "first"), kept(store, "second")) == (edits, [0, 1, 2])
