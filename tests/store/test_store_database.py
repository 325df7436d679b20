import random
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from retriever.core.errors import IndexDamagedError, IndexLockedError, IndexNotFoundError, RetrieverError, SchemaError
from retriever.core.types import BadRow, Document
from retriever.store import connection
from retriever.store.database import Store, identity_of
from retriever.store.schema import VERSION
from retriever.store.vectors import VectorRevision
from retriever.store.views import ViewKey

DOCUMENT = Document("a", "text")


def pragma(store, name):
    return store._db.row(f"PRAGMA {name}")[0]


def test_pragmas_are_what_the_design_claims(store):
    assert pragma(store, "journal_mode") == "wal"
    assert pragma(store, "synchronous") == 2
    assert pragma(store, "foreign_keys") == 1
    assert pragma(store, "busy_timeout") == 10_000


def test_a_missing_index_is_not_made_by_opening_it(path):
    with pytest.raises(IndexNotFoundError, match=r"There is no index at .*corpus\.sqlite3\. Make one"):
        Store.open(path)
    assert not path.parent.exists()


@pytest.mark.parametrize("seed", range(5))
def test_random_bytes_are_a_damaged_index(path, seed):
    path.parent.mkdir()
    path.write_bytes(random.Random(seed).randbytes(8192))
    with pytest.raises(IndexDamagedError, match=r"corpus\.sqlite3 is damaged or no SQLite database"):
        Store.open(path)


