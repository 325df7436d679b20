"""Workers under fire, and what they cost.

python benchmarks/workers.py kills --ray local --kills 50 --rows 3000 --output benchmarks/results/workers_kills.json
python benchmarks/workers.py overhead CORPUS.jsonl --rows 300 --output benchmarks/results/workers_overhead.json

``kills`` indexes rows with an encoder that sleeps, kills a process of the run at random (an actor or worker, Ray's
driver, its node process, its control store, the writer), starts the run again where it has ended, and compares what is
stored with an undisturbed run. ``overhead`` indexes reviews with a real model in one process, in two, and on a Ray
with two actors, in turns; rates are from the first finished piece on, so that starting is told apart.
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
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from retriever.core.encoder import Encoder, EncoderSpec
from retriever.core.types import JSON, Document, Encoded
from retriever.index.indexing import IndexingOptions
from retriever.index.workers.choice import Workers
from retriever.workspace import Index

SELF = Path(__file__).resolve()
DIM = 64
PIECE, SHARD = 25, 200
VIEW = "What broke?"
VICTIMS = {"ray::Actor": "actor", "raylet": "node process", "gcs_server": "control store"}


class Slow(Encoder):
    """Sleeps for every text, and notes which it has read in a file; a vector is drawn from its text's hash.

    Args:
        path: of its settings, which is its name: ``seconds`` a text and ``log``.
    """

    def __init__(self, path: str) -> None:
        settings = json.loads(Path(path).read_text())
        self._seconds, self._log = settings["seconds"], Path(settings["log"])
        self.spec: EncoderSpec = EncoderSpec("slow".ljust(64, "0"), DIM, name=path, pooling="hash")

    def encode_views(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        words: int = 0,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        """Return random vectors of length 1, always the same for a text and an instruction."""
        if words:
            time.sleep(self._seconds * len(texts))
            with self._log.open("a") as file:
                file.write("".join(f"{text}\n" for text in texts))
            if on_tokens is not None:
                on_tokens(len(texts))
        return [Encoded(_drawn(texts, one), [[one[:4] or "base"][:words] for _ in texts]) for one in instructions]


def _drawn(texts: Sequence[str], instruction: str) -> Any:  # noqa: ANN401 - (n, DIM) float32
    seeds = [hashlib.sha256(f"{instruction}\0{text}".encode()).digest()[:8] for text in texts]
    rows = np.array([np.random.default_rng(int.from_bytes(seed)).normal(size=DIM) for seed in seeds], np.float32)
    return rows.reshape(-1, DIM) / np.linalg.norm(rows.reshape(-1, DIM), axis=1, keepdims=True)


def load(description: Mapping[str, JSON], *, device: str = "auto") -> Encoder:
    """Give the encoder of a description to a worker."""
    return Slow(str(description["name"]))


def index_rows(folder: Path, settings: Path, rows: int, workers: int, ray: str | None) -> None:
    """Index made-up reviews."""
    documents = (Document(f"d{row}", f"review number {row}") for row in range(rows))
    chosen = Workers(workers or None, ray, load="workers:load", piece=PIECE)
    with Index(folder, encoder=Slow(str(settings))) as index:
        index.add(documents, instructions=[VIEW], options=IndexingOptions(shard=SHARD, workers=chosen))


def stored(folder: Path, settings: Path) -> dict[str, Any]:
    """Return all texts of an index with their vectors and words in every view."""
    with Index(folder, encoder=Slow(str(settings))) as index:
        contents = index.store.documents.live_contents()
        texts = index.store.documents.texts(contents)
        found: dict[str, Any] = {text: {} for text in texts.values()}
        for view in index.store.views.all():
            held = index.store.vectors.get(view.view_id, contents)
            for content, row, words in zip(held.content_ids.tolist(), held.embeddings, held.words, strict=True):
                found[texts[content]][view.key.instruction] = row.tobytes(), words
        return found


def below(process: int) -> dict[int, str]:
    """Return the processes below one by their number, with what kind each is."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    found, parents = {}, {process}
    while parents:
        here = {int(row[0]): row[2] for row in rows if int(row[1]) in parents}
        found.update(here)
        parents = set(here)
    kinds = {**VICTIMS, "workers.ray_driver": "Ray's driver", "process_worker": "worker"}
    named = {
        pid: [kind for part, kind in kinds.items() if part in shown.split(" --")[0]] for pid, shown in found.items()
    }
    return {pid: kind[0] for pid, kind in named.items() if kind}


