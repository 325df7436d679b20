"""Shards beside one index: whether they answer alike, what they cost, and what a killed one does to the answers.

    python benchmarks/shards.py --output benchmarks/results/shards.json

It takes Ray (`retriever[ray]`); with --in-process the shards are threads of this process. Vectors are random and the
encoder looks them up, so that what is measured is the shards and the router alone. The same queries go to the index in
one folder, to one shard after the other, and to all of them; answers are compared.

Every question is timed where it is answered. What the router adds is the time of a search less, for each of its rounds
of questions, that of the shard that took longest; what it works is the processor time of its process. Random searches
between additions and deletions are compared first (`shards_equal.py`); at the end shards are killed, one by one,
under searches that never stop: every answer has to be right, or to say that it is a part and be right about that.
"""

import argparse
import os
import random
import signal
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from common import machine, write
from router_simulation import LEVELS
from shards_equal import COMPLETE, OPTIONS, equality, random_corpus

from retriever.core.encoder import Encoder, EncoderSpec
from retriever.core.errors import RetrieverError
from retriever.core.requests import SearchRequest
from retriever.core.results import Hit
from retriever.core.similarity import normalise
from retriever.core.types import Document, Embeddings, Encoded
from retriever.shards.index import ShardedIndex
from retriever.shards.manifest import Manifest
from retriever.shards.ray_actors import RayShards, ShardActor
from retriever.shards.splitting import shard_index
from retriever.shards.transport import InProcess
from retriever.workspace import Index

EQUAL_PARTS = 4
"""Shards whose answers are compared after additions and deletions."""

PAUSE = 0.02
"""Seconds between two searches while a shard comes back, which takes the same cores."""

WORDS = [f"word{number}" for number in range(2000)]


