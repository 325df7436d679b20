import pytest
from interruptions import crash_everywhere, crashed, judge, record
from operations import OPERATIONS

pytestmark = pytest.mark.durability
EVERY = 40


@pytest.fixture(scope="module", params=OPERATIONS)
def recording(request, tmp_path_factory):
    return record(OPERATIONS[request.param], tmp_path_factory.mktemp(request.param))


def test_a_crash_at_any_change_loses_nothing(recording, tmp_path):
    found = crash_everywhere(recording, tmp_path, every=EVERY)
    assert found.lost == []
    assert found.injected > 3


def test_what_succeeded_survives_a_loss_of_power(recording, tmp_path):
    *_, (_, tree) = crashed(recording, len(recording.changes), seeds=0)
    judge(recording, tree, tmp_path / "after", only_final=True)
