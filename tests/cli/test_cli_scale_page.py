import json
from pathlib import Path

import pytest
import scale_tables
from scale_tables import TABLES, filling, rates, with_tables

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_tables_of_what_was_measured():
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    assert page == with_tables(page), "python docs/tools/scale_tables.py docs/scale.md"
    assert all(f"<!-- {name} -->" in page for name in TABLES)


def test_hours_are_reviews_by_the_rate():
    row = next(line for line in filling().splitlines() if line.startswith("| 100,000,000 | base view"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[2:5] == [f"{rates()['plain']:.0f}", f"{1e8 / rates()['plain'] / 3600:,.0f}", "9"]


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Put results in the place of those that were measured; at first there are none."""
    monkeypatch.setattr(scale_tables, "RESULTS", tmp_path)

    def put(name, document):
        (tmp_path / f"{name}.json").write_text(json.dumps(document))

    return put


def test_what_was_not_measured_is_said_to_be(results):
    page = "".join(f"<!-- {name} -->\nold\n<!-- end -->\n" for name in TABLES)
    told = with_tables(page).lower()
    assert "old\n" not in told
    assert told.count("not measured: `benchmarks/") == len(TABLES) - 2  # sizes are known, and rates are cells
    assert "| 10,000,000 | base view | not measured | not measured | not measured | complete |" in told
    results("index_overlap", {"options": {"rows": 3000}, "median_seconds": {"at once": 30}})
    assert "| 10,000,000 | base view | 100 | 28 | 2 | complete |" in filling()
    for name in ("shards", "workers", "quantisation", "handover", "router_simulation"):
        results(name, {"options": {}})  # what an older form of a benchmark wrote
    assert with_tables(page).lower().count("not measured: `benchmarks/") >= len(TABLES) - 3


def test_rows_of_what_was_killed_and_compared(results):
    run = {"killed": {"worker": 2, "writer": 1}, "starts": 2, "lost": 0, "not_the_same_bits": 0}
    runs = [{"way": way, "read_again": 30, "in_flight_at_most": 150, **run} for way in ("ray", "processes", "ray")]
    timed = {"seconds": 20.0, "first_piece": 2.0, "tokens_a_second": 5000.0}
    overhead = {"runs": {"ray": [timed, {**timed, "seconds": 30.0}, timed], "processes": [{**timed, **run}]}}
    results("workers", {"options": {"rows": 3000}, "kills": {"runs": runs}, "overhead": overhead})
    assert "| ray | 2 | 4 worker, 2 writer | 4 | 0 | 0 | 60 of 300 |" in scale_tables.killed_workers()
    assert "| ray | 20.0 | 2.0 | 5,000 |" in scale_tables.workers_cost()
    times = {"median_ms": 1.0, "p95_ms": 2.0}
    killed = {"kills": 4, "answers": {"partial": 9}, "wrong": {}, "first_answer": times, "shard_is_back": times}
    equality = {"searches": 1000, "by_path": {"lazy": 3}, "changed": {"added": 5}, "parts": 4, "documents": 10}
    results(
        "shards",
        {
            "shards": {"killed": {**killed, "whole_after_its_return": times}},
            "equality": {**equality, "different": 1},
        },
    )
    assert "| 4 | 9, 0 | 0, 0 | 0 | 1, 2 | 1, 2 | 1, 2 |" in scale_tables.killed_shards()
    assert "| 1,000 | 3 lazy | 4 | 10 | 5 added | 1 |" in scale_tables.equal_shards()
    view = {"queries": 100, "same_top_10": 99, "largest_difference_of_scores": 1e-7}
    results("handover", {"points": 500, "same_ids_and_metadata": True, "export_seconds": 2.0, "base": view})
    assert "| 500 | the same | base | 99 of 100 | 1.0e-07 |" in scale_tables.handed_over()
