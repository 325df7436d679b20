from dataclasses import replace

import pytest
from router_simulation import LEVELS, Setting, Simulation, fitted

ONE = Setting(
    shards=1, machines=1, cores=1, rounds=2, question=(5.0,) * len(LEVELS), message=1.0, wire=2.0, searches=50
)


def test_what_a_person_can_add_up():
    assert Simulation(ONE).run() == {"median_ms": 16.0, "p95_ms": 16.0, "p99_ms": 16.0, "partial": 0.0}
    # Four shards on machines of their own: the router sends one message after the other, and reads the answers when the
    # last is there.
    assert Simulation(replace(ONE, shards=4, machines=4)).run()["median_ms"] == 2 * (4 * 0.5 + 2 + 5 + 4 * 0.5)
    # On one core the four questions are answered one after the other.
    assert Simulation(replace(ONE, shards=4)).run()["median_ms"] == 2 * (0.5 + 2 + 4 * 5 + 4 * 0.5)


def test_a_slow_shard_is_waited_for_until_the_deadline():
    slow = replace(ONE, slow=1.0)
    assert Simulation(slow).run()["median_ms"] == 2 * (1 + 2 + 50)
    cut = Simulation(replace(slow, deadline=20.0, shards=2, machines=2)).run()
    assert (cut["median_ms"], cut["partial"]) == (20.0, 1.0)


def test_a_shard_that_is_gone_is_told_of():
    found = Simulation(replace(ONE, shards=8, machines=8, down=0.05, outage=500.0, searches=2000)).run()
    assert found["partial"] == pytest.approx(1 - 0.95**8, abs=0.15)


def test_searches_that_come_faster_than_they_are_answered_wait():
    calm = Simulation(replace(ONE, rate=10.0, searches=500)).run()
    busy = Simulation(replace(ONE, rate=95.0, searches=500)).run()
    assert calm["median_ms"] < 20 < busy["median_ms"]
    assert Simulation(replace(ONE, rate=95.0, searches=500)).run() == busy


def test_the_costs_are_fitted_to_what_was_measured():
    def measured(parts):
        return {
            "rounds": 2,
            "question_work_ms": [1.0] * len(LEVELS),
            "beside_the_slowest": {"median_ms": 2 * (0.5 + 0.25 * parts)},
            "router_work": {"median_ms": 2 * (3 + 0.25 * parts)},
        }

    settings = fitted({str(parts): {"vectors and words": measured(parts)} for parts in (1, 2, 8)}, 2)
    assert settings["8"].message == pytest.approx(0.25)
    assert settings["8"].wire == pytest.approx(0.5)
    assert settings["8"].shards == 8
