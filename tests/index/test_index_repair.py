import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from index_fakes import FAULT, MOOD, FakeEncoder, documents, found, gives
from stored_rows import flip

from retriever.core.errors import CheckpointError, IndexDamagedError
from retriever.core.similarity import LEVELS
from retriever.core.types import BadRow, Document
from retriever.index.upkeep.archive import export_index
from retriever.index.upkeep.repair import repair
from retriever.index.upkeep.verify import verify
from retriever.store.database import DATABASE, Store
from retriever.store.views import Similarities
from retriever.workspace import Index

TEXTS = ("kettle love", "toy hate", "lamp sad", "drone")


@pytest.fixture
def whole(tmp_path):
    """Give the folder of a closed index of four documents under three instructions, with a row in quarantine."""
    path = tmp_path / "index"
    with Index(path, encoder=FakeEncoder()) as index:
        bad = BadRow("reviews.jsonl", 3, "bad", "no text", "{}")
        index.add([*documents(*TEXTS, stars=3), bad], instructions=[MOOD, FAULT])
    return path


def rowid_of(path, table, where):
    with closing(sqlite3.connect(path / DATABASE)) as database:
        ((rowid,),) = database.execute(f"SELECT rowid FROM {table} WHERE {where}").fetchall()
    return rowid


def answers(path):
    with Index(path, encoder=FakeEncoder()) as index:
        return [
            found(index.search("kettle", mode=mode, instruction=instruction))
            for mode in ("dense", "lexical", "hybrid")
            for instruction in ("", MOOD, FAULT)
        ]


def damaged(path, table, where, column, bit):
    flip(path / DATABASE, table, rowid_of(path, table, where), column, bit)
    assert not verify(path, deep=True, load=gives(FakeEncoder)).whole


@pytest.mark.parametrize(
    ("where", "column", "bit"),
    [
        ("view_id = 2 AND content_id = 2", "content_id", 3),  # 10, which is not there
        ("view_id = 2 AND content_id = 2", "view_id", 3),
        ("view_id = 1 AND content_id = 2", "content_id", 3),
    ],
)
def test_a_vector_of_another_text_or_view_is_made_anew(whole, where, column, bit):
    expected = answers(whole)
    damaged(whole, "vectors", where, column, bit)
    encoder = FakeEncoder()
    done = repair(whole, load=gives(lambda: encoder))
    assert (done.rebuilt, done.lost) == (["SQLite's indexes", f"1 vector of view {where[10]}"], [])
    assert [text for text, _ in encoder.read] == [TEXTS[1]]
    assert verify(whole, deep=True, load=gives(FakeEncoder)).findings == []
    assert answers(whole) == expected


def test_a_row_that_damage_made_the_equal_of_another_is_left_to_a_copy(whole):
    damaged(whole, "vectors", "view_id = 2 AND content_id = 2", "content_id", 0)  # 3, which has a vector
    with pytest.raises(IndexDamagedError, match="cannot be repaired") as refused:
        repair(whole, load=gives(FakeEncoder))
    assert "Restore a copy" in refused.value.hint
    with Index(whole, encoder=FakeEncoder()) as index:
        assert len(index._opened.store.documents) == 4


def test_a_lost_vector_of_a_view_that_searches_fill_is_read_by_the_next_one(whole):
    with closing(sqlite3.connect(whole / DATABASE)) as database, database:
        database.execute("UPDATE views SET lazy = 1 WHERE view_id = 2")
    with Store.open(whole / DATABASE, check=False) as store, store.transaction():
        store.seals.renew_all()
    expected = answers(whole)
    damaged(whole, "vectors", "view_id = 2 AND content_id = 2", "vector", 3)
    encoder = FakeEncoder()
    assert repair(whole, load=gives(lambda: encoder)).lost == []
    assert encoder.read == []
    assert verify(whole, deep=True, load=gives(FakeEncoder)).findings == []
    assert answers(whole) == expected


@pytest.mark.parametrize(("column", "bit"), [("content_id", 3), ("content_id", 0), ("id", 0)])
def test_a_document_of_another_text_or_name_is_taken_out_and_named(whole, column, bit):
    damaged(whole, "documents", "id = 'b'", column, bit)
    if column == "id":  # 'c', which there is
        with pytest.raises(IndexDamagedError, match="cannot be repaired"):
            repair(whole, load=gives(FakeEncoder))
        return
    assert repair(whole, load=gives(FakeEncoder)).lost == ["document 'b': index it again"]
    assert verify(whole, deep=True, load=gives(FakeEncoder)).findings == []
    with Index(whole, encoder=FakeEncoder()) as index:
        assert list(index._opened.store.documents.ids()) == ["a", "c", "d"]
        assert index.add(documents(*TEXTS, stars=3)).added == 1


