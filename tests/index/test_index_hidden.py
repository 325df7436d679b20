import sqlite3
from contextlib import closing

import pytest
from index_fakes import MOOD, FakeEncoder, documents, found, gives

from retriever.core.errors import IndexDamagedError
from retriever.index.upkeep.verify import verify
from retriever.store.database import DATABASE
from retriever.workspace import Index

TEXTS = ("kettle love", "kettle hate", "toy love", "toy hate", "lamp love")


@pytest.fixture
def whole(tmp_path):
    """Give a closed index of two views, one with a FAISS file and one that a search filled."""
    path = tmp_path / "index"
    with Index(path, encoder=FakeEncoder()) as index:
        index.add(documents(*TEXTS))
        index.search("love", instruction=MOOD, k=9)
    return path


def damage(path, name, change):
    """Change the root page of one of SQLite's indexes, given as its bytes."""
    with closing(sqlite3.connect(path / DATABASE)) as database:
        root = database.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0]
        size = database.execute("PRAGMA page_size").fetchone()[0]
    data = bytearray((path / DATABASE).read_bytes())
    page = data[(root - 1) * size : root * size]
    change(page)
    data[(root - 1) * size : root * size] = page
    (path / DATABASE).write_bytes(data)


def fewer(page):
    """Take the last entry off a page."""
    page[4] -= 1


def asked(path, mode, instruction=""):
    with Index(path, encoder=FakeEncoder()) as index:
        return found(index.search("love", instruction=instruction, mode=mode, k=9))


@pytest.mark.parametrize(
    ("name", "modes"),
    [
        ("documents_by_content", ["dense", "lexical", "hybrid"]),
        ("vectors_by_view", ["dense", "hybrid"]),
        ("sqlite_autoindex_vectors_1", ["dense", "hybrid"]),
    ],
)
def test_an_index_that_hides_rows_is_refused_and_not_answered_from(whole, name, modes):
    damage(whole, name, fewer)
    for mode in modes:
        with pytest.raises(IndexDamagedError, match="an index of SQLite's hides"):
            for instruction in ("", MOOD):
                asked(whole, mode, instruction)
    assert not verify(whole, deep=True, load=gives(FakeEncoder)).whole


@pytest.mark.parametrize("name", ["views_by_key", "generations_active"])
def test_views_and_files_are_found_without_their_indexes(whole, name):
    before = [asked(whole, "dense", instruction) for instruction in ("", MOOD)]
    damage(whole, name, fewer)
    assert [asked(whole, "dense", instruction) for instruction in ("", MOOD)] == before
    assert not verify(whole, deep=True, load=gives(FakeEncoder)).whole


def test_what_a_compaction_removed_is_not_taken_for_damage(whole):
    with Index(whole, encoder=FakeEncoder()) as index:
        before = asked(whole, "dense")
        index.delete([one.id for one in documents(*TEXTS)[:1]])
        index._opened.store.documents.collect_garbage()  # as a compaction that was killed before its first file
    assert len(asked(whole, "dense")) == len(before) - 1