def test_a_malformed_page_is_a_damaged_index(path):
    with Store.open(path, create=True) as store:
        store.documents.upsert([Document(f"d{n}", f"text {n}") for n in range(2000)])
    data = bytearray(path.read_bytes())
    for page in range(len(data) // 4096 // 2, len(data) // 4096):
        data[page * 4096 : page * 4096 + 100] = b"\xff" * 100
    path.write_bytes(data)
    with Store.open(path) as store, pytest.raises(IndexDamagedError):
        store.documents.get([f"d{n}" for n in range(2000)])


def test_a_column_of_another_name_is_damage_that_only_a_copy_mends(path):
    with Store.open(path, create=True) as store:
        store.documents.upsert([Document("a", "toy")])
    with closing(sqlite3.connect(path)) as database:
        database.execute("ALTER TABLE documents RENAME COLUMN metadata TO metadatc")
    with Store.open(path) as store, pytest.raises(IndexDamagedError, match=r"no such column.* Restore it from a copy"):
        store.documents.get(["a"])


def test_another_programs_database_is_left_alone(path):
    path.parent.mkdir()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE notes (x)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(IndexNotFoundError, match="is not a retriever index"):
        Store.open(path, create=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize(("version", "says"), [(0, "an older version"), (VERSION + 1, "a newer version")])
def test_another_schema_is_refused_and_untouched(path, version, says):
    Store.open(path, create=True).close()
    with closing(sqlite3.connect(path)) as other:
        other.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    for options in ({}, {"create": True}):
        with pytest.raises(SchemaError, match=f"was written by {says} of retriever") as refused:
            Store.open(path, **options)
        assert "`retriever index FILES --index DIR`" in refused.value.hint
    assert path.read_bytes() == before


def test_an_interrupted_creation_can_be_repeated(path):
    path.parent.mkdir()
    path.touch()
    with pytest.raises(IndexNotFoundError, match="is not a retriever index"):
        Store.open(path)
    with Store.open(path, create=True) as store:
        assert len(store.documents) == 0


def test_a_transaction_is_all_or_nothing(store):
    with pytest.raises(KeyError), store.transaction():
        store.documents.upsert([DOCUMENT])
        store.settings.set("encoder", "x")
        raise KeyError
    assert len(store.documents) == 0
    assert store.settings.get("encoder") is None
    assert store.documents.fields() == {}
    with store.transaction():
        store.documents.upsert([DOCUMENT])
    assert len(store.documents) == 1


def test_transactions_do_not_nest(store):
    with pytest.raises(RuntimeError, match="do not nest"), store.transaction(), store.transaction():
        pass


@pytest.mark.parametrize("fresh", [False, True])
def test_a_snapshot_refuses_to_be_written_in(store, fresh):
    def refused():
        for write in (
            lambda: store.documents.upsert([DOCUMENT]),
            lambda: store.settings.set("a", 1),
            lambda: store.runs.start("index"),
            lambda: store.best_effort_write(lambda: store.settings.set("a", 1)),
            lambda: store.transaction().__enter__(),
        ):
            with pytest.raises(RuntimeError, match="a snapshot only reads"), store.snapshot():
                write()

    if not fresh:
        store.documents.upsert([Document("b", "another text")])
        refused()
    else:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(refused).result(60)
    assert "a" not in store.documents.get(["a"])
    store.documents.upsert([DOCUMENT])
    with store.transaction(), store.snapshot():  # nothing of which is lost
        store.settings.set("a", 1)
    assert store.settings.get("a") == 1


def test_other_threads_see_committed_data_only(store):
    def count():
        seen.append(len(store.documents))

    seen = []
    with store.transaction():
        store.documents.upsert([DOCUMENT])
        thread = threading.Thread(target=count)
        thread.start()
        thread.join()
    count()
    assert seen == [0, 1]


def test_a_threads_connection_ends_with_it(store):
    used = []
    thread = threading.Thread(target=lambda: used.append(store._db.raw))
    thread.start()
    thread.join()
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        used[0].execute("SELECT 1")
    assert len(store._db._made) == 1


def test_a_closed_store_stays_closed(path):
    store = Store.open(path, create=True)
    store.close()
    store.close()
    with pytest.raises(RuntimeError, match="closed"):
        len(store.documents)


def test_the_data_version_follows_data_in_every_process_and_ignores_bookkeeping(store, path, view_id):
    version = store.data_version()
    store.runs.start("index")
    store.settings.set("a", 1)
    store.views.touch(view_id)
    assert store.data_version() == version
    with Store.open(path) as other:
        other.documents.upsert([DOCUMENT])
        assert other.data_version() == store.data_version() == version + 1
    with store.transaction():
        store.documents.delete(["a"])
        store.documents.collect_garbage()
    assert store.data_version() == version + 2


def test_a_second_writer_is_told_that_it_waits_in_vain(path, store, monkeypatch):
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.05)
    with Store.open(path) as other, store.transaction(), pytest.raises(IndexLockedError, match="has been writing to"):
        other.documents.upsert([DOCUMENT])


def test_a_full_disk_loses_only_the_transaction_at_hand(store):
    store.documents.upsert([DOCUMENT])
    store.checkpoint()
    store._db.rows(f"PRAGMA max_page_count = {pragma(store, 'page_count') + 2}")
    with pytest.raises(RetrieverError, match=r"disk is full.*Nothing already stored is lost"), store.transaction():
        store.documents.upsert([Document(f"d{n}", f"{n} " * 1000) for n in range(100)])
    assert list(store.documents.ids()) == ["a"]
    assert store.inspection.structure() == []


def test_checkpoint_empties_the_log_and_size_counts_it(store, path):
    store.documents.upsert([Document(f"d{n}", f"text {n}") for n in range(1000)])
    log = path.with_name("corpus.sqlite3-wal")
    assert store.size_bytes == path.stat().st_size + log.stat().st_size
    store.checkpoint()
    assert log.stat().st_size == 0
    assert store.size_bytes == path.stat().st_size


def test_vacuum_gives_space_back(store):
    store.documents.upsert([Document(f"d{n}", f"{n} " * 500) for n in range(500)])
    store.checkpoint()
    before = store.size_bytes
    store.documents.delete(list(store.documents.ids()))
    store.documents.collect_garbage()
    store.vacuum()
    assert store.size_bytes < before / 4


def test_problems_are_found_and_the_word_index_can_be_rebuilt(store):
    store.documents.upsert([DOCUMENT])
    assert store.inspection.structure() == []
    store._db.write("INSERT INTO contents_fts (contents_fts, rowid, text) VALUES ('delete', 1, 'text')")
    assert store.inspection.words_differ()
    store.words.rebuild()
    assert store.inspection.structure() == []
    assert [hit.content_id for hit in store.documents.lexical("text", 1)] == [1]


def test_settings_hold_json(store):
    store.settings.set("encoder", {"name": "x", "steps": [1, 2.5, None]})
    store.settings.set("encoder", {"name": "y"})
    assert store.settings.get("encoder") == {"name": "y"}
    assert store.settings.get("other", 3) == 3


def test_a_missing_view_is_named(store):
    with pytest.raises(RetrieverError, match="The index has no view 9"):
        store.vectors.get(9, [1])


def test_two_processes_may_create_the_same_index(path):
    with Store.open(path, create=True) as one, Store.open(path, create=True) as two:
        key = ViewKey("f", "", "mean", None, None, "fp32", 2)
        assert one.views.ensure(key) == two.views.ensure(key)


def test_a_journal_left_by_a_killed_process_is_rolled_back(path):
    Store.open(path, create=True).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as killed:
        killed.execute("PRAGMA journal_mode = DELETE")
        killed.execute("PRAGMA cache_size = 1")  # so that pages are written before the commit
        killed.execute("BEGIN")
        killed.executemany(
            "INSERT INTO contents (hash, text) VALUES (?, ?)", [(b"%d" % n, "x" * 4000) for n in range(50)]
        )
        copies = {one.name: one.read_bytes() for one in path.parent.glob("corpus.sqlite3*")}
    assert set(copies) == {"corpus.sqlite3", "corpus.sqlite3-journal"}
    for name, data in copies.items():
        path.with_name(name).write_bytes(data)
    with Store.open(path) as store:
        assert store.documents.count_contents() == 0
        assert store.inspection.structure() == []
        assert store._db.number("SELECT COUNT(*) FROM contents") == 0


def test_documents_and_every_view_have_revisions_of_their_own(store, path, view_id):
    other_view = store.views.ensure(replace(store.views.all()[0].key, instruction="Another?")).view_id
    contents = store.documents.upsert([DOCUMENT, Document("b", "Another text.")]).content_ids
    vectors = np.eye(2, store.views.all()[0].key.dim, dtype=np.float32)

    def revisions():
        return store.documents_revision(), store.vectors.revision(view_id), store.vectors.revision(other_view)

    documents, mine, others = revisions()
    assert (mine.last, mine.removals, others.last) == (0, 0, 0)
    with Store.open(path) as other:
        other.vectors.put(view_id, contents, vectors)
    assert revisions() == (documents, VectorRevision(2, 0), others)
    store.vectors.put(other_view, contents[:1], vectors[:1])
    assert revisions() == (documents, VectorRevision(2, 0), VectorRevision(3, 0))
    store.vectors.remove_oldest(view_id, 1)
    assert revisions() == (documents, VectorRevision(2, 1), VectorRevision(3, 0))
    store.vectors.remove(other_view, contents[:1])
    assert revisions() == (documents, VectorRevision(2, 1), VectorRevision(0, 1))
    store.vectors.put(other_view, contents[:1], vectors[:1])
    assert revisions()[2] == VectorRevision(4, 1)  # an id comes once
    for change in (
        lambda: store.documents.upsert([Document("b", "Another text.", {"n": 1})]),
        lambda: store.documents.delete(["a"]),
        store.documents.collect_garbage,
    ):
        change()
        assert store.documents_revision() == documents + 1
        documents += 1
    store.settings.set("a", 2)
    store.views.touch(view_id)
    store.documents.upsert([])
    store.documents.upsert([Document("b", "Another text.", {"n": 1})])  # as it is
    assert store.documents_revision() == documents


# Runs.


def test_a_run_is_recorded_from_start_to_end(store):
    run_id = store.runs.start("index a.jsonl", {"retriever": "1"})
    store.runs.progress(run_id, {"added": 3})
    (run,) = store.runs.last(2)
    assert (run.command, run.status, run.finished, run.statistics) == ("index a.jsonl", "running", None, {"added": 3})
    store.runs.finish(run_id, "partial")
    (run,) = store.runs.last(2)
    assert (run.status, run.statistics, run.versions) == ("partial", {"added": 3}, {"retriever": "1"})
    assert run.finished >= run.started


def test_last_gives_the_newest_first(store):
    first, second, third = (store.runs.start(name) for name in "abc")
    assert [run.run_id for run in store.runs.last(2)] == [third, second]
    assert first < second


def test_quarantine_keeps_any_row(store):
    run_id, other = store.runs.start("index"), store.runs.start("index")
    rows = [BadRow("a.jsonl", 3, None, "not JSON", "{"), BadRow("a.jsonl", 9, "x", "NUL", "a\udcffb")]
    store.runs.quarantine(run_id, rows)
    assert store.runs.quarantined(run_id) == [rows[0], BadRow("a.jsonl", 9, "x", "NUL", "a\\udcffb")]
    assert store.runs.quarantined(other) == []


def test_an_index_is_known_by_its_first_run(path, tmp_path):
    with Store.open(path, create=True) as store:
        assert store.identity() == identity_of(path) == ""
        store.runs.start("index")
        identity = store.identity()
        assert identity == f"1 {store.runs.last(1)[0].started}"
        store.runs.start("delete")
        store.settings.set("a", 1)
        assert store.identity() == identity_of(path) == identity
    assert identity_of(tmp_path / "none") == ""