def test_a_row_in_quarantine_of_an_unknown_run_is_taken_out_and_named(whole):
    expected = answers(whole)
    damaged(whole, "quarantine", "document_id = 'bad'", "run_id", 0)
    assert repair(whole, load=gives(FakeEncoder)).lost == ["1 row in quarantine of an unknown run"]
    assert verify(whole, deep=True, load=gives(FakeEncoder)).findings == []
    assert answers(whole) == expected


def test_random_cosines_of_an_unknown_view_are_drawn_again(whole):
    with Store.open(whole / DATABASE) as store:
        store.similarities.put(2, Similarities(4, np.zeros(len(LEVELS), dtype=np.float32)))
    expected = answers(whole)
    damaged(whole, "similarities", "view_id = 2", "rowid", 3)
    assert repair(whole, load=gives(FakeEncoder)).lost == []
    assert verify(whole, deep=True, load=gives(FakeEncoder)).findings == []
    assert answers(whole) == expected


def test_a_sample_of_an_unknown_view_is_taken_out(whole):
    with Store.open(whole / DATABASE) as store:
        store.samples.extend(2, "", 0.5)
    damaged(whole, "samples", "view_id = 2", "view_id", 5)
    assert repair(whole, load=gives(FakeEncoder)).lost == []
    assert verify(whole, deep=True, load=gives(FakeEncoder)).findings == []


def test_what_repair_writes_does_not_seal_a_changed_view(whole):
    damaged(whole, "views", "view_id = 2", "instruction", 0)
    assert repair(whole, load=gives(FakeEncoder)).lost == ["view 2: complete its question again"]
    assert verify(whole, deep=True, load=gives(FakeEncoder)).findings == []


def test_what_repair_writes_does_not_seal_a_changed_setting(whole):
    damaged(whole, "settings", "key = 'encoder'", "key", 0)
    with pytest.raises(IndexDamagedError, match="no longer says which encoder"):
        repair(whole, load=gives(FakeEncoder))
    assert not verify(whole).whole


def test_a_description_of_the_encoder_that_still_names_it_is_kept(whole):
    with closing(sqlite3.connect(whole / DATABASE)) as database, database:
        database.execute("UPDATE seals SET checksum = 0 WHERE kind = 'setting' AND key = 'encoder'")
    done = repair(whole, load=gives(FakeEncoder))
    assert (done.rebuilt, done.lost) == (["setting encoder"], [])
    assert verify(whole, deep=True, load=gives(FakeEncoder)).findings == []


def gone():
    raise CheckpointError("The model is gone.")


@pytest.mark.parametrize("view", [1, 2])
def test_what_could_not_be_embedded_is_named_and_embedded_by_the_next_repair(whole, view):
    before = answers(whole)
    damaged(whole, "vectors", f"view_id = {view} AND content_id = 2", "vector", 3)
    assert repair(whole, load=gives(gone)).lost == [
        f"1 vector of view {view}: the encoder does not load (The model is gone.); put it back and repair again"
    ]
    assert [found.problem for found in verify(whole).findings] == ["lacks the vectors of 1 text"] * (view == 1)
    assert repair(whole, load=gives(FakeEncoder)).rebuilt == [f"1 vector of view {view}"]
    assert verify(whole, deep=True, load=gives(FakeEncoder)).whole
    assert answers(whole) == before


def test_another_encoder_under_the_same_name_makes_no_view_of_its_own(whole):
    damaged(whole, "vectors", "view_id = 2 AND content_id = 2", "vector", 3)
    (lost,) = repair(whole, load=gives(lambda: FakeEncoder("other"))).lost
    assert lost.startswith("1 vector of view 2: the encoder does not load")
    with Index(whole, encoder=FakeEncoder()) as index:
        assert [view.view for view in index.views()] == [1, 2, 3]


def test_an_open_index_notices_what_repair_took_out(whole):
    with Index(whole, encoder=FakeEncoder()) as index:
        before = index._opened.store.data_version()
        with closing(sqlite3.connect(whole / DATABASE)) as database, database:
            database.execute("UPDATE documents SET metadata = '{}' WHERE id = 'b'")
        repair(whole, load=gives(FakeEncoder))
        assert index._opened.store.data_version() > before
        assert len(index.search("kettle", mode="dense").hits) == 3


