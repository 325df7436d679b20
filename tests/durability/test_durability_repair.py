import pytest
from index_fakes import FakeEncoder, gives
from interruptions import crash_everywhere, fail_everywhere
from operations import INDEX
from repair_faults import damaged, fail_repair, judge_repair, record_repair

from retriever.index.upkeep.verify import verify

pytestmark = pytest.mark.durability
EVERY = 20


@pytest.fixture
def recording(tmp_path):
    return record_repair(tmp_path)


def test_what_is_repaired_here_is_damaged(tmp_path):
    damaged(tmp_path)
    assert len(verify(tmp_path / INDEX, deep=True, load=gives(FakeEncoder)).findings) == 3


def test_a_repair_that_was_interrupted_is_finished_by_the_next(recording, tmp_path):
    found = crash_everywhere(recording, tmp_path, every=EVERY, judge=judge_repair)
    assert found.lost == []
    assert found.injected > 3


def test_a_repair_on_a_disk_that_fails_is_finished_by_the_next(recording, tmp_path):
    found = fail_everywhere(recording, tmp_path, every=EVERY, fail=fail_repair)
    assert found.lost == []
    assert found.injected > 3
