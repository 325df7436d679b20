"""Shards in real Ray actors: the same answers, and what is left when one is killed."""

import os
import signal
import time
from importlib.util import find_spec

import pytest
from index_fakes import FAULT, MOOD
from shard_fakes import OPTIONS, make

from retriever.core.requests import SearchRequest
from retriever.shards.index import ShardedIndex
from retriever.shards.manifest import Manifest

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'retriever[ray]'")
DEADLINE = 1.0


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    from retriever.shards.ray_actors import RayShards

    folder = tmp_path_factory.mktemp("ray")
    both = make(folder, parts=3)
    given = both.sharded._given
    both.sharded.close()
    transport = RayShards(Manifest.read(folder / "shards").folders(folder / "shards"))
    both.sharded = ShardedIndex(
        folder / "shards",
        encoder=given,
        search_options=OPTIONS,
        transport=transport,
        deadline=60.0,  # a busy machine
    )
    both.sharded.search("toy")  # all actors are there
    yield both
    both.sharded.close()
    both.single.close()


def test_a_second_ray_of_one_process_takes_the_same_token(tmp_path):
    from retriever.shards.ray_actors import RayShards

    made = make(tmp_path, n=30, parts=2)
    made.sharded.close()
    folder = tmp_path / "shards"
    for _ in range(2):
        transport = RayShards(Manifest.read(folder).folders(folder))
        with ShardedIndex(folder, encoder=made.sharded._given, transport=transport) as sharded:
            assert sharded.search("toy").hits
    made.single.close()


def test_actors_answer_as_one_index(both):
    for _ in range(2):
        both.change()
        for _ in range(15):
            both.compare(both.request())


def test_a_killed_actor_is_told_of_at_once_and_asked_again_when_it_is_back(both):
    import ray

    request = SearchRequest(["toy love"], MOOD, 20)
    both.compare(request)
    actor = both.sharded.fleet.transport.actors[1]
    both.sharded.fleet.deadline = DEADLINE
    before = ray.get(actor.pid.remote())
    os.kill(before, signal.SIGKILL)
    started = time.monotonic()
    partial = both.sharded.search_many(request)[0]
    assert time.monotonic() - started < 10 * DEADLINE  # a busy machine
    assert partial.seen < 1
    while partial.seen < 1 and time.monotonic() - started < 120:
        assert 0.5 < partial.seen < 0.8  # two of three
        time.sleep(0.02)
        partial = both.sharded.search_many(request)[0]
    assert ray.get(actor.pid.remote()) != before
    both.sharded.fleet.deadline = 60.0
    both.compare(request)
    both.change()
    both.compare(SearchRequest(["sad mug"], FAULT, 20))