class Watching(FakeEncoder):
    """Looks at the database whenever it reads texts."""

    def __init__(self, path, **options):
        super().__init__(**options)
        self._path = path

    def _read(self, texts, instructions):
        super()._read(texts, instructions)
        with closing(sqlite3.connect(self._path / DATABASE, timeout=0, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # a writer need not wait
            other.execute("ROLLBACK")
            assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0  # nor does the log grow
        with Index(self._path, encoder=FakeEncoder()) as index:
            index._opened.store.settings.set(f"pass {len(self.passes)}", True)
            assert index.search("toy", instruction=MOOD).hits


@pytest.fixture
def many_lost(tmp_path):
    """Give the folder of an index of forty documents that has lost half of the vectors of each of its three views."""
    path = tmp_path / "index"
    with Index(path, encoder=FakeEncoder()) as index:
        index.add([Document(f"d{row:02}", f"{TEXTS[row % 4]} {row}") for row in range(40)], instructions=[MOOD, FAULT])
    with closing(sqlite3.connect(path / DATABASE)) as database, database:
        database.execute("UPDATE vectors SET checksum = checksum + 1 WHERE content_id % 2")
    return path


def test_lost_vectors_are_embedded_while_others_search_and_write(many_lost):
    done = repair(many_lost, load=gives(lambda: Watching(many_lost)))
    assert "20 vectors of view 3" in done.rebuilt
    assert verify(many_lost, deep=True, load=gives(FakeEncoder)).findings == []
    with Index(many_lost, encoder=FakeEncoder()) as index:
        assert index._opened.store.settings.get("pass 1") is True


def test_what_is_whole_is_left_as_it_was_but_for_what_was_deleted(whole):
    with Index(whole, encoder=FakeEncoder()) as index:
        index.delete(["d"])
    before = {view: vectors(whole, view)[:3] for view in (1, 2, 3)}
    done = repair(whole)
    assert (done.rebuilt, done.lost, len(done.generations)) == ([], [], 3)
    assert {view: vectors(whole, view) for view in (1, 2, 3)} == before


def vectors(path, view):
    with closing(sqlite3.connect(path / DATABASE)) as database:
        return database.execute(
            "SELECT content_id, vector, words FROM vectors WHERE view_id = ? ORDER BY content_id", (view,)
        ).fetchall()


FOREIGN = 'SELECT m.name, f."from" FROM sqlite_schema AS m JOIN pragma_foreign_key_list(m.name) AS f'
ABSENT = {"INTEGER": 4_000_000, "TEXT": "nobody", "BLOB": b"nobody"}


def put_orphan(database, table, column):
    """Put a row into a table whose column refers to nothing, and whose others refer to what is there."""
    others = {
        name: (other, key) for _, _, other, name, key, *_ in database.execute(f"PRAGMA foreign_key_list({table})")
    }
    row = {}
    for _, name, kind, needed, _, first in database.execute(f"PRAGMA table_info({table})").fetchall():
        if name == column:
            row[name] = ABSENT[kind]
        elif name in others and needed:
            ((row[name],),) = database.execute("SELECT {1} FROM {0} LIMIT 1".format(*others[name])).fetchall()
        elif needed and not (first and kind == "INTEGER"):
            row[name] = {"INTEGER": 1, "REAL": 1.0, "TEXT": "[]", "BLOB": b"[]"}[kind]
    marks = ", ".join("?" * len(row))
    database.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", list(row.values()))


def test_a_row_of_any_table_that_refers_to_nothing_is_taken_out(whole, tmp_path):
    with Index(whole, encoder=FakeEncoder()) as index:
        index.clusterings.save("moods", index.cluster(MOOD, k=2))
    expected = answers(whole)
    with closing(sqlite3.connect(whole / DATABASE)) as database:
        keys = database.execute(FOREIGN).fetchall()
    assert {"vectors", "documents", "quarantine"} < {table for table, _ in keys}
    for table, column in keys:
        path = tmp_path / f"{table}.{column}"
        shutil.copytree(whole, path)
        with closing(sqlite3.connect(path / DATABASE)) as database, database:
            put_orphan(database, table, column)
        assert f"1 row of {table} without the row referred to" in str(verify(path).findings), path
        with pytest.raises(IndexDamagedError):
            export_index(path, tmp_path / "refused.tar")
        repair(path, load=gives(FakeEncoder))
        assert verify(path, deep=True, load=gives(FakeEncoder)).findings == [], path
        export_index(path, path / "whole.tar")
        assert answers(path) == expected
