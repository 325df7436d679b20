"""Indexes that somebody else made or changed, with every checksum right."""

import os
import stat

import pytest
from index_fakes import MOOD, FakeEncoder, documents, found, gives

from retriever.core.errors import IndexDamagedError
from retriever.index.upkeep.archive import export_index, import_index
from retriever.index.upkeep.repair import repair
from retriever.index.upkeep.verify import verify
from retriever.store.database import DATABASE, Store
from retriever.workspace import Index

TEXTS = ("toy sad slow", "lamp love hot", "mug hate loud")
OUTSIDE = ["../../secret", "/etc/passwd", "..", "", ".", "views/1/../../../secret", "views/\0", "views"]


@pytest.fixture
def whole(index):
    index.add(documents(*TEXTS), instructions=[MOOD])
    index.close()
    return index.path


def change(path, sql, *parameters):
    """Change the database and seal it anew, as whoever hands out an index can."""
    with Store.open(path / DATABASE, check=False) as store, store.transaction():
        assert store._db.write(sql, parameters)


@pytest.mark.parametrize("place", OUTSIDE)
def test_a_file_outside_the_index_is_never_opened(whole, tmp_path, monkeypatch, place):
    (tmp_path.parent / "secret").write_bytes(b"x")
    change(whole, "UPDATE generations SET handle = json_set(handle, '$.path', ?) WHERE view_id = 1", place)
    opened = []
    monkeypatch.setattr("retriever.vectors.faiss.backend.read_faiss", lambda path, **_: opened.append(path))
    with Index(whole, encoder=FakeEncoder()) as index, pytest.raises(IndexDamagedError, match="file"):
        index.search("toy", mode="dense")
    assert opened == []
    assert not verify(whole).whole


@pytest.mark.parametrize("kind", ["link", "linked folder", "pipe", "folder"])
def test_only_regular_files_inside_the_index_are_opened(whole, tmp_path, kind):
    (file,) = whole.glob("views/1/*.faiss")
    kept = tmp_path / "kept"
    if kind == "linked folder":
        file.parent.rename(kept)
        file.parent.symlink_to(kept, target_is_directory=True)
    else:
        file.rename(kept)
        {"link": lambda: file.symlink_to(kept), "pipe": lambda: os.mkfifo(file), "folder": file.mkdir}[kind]()
    with (
        Index(whole, encoder=FakeEncoder()) as index,
        pytest.raises(IndexDamagedError, match=r"is a link|no regular file"),
    ):
        index.search("toy", mode="dense")


def test_everything_an_index_is_made_of_is_for_its_owner_alone(tmp_path):
    before = os.umask(0)
    try:
        with Index(tmp_path / "indexes" / "one", encoder=FakeEncoder()) as index:
            index.add(documents(*TEXTS))
            index.search("toy", instruction=MOOD)
            index.upkeep.repair()
            modes(index.path)
        export_index(tmp_path / "indexes" / "one", tmp_path / "one.tar")
        import_index(tmp_path / "one.tar", tmp_path / "indexes" / "two")
        with Index(tmp_path / "indexes" / "two", encoder=FakeEncoder()) as index:
            assert found(index.search("toy", mode="dense", k=1)) == [("a", 1.0)]
            modes(index.path)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "one.tar").stat().st_mode) == 0o600


def modes(folder):
    """Require 0700 of folders and 0600 of files, the index's own folder included."""
    for path in [folder, *folder.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


OPERATIONS = {
    "index": lambda path: Index(path, encoder=FakeEncoder()).add(documents(*TEXTS, "pan glad", "rug mad")),
    "drop": lambda path: Index(path, encoder=FakeEncoder()).upkeep.drop_views([MOOD]),
    "evict": lambda path: setattr(Index(path, encoder=FakeEncoder()).upkeep, "lazy_limit", 0),
    "repair": lambda path: repair(path, load=gives(FakeEncoder)),
}


@pytest.mark.parametrize("linked", ["views", "views/1"])
@pytest.mark.parametrize("operation", ["index", "repair"])
def test_no_writer_follows_a_link_to_a_folder(whole, tmp_path, linked, operation):
    refused(whole, tmp_path, linked, operation)


@pytest.mark.parametrize("operation", ["drop", "evict"])
def test_nothing_is_removed_behind_a_link(whole, tmp_path, operation):
    change(whole, "UPDATE views SET lazy = 1 WHERE view_id = 2")
    refused(whole, tmp_path, "views/2", operation)
    with Index(whole, encoder=FakeEncoder()) as index:
        assert [view.vectors for view in index.views()] == [3, 3]


def refused(path, tmp_path, linked, operation):
    """Require that an operation refuses a linked folder, and runs once the link is removed."""
    elsewhere = tmp_path / "elsewhere"
    (path / linked).rename(elsewhere)
    (elsewhere / "precious.faiss").write_bytes(b"x")
    (elsewhere / "7").mkdir()
    (elsewhere / "7" / "precious.tmp").write_bytes(b"x")
    (path / linked).symlink_to(elsewhere, target_is_directory=True)
    before = sorted(elsewhere.rglob("*"))
    with pytest.raises(IndexDamagedError, match=r"is a link.*Remove the link"):
        OPERATIONS[operation](path)
    assert sorted(elsewhere.rglob("*")) == before
    (path / linked).unlink()
    if operation == "repair":
        repair(path, load=gives(FakeEncoder))
        assert verify(path, deep=True, load=gives(FakeEncoder)).whole
    assert sorted(elsewhere.rglob("*")) == before


@pytest.mark.parametrize("operation", [*OPERATIONS, "search"])
def test_a_database_that_is_a_link_is_left_alone(whole, tmp_path, operation):
    database = whole / DATABASE
    database.rename(tmp_path / "other.sqlite3")
    database.symlink_to(tmp_path / "other.sqlite3")
    before = (tmp_path / "other.sqlite3").read_bytes()
    with pytest.raises(IndexDamagedError, match=r"is a link.*Put the file itself"):
        OPERATIONS.get(operation, lambda path: Index(path, encoder=FakeEncoder()).search("toy"))(whole)
    assert not verify(whole).whole
    assert (tmp_path / "other.sqlite3").read_bytes() == before


def test_no_database_is_made_behind_a_link(tmp_path):
    path = tmp_path / "index"
    path.mkdir()
    (path / DATABASE).symlink_to(tmp_path / "other.sqlite3")
    with pytest.raises(IndexDamagedError, match="is a link"):
        Index(path, encoder=FakeEncoder()).add(documents(*TEXTS))
    assert not (tmp_path / "other.sqlite3").exists()
