import shutil
import sqlite3
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
from index_fakes import PRODUCT, FakeEncoder

from retriever.core.errors import IndexNotFoundError, UsageError
from retriever.serving.pools import EncoderPool, IndexFolder, IndexPool, index_folder

THREADS = 8


@pytest.fixture
def pool(indexes):
    return IndexPool(IndexFolder(indexes), EncoderPool(lambda description: FakeEncoder()), most=2)


def ids(index, query="kettle"):
    return [hit.document.id for hit in index.search(query, instruction=PRODUCT, mode="dense").hits]


def test_all_threads_get_one_index_and_search_it_at_once(make, pool):
    make(texts=["a kettle", "a toy", "a lamp"])
    together = threading.Barrier(THREADS)

    def search(query):
        together.wait(120)
        index = pool.get("reviews")
        return index, ids(index, query)

    with ThreadPoolExecutor(THREADS) as threads:
        found = list(threads.map(search, ["kettle", "toy"] * (THREADS // 2)))
    assert len({id(index) for index, _ in found}) == 1
    assert [ranked[0] for _, ranked in found] == ["0", "1"] * (THREADS // 2)


def test_a_database_in_the_place_of_another_is_opened_anew(make, pool):
    folder, other = make(texts=["a kettle"]), make("other", texts=["a toy", "a kettle"])
    before = pool.get("reviews")
    assert pool.get("reviews") is before
    assert ids(before) == ["0"]
    shutil.copyfile(other / "corpus.sqlite3", folder / "corpus.sqlite3")  # keeps the number of the file
    shutil.rmtree(folder / "views")
    shutil.copytree(other / "views", folder / "views")
    assert pool.get("reviews") is not before
    assert ids(pool.get("reviews")) == ["1", "0"]


def test_an_index_that_is_gone_is_not_found_and_not_held(make, pool):
    folder = make()
    gone = weakref.ref(pool.get("reviews"))
    shutil.rmtree(folder)
    with pytest.raises(IndexNotFoundError, match="no index 'reviews' here any more"):
        pool.get("reviews")
    assert gone() is None
    make()
    assert ids(pool.get("reviews")) == ["0", "1"]


def test_the_one_used_longest_ago_is_closed_once_nobody_holds_it(make, pool):
    for name in "abc":
        make(name)
    held = pool.get("a")
    connection = held._opened.store.documents._db.raw
    pool.get("b"), pool.get("c")
    assert ids(held) == ["0", "1"]  # beyond the number that stays open, and still in use
    assert pool.get("a") is held  # nobody opens it a second time
    pool.get("b"), pool.get("c")
    assert connection.execute("SELECT COUNT(*) FROM documents").fetchone() == (2,)
    kept = weakref.ref(pool.get("c"))
    del held
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        connection.execute("SELECT 1")
    assert kept() is not None


def test_a_folder_has_its_indexes(indexes, make):
    assert index_folder(indexes).names() == []
    make("tickets")
    make("reviews")
    (indexes / "no index").mkdir()
    assert index_folder(indexes) == IndexFolder(indexes)
    assert index_folder(indexes).names() == ["reviews", "tickets"]
    assert index_folder(indexes).find("tickets") == indexes / "tickets"


def test_drafts_are_no_indexes(indexes, make):
    make("reviews").rename(indexes / ".reviews-x2b")
    make("tickets").rename(indexes / ".export-7f")
    assert IndexFolder(indexes).names() == []
    with pytest.raises(IndexNotFoundError):
        IndexFolder(indexes).find(".export-7f")
    assert IndexFolder(indexes, ".export-7f").names() == [".export-7f"]


def test_one_index_is_served_alone(indexes, make):
    make("tickets")
    folder = index_folder(make("reviews"))
    assert folder.names() == ["reviews"]
    assert folder.new("reviews") == indexes / "reviews"
    with pytest.raises(UsageError, match="Only the index 'reviews' is served"):
        folder.new("others")
    with pytest.raises(IndexNotFoundError):
        folder.find("tickets")


@pytest.mark.parametrize("name", ["", " ", "..", "../x", "a/b", "a\\b", ".hidden", "x" * 65, "a.", "a\0b"])
def test_names_that_lead_elsewhere_are_refused(tmp_path, name):
    with pytest.raises(UsageError, match="cannot be the name of an index"):
        IndexFolder(tmp_path).new(name)


def test_what_is_not_there_is_not_found(tmp_path):
    with pytest.raises(IndexNotFoundError, match="There is no index"):
        IndexFolder(tmp_path).find("../x")
