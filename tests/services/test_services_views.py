import sqlite3
import time

import pytest
from services_fakes import FAULT, MOOD, PRODUCT, FakeEncoder, documents, found

from retriever.core.errors import IndexLockedError, InputError, UsageError
from retriever.core.types import Document
from retriever.services import searching, view_upkeep
from retriever.services.workspace import DATABASE, LOCK, Index
from retriever.store.connection import BUSY_SECONDS
from retriever.store.lock import WriterLock

TEXTS = ("toy sad slow", "lamp love hot", "mug hate loud")


@pytest.fixture
def full(index):
    index.add(documents(*TEXTS), instructions=[MOOD])
    return index


def files(index):
    return sorted(one.relative_to(index.path).parts[1] for one in index.path.glob("views/*/*.faiss"))


def test_a_view_says_what_it_holds(full):
    base, mood = full.views()
    assert (base.instruction, mood.instruction) == ("", MOOD)
    assert (mood.coverage, mood.vectors, mood.bytes, mood.lazy) == (1.0, 3, 3 * 16 * 2, False)
    assert mood.encoder == "fake00000000"  # without a name, by the fingerprint


def test_what_searches_fill_is_lazy_until_somebody_asks_for_the_whole(full):
    full.search("slow", instruction=FAULT)
    assert [view.lazy for view in full.views()] == [False, False, True]
    assert full.search("slow", instruction=FAULT).path == "complete"
    assert full.views()[2].lazy
    full.complete([FAULT])
    assert not full.views()[2].lazy
    full.search("slow", instruction=FAULT)
    assert not full.views()[2].lazy


def test_the_last_use_is_noted_once_an_hour(full, monkeypatch):
    def used():
        return [view.last_used for view in full.views()]

    with sqlite3.connect(full.path / DATABASE) as raw:
        raw.execute("UPDATE views SET last_used = ''")
    full.search("slow", mode="dense")
    base, mood = used()
    assert (base > "2026", mood) == (True, "")
    full.search("slow", instruction=MOOD)
    assert used()[1] > "2026"
    with sqlite3.connect(full.path / DATABASE) as raw:
        raw.execute("UPDATE views SET last_used = ''")
    full.search("slow", instruction=MOOD)
    assert used() == ["", ""]
    monkeypatch.setattr("retriever.services.open_views.NOTED_EVERY", -1.0)
    full.search("slow", instruction=MOOD)
    assert used()[1] > "2026"


def test_a_note_of_use_waits_for_nobody(full):
    with sqlite3.connect(full.path / DATABASE, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        version = full.store.data_version()
        started = time.perf_counter()
        assert full.search("slow", mode="dense").hits
        assert time.perf_counter() - started < BUSY_SECONDS / 2
        other.execute("ROLLBACK")
    assert full.store.data_version() == version


def test_a_dropped_view_is_gone_with_its_vectors_and_files(full):
    full.search("slow", instruction=FAULT)
    assert files(full) == ["1", "2"]
    full.drop_views([f" {MOOD} ", FAULT])
    assert [view.instruction for view in full.views()] == [""]
    assert files(full) == ["1"]
    assert not (full.path / "views/2").exists()
    assert full.store.generations.obsolete() == []
    assert full.store._db.number("SELECT COUNT(*) FROM vectors") == 3
    assert full.status().runs[0]["command"] == "drop"


def test_a_dropped_view_can_be_had_again(full, encoder):
    before = found(full.search("love", instruction=MOOD, mode="dense"))
    full.drop_views([MOOD])
    encoder.forget()
    assert full.search("love", instruction=MOOD, mode="dense").path == "lazy"
    assert sorted(encoder.read) == sorted((text, MOOD) for text in TEXTS)
    assert found(full.search("love", instruction=MOOD, mode="dense")) == before
    assert full.views()[1].view == 3


def test_a_dropped_view_is_seen_to_be_gone_by_who_has_the_index_open(full, path):
    with Index(path, encoder=FakeEncoder()) as other:
        assert other.search("love", instruction=MOOD).path == "complete"
        full.drop_views([MOOD])
        assert other.search("love", instruction=MOOD).path == "lazy"


def test_files_that_a_killed_drop_left_go_with_the_next_upkeep(full, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(view_upkeep, "remove_other_generations", killed)
    with pytest.raises(KeyboardInterrupt):
        full.drop_views([MOOD])
    monkeypatch.undo()
    assert [view.instruction for view in full.views()] == [""]
    assert files(full) == ["1", "2"]
    assert full.search("love", mode="dense").hits
    full.compact()
    assert files(full) == ["1"]
    assert full.store.generations.obsolete() == []


def test_a_folder_that_is_not_a_views_stays(full):
    (full.path / "views/notes").mkdir()
    (full.path / "views/2/mine.txt").write_text("kept")
    full.drop_views([MOOD])
    assert (full.path / "views/notes").exists()
    assert [one.name for one in (full.path / "views/2").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    ("asked", "error", "says"),
    [
        ([""], UsageError, "The base view cannot be dropped"),
        ([MOOD, " "], UsageError, "The base view cannot be dropped"),
        ([MOOD, FAULT], InputError, "There is no view of 'What broke?'"),
        ([PRODUCT[:-1]], InputError, "There is no view"),
    ],
)
def test_what_cannot_be_dropped_drops_nothing(full, asked, error, says):
    with pytest.raises(error, match=says.replace("?", r"\?")):
        full.drop_views(asked)
    assert [view.instruction for view in full.views()] == ["", MOOD]
    assert full.status().runs[0]["command"] == "index"


def test_nothing_is_dropped_while_another_writes(full):
    with WriterLock(full.path / LOCK), pytest.raises(IndexLockedError):
        full.drop_views([MOOD])
    assert len(full.views()) == 2


def test_views_of_an_older_index_are_lazy_where_they_have_no_file(full, path, monkeypatch):
    monkeypatch.setattr(searching, "CANDIDATES", 1)
    full.add([Document("d", "toy sad slow hot")])
    full.search("slow", instruction=FAULT, k=1)
    full.close()
    with sqlite3.connect(path / DATABASE) as raw:
        raw.execute("ALTER TABLE views DROP COLUMN lazy")
        raw.execute("DELETE FROM _sqlite_migrations WHERE name = 'm005_lazy_views'")
    raw.close()
    assert [(view.instruction, view.lazy) for view in full.views()] == [("", False), (MOOD, False), (FAULT, True)]
