import pytest
from disk import Fault
from interruptions import LostError, fail, points, record
from operations import OPERATIONS

pytestmark = pytest.mark.durability
EVERY = 60


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_disk_that_fails_at_any_change_is_told_and_nothing_is_lost(name, tmp_path):
    recording = record(OPERATIONS[name], tmp_path)
    lost, hit = [], 0
    for at in points(recording, EVERY):
        for fault in (Fault(at, "eio"), Fault(at, "enospc", lasting=True), Fault(at, "short")):
            try:
                hit += fail(recording, fault, tmp_path / f"{at}-{fault.how}") is not None
            except LostError as error:
                lost.append((fault, recording.changes[at : at + 1], str(error)))
    assert lost == []
    assert hit > 3
