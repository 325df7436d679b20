"""The space that an index takes does not grow with use: memory over searches and compactions, disk over deletes."""

import gc
import resource
from pathlib import Path

import pytest
from fuzzing import MIB, NIGHTLY, limited
from index_fakes import ALL_WORDS, FAULT, MOOD, FakeEncoder

from retriever.core.types import Document
from retriever.workspace import Index

pytestmark = pytest.mark.durability
SEARCHES, COMPACTIONS, CORPUS = (10_000, 50, 20_000) if NIGHTLY else (1_000, 10, 2_000)
MOST_GROWTH = 8 * MIB  # of memory, between the first fifth and the end
MOST_LEFT = 1.1  # times the size of an index that never held what was deleted


class ForgetfulEncoder(FakeEncoder):
    """A `FakeEncoder` that keeps no record of its calls, which would grow."""

    def _note(self, *call):
        pass


def documents(first, count):
    """Return documents whose texts differ."""
    texts = {
        row: f"{ALL_WORDS[row % 48]} {ALL_WORDS[row // 48 % 48]} number {row}" for row in range(first, first + count)
    }
    return [Document(f"d{row}", text, {"row": row, "stars": row % 5}) for row, text in texts.items()]


def resident():
    """Return the bytes of this process in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def growth(work, times):
    """Do something many times; return by how much the memory grew after the first fifth."""
    for turn in range(times // 5):
        work(turn)
    before = resident()
    for turn in range(times // 5, times):
        work(turn)
    return resident() - before


def search_often(path, times):
    with Index(path, encoder=ForgetfulEncoder()) as index:
        index.add(documents(0, 500), instructions=[MOOD])
        modes = ("dense", "lexical", "hybrid", "auto")

        def search(turn):
            where = f"stars <= {turn % 5}" if turn % 3 == 0 else None
            instruction = ("", MOOD, FAULT)[turn % 7 % 3]
            assert index.search(
                f"{ALL_WORDS[turn % 48]} number", instruction=instruction, mode=modes[turn % 4], where=where
            ).hits
            if turn % 50 == 0:  # another state for the open views to take in
                index.add(documents(500 + turn % 3, 1), instructions=[MOOD])

        return growth(search, times)


def compact_often(path, times):
    with Index(path, encoder=ForgetfulEncoder()) as index:

        def compact(turn):
            index.add(documents(200 * (turn % 3), 400), instructions=[MOOD])
            index.delete([f"d{row}" for row in range(200 * (turn % 3), 200 * (turn % 3) + 100)])
            index.upkeep.repair()
            assert index.search("kettle", mode="dense").hits

        return growth(compact, times)


@pytest.mark.parametrize(("work", "times"), [(search_often, SEARCHES), (compact_often, COMPACTIONS)])
def test_memory_does_not_grow(tmp_path, work, times, record_property):
    grown = limited(work, tmp_path / "index", times, memory=2048 * MIB, seconds=3600)
    record_property("grown_mib", round(grown / MIB, 2))
    assert grown < MOST_GROWTH


def taken(path):
    """Return the bytes of all files of an index."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def test_the_disk_has_back_what_was_deleted(tmp_path, record_property):
    with Index(tmp_path / "small", encoder=ForgetfulEncoder()) as index:
        index.add(documents(0, CORPUS), instructions=[MOOD])
        index.upkeep.repair()
    with Index(tmp_path / "large", encoder=ForgetfulEncoder()) as index:
        index.add(documents(0, 4 * CORPUS), instructions=[MOOD])
        index.upkeep.repair()
        full = taken(index.path)
        index.delete([f"d{row}" for row in range(CORPUS, 4 * CORPUS)])
        index.upkeep.repair()
    small, left = taken(tmp_path / "small"), taken(tmp_path / "large")
    record_property("full, left, small", (full, left, small))
    assert full > 3 * small
    assert left <= MOST_LEFT * small
