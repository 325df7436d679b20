"""Seals of the catalogue's rows: a commit renews those of the rows that it changed, and no others."""

import sqlite3
from contextlib import closing
from functools import partial

import numpy as np
import pytest

from retriever.core.errors import IndexDamagedError
from retriever.core.types import Document
from retriever.store.database import Store
from retriever.store.views import Similarities, ViewKey


def key(number):
    return ViewKey("f" * 64, f"Question {number}?", "mean", None, 4, "fp32", 2)


def fill(store, rows):
    """Give a store many instructions and settings, with verdicts and distributions."""
    with store.transaction():
        for number in range(rows):
            view = store.views.ensure(key(number))
            store.verdicts.put(view.view_id, {"level": "followed"})
            store.similarities.put(view.view_id, Similarities(40, np.linspace(0, 1, 5)))
            store.settings.set(f"setting {number}", number)


def steps(store, work):
    """Count the steps of SQLite's machine that some work takes."""
    taken = []
    store._db.raw.set_progress_handler(lambda: taken.append(1), 1)
    try:
        work()
    finally:
        store._db.raw.set_progress_handler(None, 0)
    return len(taken)


def test_the_cost_of_a_commit_does_not_grow_with_the_catalogue(store, tmp_path):
    with Store.open(tmp_path / "large" / "corpus.sqlite3", create=True) as large:
        fill(store, 5)
        fill(large, 2000)
        costs = []
        for one in (store, large):
            content = one.documents.upsert([Document("a", "text")]).content_ids
            writes = [
                partial(one.vectors.put, 1, content, np.eye(1, 2, dtype=np.float32)),
                partial(one.views.touch, 3),
                partial(one.settings.set, "another", True),
            ]
            costs.append([steps(one, write) for write in writes])
    few, many = costs
    assert many == few


def test_every_change_of_the_catalogue_is_sealed(store):
    fill(store, 4)
    assert store.seals.broken() == []
    store.settings.set("a", 1)
    store.settings.set("a", 2)
    store.settings.set("b", 1)
    store.settings.remove("b")
    store.views.ensure(key(9), lazy=True)
    store.views.ensure(key(9))
    store.verdicts.put(2, {"level": "not followed"})
    store.documents.upsert([Document("a", "text", {"stars": 1})])
    assert store.seals.broken() == []
    store.views.drop(2)  # and what refers to it
    assert store.verdicts.get(2) is None
    assert store.seals.broken() == []
    with pytest.raises(KeyError), store.transaction():
        store.settings.set("a", 3)
        store.views.drop(1)
        raise KeyError
    store.settings.set("c", 1)
    assert store.seals.broken() == []


def test_a_commit_does_not_seal_damage_elsewhere(store, path):
    fill(store, 4)
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("UPDATE views SET instruction = 'Another question?' WHERE view_id = 2")
    store.settings.set("a", 1)
    store.views.touch(3)
    assert [str(one) for one in store.seals.broken()] == ["The view 2 is not what was stored."]
    with pytest.raises(IndexDamagedError, match="The view 2 is not what was stored"):
        Store.open(path)
    store.seals.renew_all()
    assert store.seals.broken() == []
