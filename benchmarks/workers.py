"""Workers under fire, and what they cost.

    python benchmarks/workers.py CORPUS.jsonl --output benchmarks/results/workers.json

First reviews are indexed by workers while their processes are killed at random: a worker, Ray's driver, its node
process, its control store, the writer. A run that has ended is started again, and one that is done is followed by
another, on Ray and on processes in turns, until so many kills have fallen. What is stored then is compared with an
undisturbed run, and what was read twice with what was in flight when something was killed.

Then the same reviews are indexed in one process with two threads, by two processes, and on a Ray with two actors, in
turns. Rates are from the first finished piece on, so that starting is told apart.
"""

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from retriever.core.errors import RetrieverError
from retriever.core.protocols import Encoder, WrappedEncoder
from retriever.core.types import JSON, Document, Encoded
from retriever.index.encoding import load_described
from retriever.index.indexing import IndexingOptions
from retriever.index.workers.embedder import Workers
from retriever.index.workers.pool import IN_FLIGHT
from retriever.workspace import Index

SELF = Path(__file__).resolve()
WORKERS = 2
PIECE, BATCH = 25, 200
"""Texts of a piece and of a batch where something is killed, so that kills find many of both."""

LOG = "RETRIEVER_BENCHMARK_READ"
"""Environment variable with the file in which workers note what they read."""

WAYS: dict[str, dict[str, Any]] = {
    "one process": {},
    "processes": {"count": WORKERS},
    "ray": {"count": WORKERS, "pool": "ray", "address": "local"},
}
WORKER = "worker"
KINDS = {
    "ray::Worker": WORKER,
    "workers.processes:serve": WORKER,
    "workers.ray_pool:drive": "Ray's driver",
    "raylet/raylet": "Ray's node process",
    "gcs_server": "Ray's control store",
}
"""The processes to kill, by what their command line holds; the writer besides."""


