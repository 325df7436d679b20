import pytest
from interruptions import LostError, crashed, judge, points, record
from operations import OPERATIONS

pytestmark = pytest.mark.durability
EVERY = 40


@pytest.fixture(scope="module", params=OPERATIONS)
def recording(request, tmp_path_factory):
    from retriever.services import indexing

    before, indexing.SHARD = indexing.SHARD, 4
    yield record(OPERATIONS[request.param], tmp_path_factory.mktemp(request.param))
    indexing.SHARD = before


def test_a_crash_at_any_change_loses_nothing(recording, tmp_path):
    seen = set()
    lost = []
    for at in points(recording, EVERY):
        for how, tree in crashed(recording, at):
            if (key := hash(frozenset(tree.items()))) in seen:
                continue
            seen.add(key)
            try:
                judge(recording, tree, tmp_path / str(len(seen)))
            except LostError as error:
                lost.append((at, how, recording.changes[at - 1] if at else None, str(error)))
    assert lost == []
    assert len(seen) > 3


def test_what_succeeded_survives_a_loss_of_power(recording, tmp_path):
    *_, (_, tree) = crashed(recording, len(recording.changes), seeds=0)
    judge(recording, tree, tmp_path / "after", only_final=True)
