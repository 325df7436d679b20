import json

import pytest
from kinds_curve import drawn, read_grids


@pytest.fixture
def rows(tmp_path):
    """Five grids of four texts under three kinds, of which neighbours share one."""
    path = tmp_path / "asked.jsonl"
    lines = [
        {"text": f"text {grid} {text}", "question": "?", "answer": "yes", "group": f"kind {2 * grid + kind}"}
        for grid in range(5)
        for text in range(4)
        for kind in range(3)
    ]
    path.write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    return path


def kinds_of(grids):
    return {row["group"] for grid in grids for row in grid}


def test_rows_under_the_same_questions_are_a_grid(rows):
    grids = read_grids(rows)
    assert [len(grid) for grid in grids] == [12] * 5
    assert all(len({row["text"] for row in grid}) == 4 and len(kinds_of([grid])) == 3 for grid in grids)


def test_whole_grids_are_drawn_until_they_hold_so_many_kinds(rows):
    grids = read_grids(rows)
    few, more, all_of_them = (drawn(grids, kinds, 0) for kinds in (3, 7, 100))
    assert len(kinds_of(few)) == 3
    assert len(kinds_of(more)) >= 7 > len(kinds_of(more[:-1]))
    assert more[: len(few)] == few  # what fewer kinds learn from is a part of what more do
    assert len(all_of_them) == 5
    assert any(drawn(grids, 3, seed) != few for seed in range(1, 9))
