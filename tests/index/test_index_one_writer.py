import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from index_fakes import ALL_WORDS, FAULT, MOOD, FakeEncoder, documents, found

from retriever.core.errors import IndexLockedError
from retriever.core.requests import SearchRequest
from retriever.core.types import Document
from retriever.index.reembedding import forget, reembed, roll_back
from retriever.index.upkeep.archive import export_index
from retriever.index.upkeep.repair import repair
from retriever.store import connection, lock
from retriever.store.lock import LOCK_NAME, WriterLock
from retriever.vectors.faiss.backend import FaissBackend
from retriever.workspace import Index


@pytest.fixture
def written(index, path, monkeypatch):
    """An index of two documents while somebody else writes to it."""
    monkeypatch.setattr(lock, "_PATIENCE", 0.05)  # seconds
    index.add(documents("toy sad", "lamp love"), instructions=[MOOD])
    with WriterLock(path / LOCK_NAME):
        yield index


def test_a_second_writer_is_told_who_writes(written, encoder, path, tmp_path):
    encoder.forget()
    for write in (
        lambda: written.add(documents("mug")),
        lambda: written.delete(["a"]),
        written.upkeep.repair,
        lambda: written.upkeep.drop_views([MOOD]),
        lambda: repair(path),
        lambda: reembed(path, FakeEncoder("second")),
        lambda: roll_back(path),
        lambda: forget(path),
        lambda: export_index(path, tmp_path / "one.tar"),
    ):
        with pytest.raises(IndexLockedError, match=f"Process {os.getpid()} on .* is writing to"):
            write()
    assert encoder.calls == []
    assert [run["command"] for run in written.status().runs] == ["index"]
    assert (len(written._opened.store.documents), len(written.views())) == (2, 2)


def test_readers_do_not_mind_a_writer(written):
    assert found(written.search("toy", mode="dense")) == [("a", 1), ("b", 1 - 2 / 8)]
    for paths in (["base", "complete"], ["complete"]):
        assert [one.path for one in written.search_progressively(SearchRequest("leaks", instruction=FAULT))] == paths


def test_a_generation_is_opened_once_while_it_stands(index, monkeypatch):
    opened = []
    real = FaissBackend.open
    monkeypatch.setattr(FaissBackend, "open", lambda self, handle: opened.append(handle) or real(self, handle))
    index.add([Document(f"{row:02}", word) for row, word in enumerate(ALL_WORDS[:20])])
    for _ in range(3):
        index.search("toy", mode="dense")
    assert len(opened) == 1
    index.add([Document("new", "something")])  # a tail
    index.search("toy", mode="dense")
    index.search("toy", mode="lexical")
    assert len(opened) == 1
    index.upkeep.repair()
    index.search("toy", mode="dense")
    assert len(opened) == 2


def test_a_generation_replaced_while_it_is_looked_up_is_looked_up_again(path, monkeypatch):
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.05)  # the reader is in a state that the repair waits for
    opened = []
    real = FaissBackend.open
    with Index(path, encoder=FakeEncoder()) as writer, Index(path, encoder=FakeEncoder()) as reader:
        writer.add(documents("toy", "lamp"))

        def open_late(backend, handle):
            opened.append(handle["path"])
            if len(opened) < 3:
                writer.upkeep.repair()  # removes the file
            return real(backend, handle)

        monkeypatch.setattr(FaissBackend, "open", open_late)
        assert found(reader.search("toy", mode="dense")) == [("a", 1), ("b", 1 - 2 / 8)]
        assert len(set(opened)) == 3


def test_a_search_gives_k_hits_though_documents_vanish_meanwhile(path, monkeypatch):
    with Index(path, encoder=FakeEncoder()) as writer, Index(path, encoder=FakeEncoder()) as reader:
        writer.add(documents("toy", "toy too", "lamp", "lamp too"))
        real = reader._opened.store.documents.expand

        def expand_late(*args):
            writer.delete(["a", "b"])
            return real(*args)

        monkeypatch.setattr(reader._opened.store.documents, "expand", expand_late)
        hits = reader.search("toy", k=2, mode="dense").hits
        assert [hit.document.id for hit in hits] in (["a", "b"], ["c", "d"])


def test_one_index_serves_several_threads(index):
    index.add([Document(f"{row:02}", word) for row, word in enumerate(ALL_WORDS)], instructions=[MOOD])
    jobs = [(word, instruction) for word in ALL_WORDS[:16] for instruction in ("", MOOD)]

    def search(job):
        return found(index.search(job[0], instruction=job[1], k=5))

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(search, jobs))
    assert together == [search(job) for job in jobs]
