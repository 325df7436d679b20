import pytest
from interruptions import fail_everywhere, record
from operations import OPERATIONS

pytestmark = pytest.mark.durability
EVERY = 60


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_disk_that_fails_at_any_change_is_told_and_nothing_is_lost(name, tmp_path):
    found = fail_everywhere(record(OPERATIONS[name], tmp_path), tmp_path, every=EVERY)
    assert found.lost == []
    assert found.injected > 3