class Noted(WrappedEncoder):
    """Notes every text in a file before it is read."""

    def encode_views(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        words: int = 0,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        """Return what the encoder makes of the texts."""
        with Path(os.environ[LOG]).open("a") as file:
            file.write("".join(f"{hashlib.sha256(text.encode()).hexdigest()}\n" for text in texts))
        return super().encode_views(texts, instructions, words=words, on_tokens=on_tokens)


def load(description: Mapping[str, JSON], *, device: str = "auto") -> Encoder:
    """Give a worker the encoder of a description; it notes what it reads."""
    return Noted(load_described(description, device=device))


def named_encoder(name: str) -> Encoder:
    """Load an encoder by its name."""
    from retriever import load_encoder

    return load_encoder(name, device="cpu")


def reviews(options: argparse.Namespace) -> list[Document]:
    """Return the first reviews with a text of their own, without metadata."""
    from common import read_texts

    texts = read_texts(options.corpus, options.rows)
    return [Document(f"d{row:06}", text) for row, text in enumerate(texts)]


def index_with_small_pieces(options: argparse.Namespace) -> None:
    """Index the reviews: a run that can be killed."""
    workers = Workers(**WAYS[options.how], device="cpu", load="workers:load", piece=PIECE)
    with Index(options.index, encoder=named_encoder(options.encoder)) as index:
        index.add(reviews(options), options=IndexingOptions(batch=BATCH, workers=workers))


def timed(options: argparse.Namespace) -> dict[str, Any]:
    """Index the reviews once with the usual pieces, and return the times."""
    encoder, rows = named_encoder(options.encoder), reviews(options)
    ticks: list[tuple[float, int]] = []
    with tempfile.TemporaryDirectory() as folder, Index(Path(folder), encoder=encoder) as index:
        began = time.perf_counter()
        index.add(
            rows,
            options=IndexingOptions(workers=Workers(**WAYS[options.how], device="cpu")),
            progress=lambda report: ticks.append((time.perf_counter(), report.tokens)),
        )
        whole = time.perf_counter() - began
    steps = [(at, tokens) for (_, before), (at, tokens) in pairwise([(began, 0), *ticks]) if tokens > before]
    (first, some), (last, every) = steps[0], steps[-1]
    rate = (every - some) / (last - first) if last > first else None
    return {
        "seconds": round(whole, 2),
        "first_piece": round(first - began, 2),
        "tokens_a_second": rate and round(rate, 1),
    }


def stored(folder: Path) -> dict[str, tuple[Any, Any]]:
    """Return the vector, as an array, and the words of every text that an index has."""
    with Index(folder) as index:
        contents = index._opened.store.documents.live_contents()
        texts = index._opened.store.documents.texts(contents)
        (view,) = index._opened.store.views.all()
        held = index._opened.store.vectors.get(view.view_id, contents)
        rows = zip(held.content_ids.tolist(), held.embeddings, held.words, strict=True)
        return {texts[content]: (row.copy(), words) for content, row, words in rows}


def below(process: int) -> dict[int, str]:
    """Return the processes below one that are worth killing, by their number, with what kind each is."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    processes: dict[int, str] = {}
    parents = {process}
    while parents:
        here = {int(row[0]): row[2] for row in rows if len(row) == 3 and int(row[1]) in parents}
        processes.update(here)
        parents = set(here)
    kinds = {
        pid: [kind for part, kind in KINDS.items() if part in shown.split(" --")[0]] for pid, shown in processes.items()
    }
    return {pid: kind[0] for pid, kind in kinds.items() if kind}


def kill_something(writer: int, chance: random.Random) -> str:
    """Kill a worker, or else one of all other kinds that there are, at random; return its kind."""
    victims = {writer: "writer", **below(writer)}
    others = sorted(set(victims.values()) - {WORKER})
    kind = WORKER if WORKER in victims.values() and chance.random() < 0.5 else chance.choice(others)
    pid = chance.choice([victim for victim, each in victims.items() if each == kind])
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return kind
    return ""


def read_so_far(log: Path) -> list[str]:
    """Return the hashes of the texts that workers have begun to read."""
    return log.read_text().splitlines() if log.exists() else []


def under_fire(
    way: str, folder: Path, options: argparse.Namespace, chance: random.Random, kills: int
) -> dict[str, Any]:
    """Index in a new folder with about so many kills on the way, and return what happened."""
    log, index = folder / "read", folder / "index"
    folder.mkdir()
    points = sorted(chance.uniform(0, 0.9 * options.rows) for _ in range(kills))
    killed: Counter[str] = Counter()
    codes: Counter[int] = Counter()
    began = time.monotonic()
    while True:
        process = started("--how", way, "--index", str(index), log=log)
        while points and process.poll() is None:
            if len(read_so_far(log)) < points[0]:
                time.sleep(0.05)
                continue
            time.sleep(chance.uniform(0, options.wait))
            if process.poll() is None and (kind := kill_something(process.pid, chance)):
                killed[kind] += 1
                points.pop(0)
        codes[process.wait()] += 1
        if not process.returncode:
            break
        if codes.total() > 3 * kills + 3:
            raise SystemExit("The run does not come to its end.")
    read = Counter(read_so_far(log))
    return {
        "way": way,
        "killed": dict(killed),
        "starts": codes.total(),
        "seconds": round(time.monotonic() - began, 1),
        "read_again": read.total() - len(read),
        "in_flight_at_most": sum(
            times * PIECE * (1 if kind == WORKER else IN_FLIGHT * WORKERS) for kind, times in killed.items()
        ),
        "spool_left": (index / "spool").exists(),
    }


def started(*more: str, log: Path) -> "subprocess.Popen[bytes]":
    """Start this script on the same reviews, as the run that ``more`` tells."""
    environment = {**os.environ, LOG: str(log), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.Popen([sys.executable, str(SELF), *sys.argv[1:], *more], env=environment, stdout=sys.stderr)


def compared(found: Mapping[str, tuple[Any, Any]], expected: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    """Tell what is lost, and which vectors are not those of the undisturbed run, to the last bit and in truth."""
    both = found.keys() & expected.keys()
    unequal = [text for text in both if not np.array_equal(found[text][0], expected[text][0])]
    apart = [float(np.abs(found[text][0] - expected[text][0]).max()) for text in unequal]
    return {
        "texts": len(found),
        "lost": len(expected.keys() - found.keys()),
        "not_the_same_bits": len(unequal),
        "largest_difference": max(apart, default=0.0),
        "other_words": sum(found[text][1] != expected[text][1] for text in both),
    }


def kills(options: argparse.Namespace) -> dict[str, Any]:
    """Kill so many processes, over as many runs as it takes, and compare each with an undisturbed one."""
    chance = random.Random(options.seed)
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        began = time.monotonic()
        if started("--how", "processes", "--index", str(folder / "alone"), log=folder / "read").wait():
            raise SystemExit("The undisturbed run failed.")
        alone, expected = time.monotonic() - began, stored(folder / "alone")
        total = 0
        while total < options.kills:
            ways = ("ray", "processes")
            most = min(options.kills_a_run, options.kills - total)
            run = under_fire(ways[len(runs) % 2], folder / str(len(runs)), options, chance, most)
            run |= compared(stored(folder / str(len(runs)) / "index"), expected)
            runs.append(run)
            total += sum(run["killed"].values())
    killed: Counter[str] = Counter()
    for run in runs:
        killed.update(run["killed"])
    return {
        "kills": total,
        "killed": dict(killed),
        "undisturbed_seconds": round(alone, 1),
        "seconds": round(sum(run["seconds"] for run in runs), 1),
        **{name: sum(run[name] for run in runs) for name in SUMMED},
        "largest_difference": max(run["largest_difference"] for run in runs),
        "runs": runs,
    }


SUMMED = ("starts", "lost", "read_again", "in_flight_at_most", "not_the_same_bits", "other_words")


def overhead(options: argparse.Namespace) -> dict[str, Any]:
    """Measure all ways in turns."""
    from common import median_ratio

    runs: dict[str, list[dict[str, Any]]] = {how: [] for how in WAYS}
    environment = {**os.environ, "OMP_NUM_THREADS": str(WORKERS)}  # workers are told their own
    for turn in range(options.rounds):
        for how in WAYS if turn % 2 == 0 else reversed(WAYS):
            command = [sys.executable, str(SELF), *sys.argv[1:], "--how", how]
            ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
            runs[how].append(json.loads(ran.stdout.splitlines()[-1]))
    report: dict[str, Any] = {"runs": runs}
    for name in ("seconds", "tokens_a_second"):
        values = {how: [run[name] for run in each] for how, each in runs.items()}
        if all(value for each in values.values() for value in each):
            over = (lambda a, b: (a, b)) if name == "seconds" else (lambda a, b: (b, a))
            report[f"{name}_ray_over_processes"] = median_ratio(*over(values["ray"], values["processes"]))
            report[f"{name}_ray_over_one_process"] = median_ratio(*over(values["ray"], values["one process"]))
            report[f"{name}_processes_over_one_process"] = median_ratio(
                *over(values["processes"], values["one process"])
            )
    return report


def main() -> None:
    """Parse the options, measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--kills", type=int, default=50, help="0 for none of it")
    parser.add_argument("--kills-a-run", type=int, default=10)
    parser.add_argument("--wait", type=float, default=0.6, help="most seconds between a drawn place and its kill")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3, help="of the ways in turns; 0 for none of it")
    parser.add_argument("--how", choices=WAYS, help=argparse.SUPPRESS)  # for a run in a process of its own
    parser.add_argument("--index", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.index:
        try:
            index_with_small_pieces(options)
        except RetrieverError as error:  # its workers are gone: another start goes on
            raise SystemExit(f"The run has ended: {error.message}") from None
    elif options.how:
        print(json.dumps(timed(options)))
    else:
        from common import write

        settings = argparse.Namespace(
            **{key: value for key, value in vars(options).items() if key not in ("how", "index")}
        )
        report = {
            "encoder": {"name": options.encoder, "fingerprint": named_encoder(options.encoder).fingerprint},
            "kills": kills(options) if options.kills else None,
            "overhead": overhead(options) if options.rounds else None,
        }
        write("workers", settings, report)


if __name__ == "__main__":
    main()
