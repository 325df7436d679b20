"""How much a server gives to 64 clients at once: throughput, waiting times, memory, and whether anything is lost.

The same requests, one short review each, are sent by one client after another and by many at once to `retriever serve`,
and to sentence-transformers behind uvicorn, which embeds request by request as most examples do. Both read the same
weights, all-MiniLM-L6-v2, our base encoder. Every vector that comes back is compared with the one that its text has
alone. The model that follows instructions is loaded too, by our server alone. Ratios are of one run on one machine.
How long one client waits for either server is measured in turns too, both running: other work on the machine then
weighs on both.

    python benchmarks/serve_load.py --output benchmarks/results/serve_load.json
    python benchmarks/serve_load.py --seconds 10 --clients 8        # a short form
    python benchmarks/serve_load.py --only turns
    python benchmarks/serve_load.py --table benchmarks/results/serve_load.json    # as docs/server.md has it
"""

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from common import read_texts, write

ROOT = Path(__file__).parents[1]
INSTRUCTION = "What kind of product is this review about?"
OURS, PEER = "retriever", "sentence-transformers"
TURN = 20  # requests to one server before the other has its turn
ALONE_SECONDS = 30.0  # one client after another needs no longer
SAME = 0.999  # cosine with the vector of the text alone: batches differ by rounding
PEER_SERVER = """
import sys
import uvicorn
from fastapi import FastAPI
from sentence_transformers import SentenceTransformer
model, app = SentenceTransformer(sys.argv[1], device="cpu"), FastAPI()
@app.post("/v1/embeddings")
def embed(body: dict):
    texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
    found = model.encode(texts, normalize_embeddings=True)
    return {"data": [{"index": n, "embedding": row.tolist()} for n, row in enumerate(found)]}
@app.get("/health")
def health():
    return {"status": "ok"}
uvicorn.run(app, port=int(sys.argv[2]), log_level="warning")
"""


@dataclass(frozen=True, slots=True)
class Load:
    """Figures of one server under one number of clients.

    Attributes:
        server: which.
        model: what it was asked for.
        clients: how many asked at once.
        seconds: for how long.
        answered: requests with the vector of their text.
        refused: requests answered with 429; they were sent again.
        lost: requests with another answer, none, or another text's vector.
        per_second: requests answered in a second.
        p50_ms: half of the answers took no longer.
        p99_ms: 99 of 100 took no longer.
        memory_mb: of the server's process before the load, and after it.
        memory_mb_per_minute: slope over the second half of the load.
    """

    server: str
    model: str
    clients: int
    seconds: float
    answered: int
    refused: int
    lost: int
    per_second: float
    p50_ms: float
    p99_ms: float
    memory_mb: tuple[float, float]
    memory_mb_per_minute: float


@dataclass(slots=True)
class Tally:
    """The counts of a load: seconds of each answer, what went otherwise, and the server's memory by time."""

    times: list[float] = field(default_factory=list)
    refused: int = 0
    lost: int = 0
    memory: list[tuple[float, float]] = field(default_factory=list)


def main() -> None:
    """Load the servers one after another and report; or print a report as a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=120, help="of each load of many clients")
    parser.add_argument("--corpus", type=Path, default=ROOT / "examples/reviews.jsonl")
    parser.add_argument("--texts", type=int, default=1000, help="most texts that are asked for, in turn")
    parser.add_argument("--requests", type=int, default=400, help="to each server, where they have turns")
    parser.add_argument("--only", default="", help="this alone: minilm or default, models of ours, or turns")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--table", type=Path, help="print this report as a table, and measure nothing")
    options = parser.parse_args()
    if options.table:
        print(table(json.loads(options.table.read_text(encoding="utf-8"))))
        return
    texts = read_texts(options.corpus, options.texts)
    loads = []
    for model, instruction in (("minilm", ""), ("default", INSTRUCTION)):
        if options.only in ("", model):
            with ours() as (url, process):
                body = {"model": model, **({"instruction": instruction} if instruction else {})}
                loads += measured(Target(OURS, model, url, process), texts, body, options)
    if not options.only:
        with peer() as (url, process):
            loads += measured(Target(PEER, "minilm", url, process), texts, {}, options)
    turns = in_turns(texts, options.requests) if options.only in ("", "turns") else None
    report = {"loads": [asdict(row) for row in loads], "turns": turns}
    write("serve_load", options, report)
    print(table(report))


def table(report: Mapping[str, Any]) -> str:
    """Return a report as Markdown: a row a load, with how many times the requests of one client alone it answers."""
    loads = report["loads"]
    alone = {(row["server"], row["model"]): row["per_second"] for row in loads if row["clients"] == 1}
    head = "| server | model | clients | requests/s | times one client | p50, p99 ms | refused, lost | MB then, now |"
    rows = [
        f"| {row['server']} | {row['model']} | {row['clients']} | {row['per_second']:.1f} | "
        f"{row['per_second'] / alone[row['server'], row['model']]:.2f} | {row['p50_ms']:.0f}, {row['p99_ms']:.0f} | "
        f"{row['refused']}, {row['lost']} | {row['memory_mb'][0]:.0f}, {row['memory_mb'][1]:.0f} "
        f"({row['memory_mb_per_minute']:+.1f} a minute) |"
        for row in loads
    ]
    lines = [head, "|---|---|---|---|---|---|---|---|", *rows] if rows else []
    if turns := report.get("turns"):
        ours, other = (turns["p50_ms"][server] for server in (OURS, PEER))
        said = f"In turns, one client waits {ours:.1f} ms and {other:.1f} ms (minilm, p50): {ours / other:.2f} times."
        lines += [said] if not lines else ["", said]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Target:
    """A server that is loaded: its name, the model it is asked for, its address and process."""

    server: str
    model: str
    url: str
    process: int


def measured(target: Target, texts: Sequence[str], body: dict[str, Any], options: argparse.Namespace) -> list[Load]:
    """Load a server with one client, then with many."""
    expected = asyncio.run(alone(target.url, texts, body))  # the model is loaded, its threads are there
    loads = []
    for clients, seconds in ((1, min(ALONE_SECONDS, options.seconds)), (options.clients, options.seconds)):
        before, started = memory_mb(target.process), time.perf_counter()
        tally = asyncio.run(load(target, expected, body, clients, seconds))
        taken = time.perf_counter() - started
        p50, p99 = (float(np.percentile(tally.times, share)) * 1000 for share in (50, 99))
        after = memory_mb(target.process)
        loads.append(
            Load(
                *(target.server, target.model, clients, round(taken, 1)),
                *(len(tally.times), tally.refused, tally.lost, round(len(tally.times) / taken, 2)),
                *(round(p50, 1), round(p99, 1), (before, after), slope(tally.memory)),
            )
        )
    return loads


def in_turns(texts: Sequence[str], requests: int) -> dict[str, Any]:
    """Return how long one client waits for our server and for the peer, both running, asked in turns."""
    times: dict[str, list[float]] = {OURS: [], PEER: []}
    with ours() as (our_url, _), peer() as (peer_url, _), httpx.Client(timeout=600) as http:
        servers = {OURS: (our_url, {"model": "minilm"}), PEER: (peer_url, {})}
        rounds = [texts[:TURN], *(texts[start : start + TURN] for start in range(0, requests, TURN))]
        for number, some in enumerate(rounds):
            for server, (url, body) in servers.items():
                for text in some:
                    started = time.perf_counter()
                    http.post(f"{url}/v1/embeddings", json={**body, "input": text}).raise_for_status()
                    if number:  # the first round loads the model
                        times[server].append(time.perf_counter() - started)
    half = {server: round(float(np.median(taken)) * 1000, 1) for server, taken in times.items()}
    return {"requests": len(times[OURS]), "p50_ms": half}


async def alone(url: str, texts: Sequence[str], body: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the vector that every text has when nothing else is asked for."""
    async with httpx.AsyncClient(base_url=url, timeout=600) as http:
        vectors = {}
        for text in texts:
            response = await http.post("/v1/embeddings", json={**body, "input": text})
            vectors[text] = np.array(response.raise_for_status().json()["data"][0]["embedding"], dtype=np.float32)
        return vectors


