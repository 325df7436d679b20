"""A simulation of the router: how long searches take when shards are many, slow, or gone.

    python benchmarks/router_simulation.py MEASURED.json --output benchmarks/results/router_simulation.json

A search asks all shards in rounds, each round waiting for the last answer. A shard is a queue before its machine's
cores; the router is one thread, which spends a little on every message. What a question takes is drawn
from what was measured (`benchmarks/shards.py`), scaled to the shard's size; now and then it takes many times that, and
now and then a shard is gone for a while. A shard later than the deadline is left out: the answer is a partial one.

First it is asked for what was measured, on a machine like that one; then for machines of their own.
"""

import argparse
import heapq
import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from common import write

LEVELS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
"""Quantiles of the work of a question that are measured, and drawn between."""


@dataclass(frozen=True)
class Setting:
    """What is simulated; times in milliseconds.

    Attributes:
        shards: how many.
        machines: that the shards are spread over.
        cores: of each machine.
        rounds: of questions in a search.
        question: the work of one, without waiting for a core, quantiles at `LEVELS`.
        message: what the router spends on a question and its answer.
        wire: from router to shard and back.
        rate: searches a second; 0 for one after the other.
        slow: share of questions that take ten times as long.
        down: share of the time that a shard is gone.
        outage: how long it is gone then.
        deadline: when late shards are left out.
        searches: how many are simulated.
        seed: of the draws.
    """

    shards: int
    machines: int = 1
    cores: int = 2
    rounds: int = 4
    question: Sequence[float] = (1.0,) * len(LEVELS)
    message: float = 0.15
    wire: float = 0.5
    rate: float = 0.0
    slow: float = 0.0
    down: float = 0.0
    outage: float = 3000.0
    deadline: float = 1000.0
    searches: int = 2000
    seed: int = 0


class Clock:
    """Events in the order of their times."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def after(self, wait: float, event: Callable[[], None]) -> None:
        """Let something happen after a while."""
        self._number += 1
        heapq.heappush(self._events, (self.now + wait, self._number, event))

    def run(self) -> None:
        """Let everything happen."""
        while self._events:
            self.now, _, event = heapq.heappop(self._events)
            event()


class Cores:
    """Cores before which work waits, first come first served."""

    def __init__(self, clock: Clock, count: int) -> None:
        self._clock, self._free = clock, count
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()

    def work(self, time: float, done: Callable[[], None]) -> None:
        """Do some work when a core is free, then go on."""
        self._waiting.append((time, done))
        self._begin()

    def _begin(self) -> None:
        while self._free and self._waiting:
            time, done = self._waiting.popleft()
            self._free -= 1
            self._clock.after(time, lambda done=done: self._end(done))

    def _end(self, done: Callable[[], None]) -> None:
        self._free += 1
        done()
        self._begin()


@dataclass
class Search:
    """A search under way: when it began, its round, how many answered in it, whom it waits for and does without."""

    began: float
    round: int = 0
    came: int = 0
    waiting: set[int] = field(default_factory=set)
    without: set[int] = field(default_factory=set)


class Simulation:
    """Searches of one setting."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.clock = setting, Clock()
        self._rng = np.random.default_rng(setting.seed)
        self._router = Cores(self.clock, 1)
        self._machines = [Cores(self.clock, setting.cores) for _ in range(setting.machines)]
        self.milliseconds: list[float] = []
        self.partial = 0
        self._current: dict[int, tuple[float, float]] = {}
        self._outages = [self._drawn_outages() for _ in range(setting.shards)]

    def run(self) -> dict[str, float]:
        """Simulate, and return quantiles of the times and the share of partial answers."""
        setting = self.setting
        if setting.rate:
            at = 0.0
            for _ in range(setting.searches):
                at += float(self._rng.exponential(1000 / setting.rate))
                self.clock.after(at, lambda: self._ask(Search(self.clock.now)))
        else:
            self.clock.after(0, lambda: self._ask(Search(self.clock.now)))
        self.clock.run()
        times = np.array(self.milliseconds)
        quantiles = {name: round(float(np.quantile(times, q)), 2) for name, q in _QUANTILES.items()}
        return {**quantiles, "partial": round(self.partial / len(times), 5)}

    def _ask(self, search: Search) -> None:
        """Ask the shards of a round; who is known to be gone is not asked."""
        search.round += 1
        search.came = 0
        here, now = search.round, self.clock.now
        gone = {part for part in range(self.setting.shards) if self._is_gone(part, now)}
        search.without |= gone
        search.waiting = set(range(self.setting.shards)) - search.without
        for part in list(search.waiting):
            self._router.work(self.setting.message / 2, lambda part=part: self._sent(search, here, part))
        self.clock.after(self.setting.deadline, lambda: self._too_late(search, here))
        if not search.waiting:
            self._next(search)

    def _sent(self, search: Search, here: int, part: int) -> None:
        machine = self._machines[part % len(self._machines)]
        half = self.setting.wire / 2
        back = lambda: self.clock.after(half, lambda: self._came(search, here, part))  # noqa: E731
        self.clock.after(half, lambda: machine.work(self._drawn(), back))

    def _came(self, search: Search, here: int, part: int) -> None:
        if search.round == here and part in search.waiting:
            search.waiting.discard(part)
            search.came += 1
            if not search.waiting:
                self._read(search)

    def _too_late(self, search: Search, here: int) -> None:
        if search.round == here and search.waiting:
            search.without |= search.waiting
            search.waiting.clear()
            self._read(search)

    def _read(self, search: Search) -> None:
        """Read the answers that came: all at once, when no other is waited for, as the router does."""
        self._router.work(search.came * self.setting.message / 2, lambda: self._next(search))

    def _next(self, search: Search) -> None:
        if search.round < self.setting.rounds:
            self._ask(search)
            return
        search.round += 1
        self.milliseconds.append(self.clock.now - search.began)
        self.partial += bool(search.without)
        if not self.setting.rate and len(self.milliseconds) < self.setting.searches:
            self._ask(Search(self.clock.now))

    def _drawn(self) -> float:
        took = float(np.interp(self._rng.random(), LEVELS, self.setting.question))
        return took * (10 if self._rng.random() < self.setting.slow else 1)

    def _drawn_outages(self) -> Iterator[tuple[float, float]]:
        between = (
            self.setting.outage * (1 - self.setting.down) / self.setting.down if self.setting.down else float("inf")
        )
        at = 0.0
        while True:
            at += float(self._rng.exponential(between)) if between != float("inf") else float("inf")
            yield at, at + self.setting.outage
            at += self.setting.outage

    def _is_gone(self, part: int, now: float) -> bool:
        begin, end = self._current.get(part) or next(self._outages[part])
        while end <= now:
            begin, end = next(self._outages[part])
        self._current[part] = (begin, end)
        return begin <= now


