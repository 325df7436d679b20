import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from index_fakes import ALL_WORDS, KEYWORDS, MOOD, PRODUCT, FakeEncoder, documents, found

from retriever.core.errors import IndexLockedError
from retriever.core.requests import SearchRequest
from retriever.core.types import Document
from retriever.store.lock import LOCK_NAME
from retriever.vectors.faiss.backend import FaissBackend
from retriever.workspace import Index

HOLD = """
import sys
from pathlib import Path
from retriever.store.lock import WriterLock
with WriterLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other_writer(index, path):
    """Another process that is writing; the index holds two documents."""
    index.add(documents("toy sad", "lamp love"))
    command = [sys.executable, "-c", HOLD, str(path / LOCK_NAME)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_writer_is_told_who_writes(index, encoder, other_writer):
    encoder.forget()
    for write in (lambda: index.add(documents("mug")), lambda: index.delete(["a"]), index.upkeep.repair):
        with pytest.raises(IndexLockedError, match=f"Process {other_writer.pid} on .* is writing to"):
            write()
    assert encoder.calls == []
    assert [run["command"] for run in index.status().runs] == ["index"]
    assert len(index._opened.store.documents) == 2
    other_writer.kill()
    other_writer.wait()
    assert index.add(documents("mug")).updated == 1


def test_readers_do_not_mind_a_writer(index, other_writer):
    assert found(index.search("toy", mode="dense")) == [("a", 1), ("b", 1 - 2 / 8)]
    assert [one.path for one in index.search_progressively(SearchRequest("love", instruction=MOOD))] == [
        "base",
        "complete",
    ]
    assert [one.path for one in index.search_progressively(SearchRequest("love", instruction=MOOD))] == ["complete"]


def test_a_reader_sees_what_another_writes(path):
    with Index(path, encoder=FakeEncoder()) as writer:
        writer.add(documents("toy"))
        with Index(path, encoder=FakeEncoder()) as reader:
            assert found(reader.search("toy", mode="dense")) == [("a", 1)]
            writer.add(documents("lamp", "toy"))
            assert found(reader.search("toy", mode="dense")) == [("b", 1), ("a", 1 - 2 / 8)]
            writer.delete(["b"])
            assert found(reader.search("toy", mode="dense")) == [("a", 1 - 2 / 8)]
            writer.upkeep.repair()
            assert found(reader.search("toy", mode="dense")) == [("a", 1 - 2 / 8)]
            writer.add([], instructions=[MOOD])
            assert reader.search("toy", instruction=MOOD, mode="dense").path == "complete"


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


def test_readers_see_whole_generations_while_a_writer_replaces_them(path):
    corpus = [Document(f"{row:02}", f"{word} {row}") for row, word in enumerate(KEYWORDS[PRODUCT])]
    extra = [Document(f"x{row}", f"toy {row}") for row in range(4)]
    with Index(path, encoder=FakeEncoder()) as writer:
        writer.add(corpus + extra)
        everything = found(writer.search("toy", k=50, mode="dense"))
        stop = threading.Event()
        seen = []

        def keep_reading():
            with Index(path, encoder=FakeEncoder()) as reader:
                while True:
                    seen.append(found(reader.search("toy", k=50, mode="dense")))
                    if stop.is_set():
                        return

        with ThreadPoolExecutor(2) as pool:
            readers = [pool.submit(keep_reading) for _ in range(2)]
            try:
                for _ in range(6):
                    writer.upkeep.repair()
                    writer.delete([one.id for one in extra])
                    writer.upkeep.repair()
                    writer.add(extra)
            finally:
                stop.set()
            for reader in readers:
                reader.result()
    assert seen
    for answer in seen:
        assert answer == [pair for pair in everything if pair in answer]
        assert len(answer) >= len(corpus) - len(extra)


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