def kills(options: argparse.Namespace) -> dict[str, Any]:
    """Index with so many kills on the way, and compare with an undisturbed run."""
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        settings = folder / "slow.json"
        settings.write_text(json.dumps({"seconds": options.seconds, "log": str(folder / "log")}))
        (folder / "quick.json").write_text(json.dumps({"seconds": 0, "log": os.devnull}))
        run = [sys.executable, str(SELF), "run", str(folder / "index"), str(settings), str(options.rows)]
        run += [str(options.workers), options.ray or ""]
        killed: Counter[str] = Counter()
        starts, began = 0, time.monotonic()
        while True:
            process = subprocess.Popen(run)
            starts += 1
            while sum(killed.values()) < options.kills and process.poll() is None:
                time.sleep(chance.uniform(0.2, options.every))
                victims = {process.pid: "writer", **below(process.pid)}
                kind = chance.choice(sorted(set(victims.values())))
                pid = chance.choice([one for one, each in victims.items() if each == kind])
                if process.poll() is None:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        killed[kind] += 1
            if process.wait() == 0:
                break
            if starts > 3 * options.kills + 3:
                raise SystemExit("The run does not come to its end.")
        seconds = time.monotonic() - began
        read = Counter((folder / "log").read_text().splitlines())
        index_rows(folder / "alone", folder / "quick.json", options.rows, 0, None)
        expected = stored(folder / "alone", folder / "quick.json")
        got = stored(folder / "index", settings)
        return {
            "killed": dict(killed),
            "kills": sum(killed.values()),
            "starts": starts,
            "seconds": round(seconds, 1),
            "texts": len(got),
            "lost": len(expected.keys() - got.keys()),
            "different": sum(got.get(text) != one for text, one in expected.items()),
            "read_again": sum(read.values()) - len(read),
            "in_flight_at_most": sum(killed.values()) * options.workers * PIECE,
            "ledger_left": (folder / "index" / "ledger").exists(),
        }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Index reviews once, one way, and return its times."""
    from retriever import load_encoder
    from retriever.index.files import read_documents

    encoder = load_encoder(options.encoder, device="cpu")
    told: list[tuple[float, int]] = []
    count, ray = {"one process": (None, None), "processes": (2, None), "ray": (2, "local")}[options.how]
    workers = Workers(count, ray, device="cpu", piece=PIECE)
    rows = list(islice(read_documents([str(options.corpus)]), options.rows))
    with tempfile.TemporaryDirectory() as folder, Index(Path(folder), encoder=encoder) as index:
        began = time.perf_counter()
        index.add(
            [replace(one, metadata={}) for one in rows],
            instructions=[VIEW],
            options=IndexingOptions(workers=workers),
            progress=lambda report: told.append((time.perf_counter(), report.tokens)),
        )
        whole = time.perf_counter() - began
    last = max(tokens for _, tokens in told)
    first = next(one for one in told if one[1])
    end = next(at for at, tokens in told if tokens == last)
    rate = (last - first[1]) / (end - first[0])
    return {"seconds": round(whole, 2), "start": round(first[0] - began, 2), "tokens_a_second": round(rate, 1)}


def overhead(options: argparse.Namespace) -> dict[str, Any]:
    """Measure all ways in turns."""
    from common import median_ratio

    ways = ("one process", "processes", "ray")
    runs: dict[str, list[dict[str, Any]]] = {how: [] for how in ways}
    for turn in range(options.rounds):
        for how in ways if turn % 2 == 0 else reversed(ways):
            ran = subprocess.run([sys.executable, str(SELF), *sys.argv[1:], "--how", how], stdout=-1, check=True)
            runs[how].append(json.loads(ran.stdout.splitlines()[-1]))
    rates = {how: [one["tokens_a_second"] for one in each] for how, each in runs.items()}
    return {
        "runs": runs,
        "ray_seconds_a_token_over_processes": median_ratio(rates["processes"], rates["ray"]),
        "ray_seconds_a_token_over_one_process": median_ratio(rates["one process"], rates["ray"]),
        "processes_seconds_a_token_over_one_process": median_ratio(rates["one process"], rates["processes"]),
    }


def main() -> None:
    """Parse the options, measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ways = parser.add_subparsers(dest="what", required=True)
    one = ways.add_parser("kills")
    one.add_argument("--rows", type=int, default=3000)
    one.add_argument("--kills", type=int, default=50)
    one.add_argument("--workers", type=int, default=2)
    one.add_argument("--ray", help="local; without it, processes")
    one.add_argument("--seconds", type=float, default=0.05, help="that a text takes")
    one.add_argument("--every", type=float, default=6.0, help="most seconds between two kills")
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--folder", type=Path)
    two = ways.add_parser("overhead")
    two.add_argument("corpus", type=Path)
    two.add_argument("--rows", type=int, default=300)
    two.add_argument("--rounds", type=int, default=3)
    two.add_argument("--encoder", default="default")
    two.add_argument("--how", help="for one run in this process")
    for each in (one, two):
        each.add_argument("--output", type=Path)
    run = ways.add_parser("run", help="one run that can be killed")
    for name in ("index", "settings", "rows", "workers", "ray"):
        run.add_argument(name)
    options = parser.parse_args()
    if options.what == "run":
        asked = Path(options.index), Path(options.settings), int(options.rows), int(options.workers)
        index_rows(*asked, options.ray or None)
    elif options.what == "overhead" and options.how:
        print(json.dumps(measure(options)))
    else:
        from common import write

        write("workers", options, kills(options) if options.what == "kills" else overhead(options))


if __name__ == "__main__":
    main()
