import faiss
import pytest
from operations import CORPUS
from services_fakes import FakeEncoder
from torture_table import put_into, table
from usual_pair import UsualPair

NAMES = {"kills": ["walk 0"], "usual": ["walk 0"], "faults": ["add"], "training": [], "damage": ["log"], "files": []}
ABOUT = {"date": "2026-01-02T03:04", "cpu": "CPU", "cores": 2, "load_average": 7.6, "python": "3.11", "packages": {}}
FAULT = {"changes": 90, "points": 30, "crashes": 41, "failing_writes": 42, "lost": ["x"], "seconds": 7.4}
DAMAGE = {"tried": 9, "found": 4, "harmless": 3, "earlier": 2, "hidden": 0, "wrong": 0, "crashed": 0}
PARTS = {
    "kills: walk 0": {"killed": 50, "lost": []},
    "usual: walk 0": {"killed": 50, "after_kill": 9, "left": 8, "lost": []},
    "faults: add": FAULT,
    "damage: log": DAMAGE,
}


def test_the_table_says_what_was_found_and_takes_the_place_between_the_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- torture: begin -->\nold\n<!-- torture: end -->\nafter\n")
    put_into(page, table(PARTS, NAMES, ABOUT))
    lines = page.read_text().splitlines()
    assert (lines[0], lines[-1], "old" in lines) == ("before", "after", False)
    assert "| add | 90 | 30 | 41 | 42 | 1 | 7 |" in lines
    assert "| log | 9 | 4 | 3 | 2 | 0 | 0 | 0 |" in lines
    assert lines[-5:-3] == [
        "| an index | 50 | 0 | 0 |",
        "| SQLite beside a FAISS file, the usual way | 50 | 9 | 8 |",
    ]
    put_into(page, "new")
    assert page.read_text().splitlines() == [
        "before", "<!-- torture: begin -->", "", "new", "", "<!-- torture: end -->", "after",
    ]  # fmt: skip


@pytest.fixture
def pair(tmp_path):
    made = UsualPair(tmp_path / "pair", FakeEncoder())
    made.add(CORPUS)
    return made


def test_the_usual_pair_is_whole_while_nothing_stops_it(pair):
    assert pair.problems() == []
    pair.delete(["d01", "d02"])
    pair.add(CORPUS[:3])
    assert pair.problems() == []


def test_the_usual_pair_does_not_notice_what_a_kill_before_its_last_write_took(pair, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(faiss, "write_index", lambda *args: None)
        pair.delete(["d01"])
        assert pair.problems() == ["1 vectors have no document"]
    pair.delete(["d01"])
    assert pair.problems() == ["1 vectors have no document"]
