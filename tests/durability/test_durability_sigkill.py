import pytest
from sigkill import walk

pytestmark = pytest.mark.durability
KILLS = 20  # `make torture` makes 200


def test_nothing_is_lost_by_runs_that_are_killed_at_random_times(tmp_path):
    found = walk(tmp_path / "walk", KILLS)
    assert found.lost == []
    assert sum(found.killed.values()) == KILLS
    assert len(found.killed) > 3
