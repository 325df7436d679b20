"""Operations, and repairs, that end at any moment: by a crash, a loss of power, a disk that fails, a signal."""

import pytest
from index_fakes import FakeEncoder, gives
from interruptions import crash_everywhere, crashed, fail_everywhere, judge, record
from operations import INDEX, OPERATIONS
from repair_faults import damaged, fail_repair, judge_repair, record_repair
from sigkill import walk

from retriever.index.upkeep.verify import verify

pytestmark = pytest.mark.durability


@pytest.fixture(scope="module", params=OPERATIONS)
def recording(request, tmp_path_factory):
    return record(OPERATIONS[request.param], tmp_path_factory.mktemp(request.param))


def test_a_crash_at_any_change_loses_nothing(recording, tmp_path):
    found = crash_everywhere(recording, tmp_path, every=40)
    assert found.lost == []
    assert found.injected > 3


def test_what_succeeded_survives_a_loss_of_power(recording, tmp_path):
    *_, (_, tree) = crashed(recording, len(recording.changes), seeds=0)
    judge(recording, tree, tmp_path / "after", only_final=True)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_disk_that_fails_at_any_change_is_told_and_nothing_is_lost(name, tmp_path):
    found = fail_everywhere(record(OPERATIONS[name], tmp_path), tmp_path, every=60)
    assert found.lost == []
    assert found.injected > 3


KILLS = 20  # `make torture` makes 200


def test_nothing_is_lost_by_runs_that_are_killed_at_random_times(tmp_path):
    found = walk(tmp_path / "walk", KILLS)
    assert found.lost == []
    assert sum(found.killed.values()) == KILLS
    assert len(found.killed) > 3


def test_what_is_repaired_here_is_damaged(tmp_path):
    damaged(tmp_path)
    assert len(verify(tmp_path / INDEX, deep=True, load=gives(FakeEncoder)).findings) == 3


def test_a_repair_that_was_interrupted_is_finished_by_the_next(tmp_path):
    found = crash_everywhere(record_repair(tmp_path), tmp_path, every=20, judge=judge_repair)
    assert found.lost == []
    assert found.injected > 3


def test_a_repair_on_a_disk_that_fails_is_finished_by_the_next(tmp_path):
    found = fail_everywhere(record_repair(tmp_path), tmp_path, every=20, fail=fail_repair)
    assert found.lost == []
    assert found.injected > 3