async def load(
    target: Target, expected: Mapping[str, np.ndarray], body: dict[str, Any], clients: int, seconds: float
) -> Tally:
    """Send requests for so long, every client its next as soon as it has an answer."""
    tally, texts, until = Tally(), list(expected), time.perf_counter() + seconds
    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)
    async with httpx.AsyncClient(base_url=target.url, timeout=120, limits=limits) as http:

        async def ask(number: int) -> None:
            turn = number
            while time.perf_counter() < until:
                text, started = texts[turn % len(texts)], time.perf_counter()
                try:
                    response = await http.post("/v1/embeddings", json={**body, "input": text})
                except httpx.HTTPError:
                    tally.lost += 1
                    continue
                if response.status_code == 429:
                    tally.refused += 1
                    await asyncio.sleep(0.1)
                    continue
                if is_of(response, expected[text]):
                    tally.times.append(time.perf_counter() - started)
                else:
                    tally.lost += 1
                turn += clients

        async def watch() -> None:
            while time.perf_counter() < until:
                tally.memory.append((time.perf_counter(), memory_mb(target.process)))
                await asyncio.sleep(1)

        await asyncio.gather(watch(), *(ask(number) for number in range(clients)))
    return tally


def is_of(response: httpx.Response, expected: np.ndarray) -> bool:
    """Whether an answer holds the vector of its text."""
    if response.status_code != 200:
        return False
    (row,) = response.json()["data"]
    vector = np.array(row["embedding"], dtype=np.float32)
    return vector.shape == expected.shape and float(vector @ expected) > SAME


def slope(memory: Sequence[tuple[float, float]]) -> float:
    """Return by how many MB a minute memory grew over the second half of a load; 0 of too few readings."""
    half = np.array(memory[len(memory) // 2 :])
    return round(float(np.polyfit(half[:, 0], half[:, 1], 1)[0]) * 60, 2) if len(half) > 2 else 0.0


@contextmanager
def ours() -> Iterator[tuple[str, int]]:
    """Run our server."""
    port = free_port()
    options = ["--port", str(port), "--indexes", os.devnull + "-none", "--log-level", "warning"]
    command = [sys.executable, "-m", "retriever", "serve", *options]
    with running(command, port) as server:
        yield server


@contextmanager
def peer() -> Iterator[tuple[str, int]]:
    """Run sentence-transformers behind uvicorn, over the files that our base encoder reads."""
    from retriever.encoders.sources import find_source

    port, folder = free_port(), find_source("all-minilm-l6-v2").folder
    with running([sys.executable, "-c", PEER_SERVER, str(folder), str(port)], port) as server:
        yield server


@contextmanager
def running(command: Sequence[str], port: int) -> Iterator[tuple[str, int]]:
    """Run a server until the block ends; give its address and process."""
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        until = time.monotonic() + 300
        while True:
            with suppress(httpx.TransportError):
                httpx.get(f"{url}/health", timeout=2)
                break
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"The server did not begin: {' '.join(command[:4])}")
            time.sleep(0.2)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait(60)


def memory_mb(process: int) -> float:
    """Return how much memory a process holds (Linux)."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return round(int(status.partition("VmRSS:")[2].split()[0]) / 1000, 1)


def free_port() -> int:
    """Return a port at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as place:
        port: int = place.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
