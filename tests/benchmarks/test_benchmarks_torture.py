import faiss
import pytest
from index_fakes import FakeEncoder
from operations import CORPUS
from torture_table import put_into, table
from torture_tests import FILES, ROOT, run_tests
from usual_pair import UsualPair

NAMES = {
    "kills": ["walk 0"],
    "usual": ["walk 0"],
    "faults": ["add"],
    "training": [],
    "damage": ["log"],
    "files": [],
}
NAMES["tests"] = ["growth"]
ABOUT = {"date": "2026-01-02T03:04", "cpu": "CPU", "cores": 2, "load_average": 7.6, "python": "3.11", "packages": {}}
FAULT = {"changes": 90, "points": 30, "crashes": 41, "failing_writes": 42, "lost": ["x"], "seconds": 7.4}
DAMAGE = {"tried": 9, "found": 4, "harmless": 3, "earlier": 2, "hidden": 0, "wrong": 0, "crashed": 0}
TESTS = {"tests": 3, "examples": 1200, "files": 40, "measured": {"grown_mib": "0.1, 0.2"}, "lost": []}
PARTS = {
    "kills: walk 0": {"killed": 50, "lost": []},
    "usual: walk 0": {"killed": 50, "after_kill": 9, "left": 8, "lost": []},
    "faults: add": FAULT,
    "damage: log": DAMAGE,
    "tests: growth": TESTS | {"seconds": 61.7},
}


def test_the_table_says_what_was_found_and_takes_the_place_between_the_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- torture: begin -->\nold\n<!-- torture: end -->\nafter\n")
    put_into(page, table(PARTS, NAMES, ABOUT))
    lines = page.read_text().splitlines()
    assert (lines[0], lines[-1], "old" in lines) == ("before", "after", False)
    assert "| add | 90 | 30 | 41 | 42 | 1 | 7 |" in lines
    assert "| log | 9 | 4 | 3 | 2 | 0 | 0 | 0 |" in lines
    assert lines[-4] == "| growth | 3 | 1,200 | 40 | 0 | 62 | grown mib 0.1, 0.2 |"
    assert lines[-9:-7] == [
        "| an index | 50 | 0 | 0 |",
        "| SQLite beside a FAISS file, the usual way | 50 | 9 | 8 |",
    ]
    put_into(page, "new")
    assert page.read_text().splitlines() == [
        "before", "<!-- torture: begin -->", "", "new", "", "<!-- torture: end -->", "after",
    ]  # fmt: skip


def test_tests_are_run_and_counted(tmp_path):
    (tmp_path / "test_made.py").write_text("""
import pytest
from hypothesis import given, settings, strategies as st

@given(st.integers())
@settings(max_examples=7, deadline=None)
def test_draws(number):
    pass

@pytest.mark.parametrize("size", [2, 3])
def test_counts(size, record_property):
    record_property("files", size)
    record_property("examples", 10 * size)
    record_property("grown_mib", size / 2)

def test_fails():
    raise ValueError

@pytest.mark.skip("no such thing here")
def test_is_skipped():
    pass
""")
    found = run_tests(tmp_path / "test_made.py", tmp_path, "default")
    assert {key: found[key] for key in ("tests", "examples", "files")} == {"tests": 4, "examples": 57, "files": 5}
    assert found["measured"] == {"grown_mib": "1.0, 1.5"}
    assert [one.rpartition("::")[2] for one in found["lost"]] == ["test_fails"]


def test_a_run_that_ends_without_a_report_is_a_loss(tmp_path):
    assert run_tests(tmp_path / "test_nothing.py", tmp_path, "default")["lost"] == [
        "test_nothing.py: pytest ended with 4"
    ]


def test_the_files_of_tests_are_there():
    assert [one for one in FILES.values() if not (ROOT / "tests" / one).is_file()] == []


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