_QUANTILES = {"median_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}


def fitted(measured: dict[str, Any], cores: int) -> dict[str, Setting]:
    """Return a setting for each number of shards that was measured.

    What a message and the way cost is taken from the two smallest numbers, so that the others are foretold: a message
    costs what a shard more adds to the router's work, and the way what is left beside the slowest shard.
    """
    kinds = {int(parts): one["vectors and words"] for parts, one in measured.items()}
    first, second = sorted(kinds)[:2]
    rounds = max(1, round(kinds[first]["rounds"]))
    worked = {parts: one["router_work"]["median_ms"] / rounds for parts, one in kinds.items()}
    message = max(0.01, (worked[second] - worked[first]) / (second - first))
    wire = max(0.0, kinds[first]["beside_the_slowest"]["median_ms"] / rounds - message * first)
    setting = Setting(shards=1, cores=cores, searches=400, rounds=rounds, wire=wire, message=message)
    return {
        str(parts): replace(setting, shards=parts, question=one["question_work_ms"]) for parts, one in kinds.items()
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the options, simulate, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", type=Path, help="What benchmarks/shards.py wrote.")
    parser.add_argument("--question-ms", type=float, default=25.0, help="A question to a shard of a million vectors.")
    parser.add_argument("--searches", type=int, default=2000)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(argv)
    document = json.loads(options.measured.read_text())
    measured = {parts: one for parts, one in document["shards"].items() if parts.isdecimal()}
    settings = fitted(measured, document["machine"]["cores"])
    checked = {
        parts: {
            "measured": measured[parts]["vectors and words"]["shards"],
            "simulated": Simulation(setting).run(),
        }
        for parts, setting in settings.items()
    }
    one = next(iter(settings.values()))
    base = np.array(one.question) / one.question[LEVELS.index(0.5)]
    far = replace(
        one,
        question=(options.question_ms / one.rounds * base).tolist(),
        cores=16,
        searches=options.searches,
    )
    curve = []
    for shards in (1, 2, 4, 8, 16, 32, 64, 128):
        for name, changed in {
            "all well": {},
            "1 in 1000 questions slow": {"slow": 0.001},
            "1 in 1000 slow, deadline 100 ms": {"slow": 0.001, "deadline": 100.0},
            "shards gone 0.1 % of the time": {"down": 0.001},
        }.items():
            setting = replace(far, shards=shards, machines=shards, rate=1.0, **changed)
            curve.append({"shards": shards, "case": name, **Simulation(setting).run()})
    loads = [
        {"rate": rate, **Simulation(replace(far, shards=10, machines=10, rate=float(rate))).run()}
        for rate in (1, 10, 20, 30, 40)
    ]
    write(
        "router_simulation",
        options,
        {
            "message_ms": one.message,
            "wire_ms": one.wire,
            "rounds": one.rounds,
            "checked": checked,
            "curve": curve,
            "loads": loads,
        },
    )


if __name__ == "__main__":
    main()