class LookedUp(Encoder):
    """Gives texts random vectors under every instruction: those whose last eight letters are the same have the same."""

    spec = EncoderSpec("", 1)

    def __init__(self, dim: int) -> None:
        self.spec = EncoderSpec(f"looked-up {dim}".ljust(64, "0"), dim)

    def encode_views(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        words: int = 0,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        """Return random vectors, the same for the same text."""
        seeds = [int(np.frombuffer(text.encode()[-8:].rjust(8), np.uint64)[0]) for text in texts]
        return [Encoded(self._rows(seeds, crc32(asked.encode())), [[] for _ in texts]) for asked in instructions]

    def _rows(self, seeds: Sequence[int], asked: int) -> Embeddings:
        drawn = [np.random.default_rng((seed, asked)) for seed in seeds]
        rows = [rng.standard_normal(self.spec.dim, dtype=np.float32) for rng in drawn]
        return normalise(np.array(rows, np.float32).reshape(-1, self.spec.dim))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count words."""
        return [len(text.split()) for text in texts]


@dataclass(frozen=True)
class Timed:
    """An answer, the seconds that the shard took for it, and those that its thread worked in them."""

    seconds: float
    worked: float
    answer: object


def asked_and_timed(answer: Callable[[], object]) -> Timed:
    """Return an answer with its times."""
    started, began = time.perf_counter(), time.thread_time()
    found = answer()
    return Timed(time.perf_counter() - started, time.thread_time() - began, found)


class TimedActor(ShardActor):
    """A shard that times itself."""

    def answer(self, question: str, version: int | None, arguments: Sequence[object]) -> object:
        """Answer, with the seconds it took."""
        return asked_and_timed(partial(super().answer, question, version, arguments))


class TimedShards:
    """Notes how long the slowest shard of each round took; around a transport whose shards time themselves."""

    def __init__(self, transport: RayShards | InProcess) -> None:
        self.inner = transport
        self.parts = transport.parts
        self.rounds: list[list[Timed]] = []

    def send(self, part: int, question: str, version: int | None, arguments: Sequence[object]) -> object:
        """Ask a shard."""
        return self.inner.send(part, question, version, arguments)

    def gather(self, sent: Mapping[int, object], seconds: float | None) -> dict[int, object]:
        """Return the answers, and note their times."""
        answers = self.inner.gather(sent, seconds)
        timed = {part: one for part, one in answers.items() if isinstance(one, Timed)}
        if timed:
            self.rounds.append([replace(one, answer=None) for one in timed.values()])
        return {part: one.answer if isinstance(one, Timed) else one for part, one in answers.items()}

    def close(self) -> None:
        """Let go of the shards."""
        self.inner.close()


class TimedThreads(InProcess):
    """Shards of this process that time themselves."""

    def _asked(self, part: int, question: str, version: int | None, arguments: Sequence[object]) -> object:
        return asked_and_timed(partial(super()._asked, part, question, version, arguments))


def corpus(count: int, seed: int = 0) -> Iterable[Document]:
    """Yield documents of twenty words, few of them frequent."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        chosen = np.minimum(rng.zipf(1.3, 20), len(WORDS)) - 1
        text = " ".join(WORDS[one] for one in chosen) + f" {number:08}"
        yield Document(f"d{number}", text, {"stars": int(rng.integers(1, 6))})


def requests(count: int, seed: int = 1) -> dict[str, list[SearchRequest]]:
    """Return queries by kind."""
    rng = np.random.default_rng(seed)
    queries = [" ".join(rng.choice(WORDS[5:], 3)) for _ in range(count)]
    return {
        "vectors": [SearchRequest([one], mode="dense") for one in queries],
        "vectors and words": [SearchRequest([one], mode="hybrid") for one in queries],
        "filtered": [SearchRequest([one], mode="dense", where="stars <= 2") for one in queries],
    }


def timed(index: Index | ShardedIndex, asked: Sequence[SearchRequest]) -> list[float]:
    """Return the milliseconds of each search."""
    found = []
    for one in asked:
        started = time.perf_counter()
        index.search_many(one)
        found.append(1000 * (time.perf_counter() - started))
    return found


def spread(milliseconds: Sequence[float]) -> dict[str, float]:
    """Return median and 95th percentile, in milliseconds."""
    return {
        "median_ms": round(statistics.median(milliseconds), 2),
        "p95_ms": round(float(np.quantile(milliseconds, 0.95)), 2),
    }


def measure(single: Index, sharded: ShardedIndex, transport: TimedShards, count: int) -> dict[str, Any]:
    """Return what searches take, in one folder and in shards, and compare their answers."""
    report: dict[str, Any] = {}
    for kind, asked in requests(count).items():
        timed(sharded, asked[:5])
        timed(single, asked[:5])
        beside, rounds, whole, slowest, router, every = [], [], [], [], [], []
        for one in asked:
            transport.rounds.clear()
            began = time.process_time()
            took = timed(sharded, [one])[0]
            router.append(1000 * (time.process_time() - began))
            longest = 1000 * sum(max(one.seconds for one in each) for each in transport.rounds)
            whole.append(took)
            slowest.append(longest)
            beside.append(took - longest)
            rounds.append(len(transport.rounds))
            every += [one for each in transport.rounds for one in each]
            expected, found = single.search_many(one)[0], sharded.search_many(one)[0]
            if [replace(hit) for hit in expected.hits] != [replace(hit) for hit in found.hits]:
                raise SystemExit(f"The shards answer {one} otherwise than the index.")
        report[kind] = {
            "one_index": spread(timed(single, asked)),
            "shards": spread(whole),
            "slowest_shard": spread(slowest),
            "beside_the_slowest": spread(beside),
            "rounds": statistics.mean(rounds),
            "router_work": spread(router),
            "question": spread([1000 * one.seconds for one in every]),
            "question_work_ms": np.quantile([1000 * one.worked for one in every], LEVELS).round(3).tolist(),
        }
    return report


class Return:
    """Watches for a killed actor's return: `at` is when it answers again."""

    def __init__(self, shards: RayShards, part: int, before: int) -> None:
        self.at = 0.0
        self._shards, self._part, self._before = shards, part, before
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        ray, actor = self._shards.ray, self._shards.actors[self._part]
        while not self.at:
            try:
                if ray.get(actor.pid.remote()) != self._before:
                    self.at = time.perf_counter()
            except ray.exceptions.RayError:
                time.sleep(0.005)


def killed(single: Index, sharded: ShardedIndex, transport: TimedShards, times: int) -> dict[str, Any]:
    """Kill actors one after the other while searching; return how soon answers are partial, and whole again."""
    shards = transport.inner
    if not isinstance(shards, RayShards):
        return {}
    request = replace(requests(1)["vectors"][0], k=10)
    every = single.search_many(replace(request, k=len(single.store.documents)))[0].hits
    whole = sharded.search_many(request)[0].hits
    first, back, after, wrong, answers = [], [], [], Counter[str](), Counter[str]()
    for number in range(times):
        part = number % transport.parts
        ids = set(documents_of(sharded, part))
        rest = [hit for hit in every if hit.document.id not in ids][: request.k]
        pid = shards.ray.get(shards.actors[part].pid.remote())
        os.kill(pid, signal.SIGKILL)
        started = time.perf_counter()
        watched, seen, took = Return(shards, part, pid), 0.0, 0.0
        while seen < 1 or not watched.at:
            try:
                answer = sharded.search_many(request)[0]
            except RetrieverError:  # no shard at all came in time
                answers["refused"] += 1
                continue
            seen, took = answer.seen, took or time.perf_counter() - started
            kind = "whole" if seen == 1 else "partial"
            answers[kind] += 1
            if seen == 1:
                wrong[kind] += answer.hits != whole
            elif abs(seen - 1 + len(ids) / len(every)) < 1e-6:
                wrong[kind] += told(answer.hits) != told(rest)
            else:  # others were late too: what it has is in the order of the whole
                left = iter(told(every))
                wrong[kind] += not all(one in left for one in told(answer.hits))
            time.sleep(PAUSE)
        first.append(1000 * took)
        back.append(1000 * (watched.at - started))
        after.append(max(0.0, 1000 * (time.perf_counter() - watched.at)))
    return {
        "kills": times,
        "answers": dict(answers),
        "wrong": dict(wrong),
        "first_answer": spread(first),
        "shard_is_back": spread(back),
        "whole_after_its_return": {**spread(after), "most_ms": round(max(after, default=0.0), 2)},
    }


def told(hits: Sequence[Hit]) -> list[tuple[Any, ...]]:
    """Return what a client sees of hits and what does not depend on how many there are."""
    return [(hit.document.id, hit.score, hit.percentile) for hit in hits]


def documents_of(sharded: ShardedIndex, part: int) -> list[str]:
    """Return the ids of the documents of a shard, from its folder."""
    with Index(sharded.fleet.manifest.folders(sharded.path)[part]) as shard:
        return list(shard.store.documents.ids())


def compared(folder: Path, encoder: Encoder, options: argparse.Namespace) -> dict[str, Any]:
    """Make an index of random documents and the same in shards, and compare their answers."""
    rows = random_corpus(random.Random(2), options.equal_documents)
    with Index(folder / "one", encoder=encoder, search_options=OPTIONS) as single:
        single.add(rows, instructions=[COMPLETE])
        shard_index(single.path, EQUAL_PARTS, folder / "many")
        folders = Manifest.read(folder / "many").folders(folder / "many")
        transport = InProcess(folders) if options.in_process else RayShards(folders)
        with ShardedIndex(folder / "many", encoder=encoder, search_options=OPTIONS, transport=transport) as sharded:
            found = equality(single, sharded, [row.id for row in rows], options.equal, seed=3)
    return {"parts": EQUAL_PARTS, **found}


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the options, measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=int, nargs="+", default=[1, 2, 8])
    parser.add_argument("--documents", type=int, default=16_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--equal", type=int, default=1000, help="random searches that are compared; 0 for none")
    parser.add_argument("--equal-documents", type=int, default=1500)
    parser.add_argument("--in-process", action="store_true")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(argv)
    begun, report = machine(), {}
    with tempfile.TemporaryDirectory() as folder:
        encoder = LookedUp(options.dim)
        equal = compared(Path(folder), encoder, options) if options.equal else None
        with Index(Path(folder) / "single", encoder=encoder) as single:
            single.add(corpus(options.documents))
            single.search("word1")
            for parts in options.parts:
                path = Path(folder) / f"shards-{parts}"
                shard_index(single.path, parts, path)
                folders = Manifest.read(path).folders(path)
                inner = TimedThreads(folders) if options.in_process else RayShards(folders, actor=TimedActor)
                transport = TimedShards(inner)
                with ShardedIndex(path, encoder=encoder, transport=transport, deadline=1.0) as sharded:
                    sharded.fleet.deadline = None
                    report[str(parts)] = measure(single, sharded, transport, options.queries)
                    sharded.fleet.deadline = 1.0
                    if parts == max(options.parts) and not options.in_process:
                        report["killed"] = killed(single, sharded, transport, options.kills)
    write("shards", options, {"begun": begun, "equality": equal, "shards": report})


if __name__ == "__main__":
    main()
