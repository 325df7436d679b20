"""How much a server gives to 64 clients at once: throughput, waiting times and memory, against a peer.

The same requests, one short review each under one instruction, are sent by one client after another and by many at once
to `retriever serve`, and to sentence-transformers behind uvicorn, which embeds request by request as most examples do.
The peer reads the same weights: all-MiniLM-L6-v2, our plain reader. Ratios are of one run on one machine.

    python benchmarks/serve_load.py --seconds 10 --clients 64 --output benchmarks/results/serve_load.json
"""

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np

ROOT = Path(__file__).parents[1]
PEER = """
import asyncio, sys
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
        clients: how many asked at once.
        requests: answered ones.
        refused: answered with 429.
        per_second: answered requests a second.
        p50_ms: half of the answers took no longer.
        p99_ms: 99 of 100 took no longer.
        memory_mb: of the server's process at the end.
    """

    server: str
    clients: int
    requests: int
    refused: int
    per_second: float
    p50_ms: float
    p99_ms: float
    memory_mb: float


def main() -> None:
    """Run both servers under both loads and print ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=30, help="of each load")
    parser.add_argument("--corpus", type=Path, default=ROOT / "examples/reviews.jsonl")
    parser.add_argument("--model", default="minilm", help="model that our server is asked for")
    parser.add_argument("--instruction", default="")
    parser.add_argument("--peer", default="", help="folder of the sentence-transformers model; none leaves it out")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    lines = options.corpus.read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["text"] for line in lines if line.strip()]
    body = {"model": options.model, **({"instruction": options.instruction} if options.instruction else {})}
    loads = []
    with ours() as (url, process):
        loads += measured("retriever", url, process, texts, body, options)
    if options.peer:
        with peer(options.peer) as (url, process):
            loads += measured("sentence-transformers", url, process, texts, {}, options)
    for one in loads:
        print(
            f"{one.server:22} {one.clients:3} clients  {one.per_second:8.1f} requests/s  p50 {one.p50_ms:7.1f} ms  "
            f"p99 {one.p99_ms:7.1f} ms  {one.memory_mb:6.0f} MB  {one.refused} refused"
        )
    found = {f"{one.server} {one.clients}": one.per_second for one in loads}
    rates = list(found.values())
    print(f"{options.clients} at once against one after another: {rates[1] / rates[0]:.2f} times the requests")
    if len(rates) == 4:
        print(f"against sentence-transformers, {options.clients} at once: {rates[1] / rates[3]:.2f} times")
    if options.output:
        options.output.write_text(json.dumps([asdict(one) for one in loads], indent=1) + "\n", encoding="utf-8")


def measured(
    server: str, url: str, process: int, texts: Sequence[str], body: dict[str, Any], options: argparse.Namespace
) -> list[Load]:
    """Load a server with one client, then with many."""
    asyncio.run(load(url, texts, body, 1, 2.0))  # the model is loaded, its threads are there
    found = []
    for clients in (1, options.clients):
        started = time.perf_counter()
        times, refused = asyncio.run(load(url, texts, body, clients, options.seconds))
        seconds = time.perf_counter() - started
        p50, p99 = (float(np.percentile(times, share)) * 1000 for share in (50, 99))
        found.append(Load(server, clients, len(times), refused, len(times) / seconds, p50, p99, memory_mb(process)))
    return found


async def load(
    url: str, texts: Sequence[str], body: dict[str, Any], clients: int, seconds: float
) -> tuple[list[float], int]:
    """Send requests for so long; return the seconds each answer took, and how many were refused."""
    times: list[float] = []
    refused, until = 0, time.perf_counter() + seconds
    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as http:

        async def ask(number: int) -> None:
            nonlocal refused
            turn = number
            while time.perf_counter() < until:
                started = time.perf_counter()
                response = await http.post("/v1/embeddings", json={**body, "input": texts[turn % len(texts)]})
                if response.status_code == 429:
                    refused += 1
                    await asyncio.sleep(0.1)
                    continue
                response.raise_for_status()
                times.append(time.perf_counter() - started)
                turn += clients

        await asyncio.gather(*(ask(number) for number in range(clients)))
    return times, refused


@contextmanager
def ours() -> Iterator[tuple[str, int]]:
    """Run our server."""
    port = free_port()
    command = [sys.executable, "-m", "retriever", "serve", "--port", str(port), "--index", os.devnull + "-none"]
    with running(command, port) as found:
        yield found


@contextmanager
def peer(model: str) -> Iterator[tuple[str, int]]:
    """Run sentence-transformers behind uvicorn."""
    port = free_port()
    with running([sys.executable, "-c", PEER, model, str(port)], port) as found:
        yield found


@contextmanager
def running(command: Sequence[str], port: int) -> Iterator[tuple[str, int]]:
    """Run a server until the block ends; give its address and process."""
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        until = time.monotonic() + 120
        while True:
            try:
                httpx.get(f"{url}/health", timeout=2)
                break
            except httpx.TransportError:
                if process.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.2)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait(60)


def memory_mb(process: int) -> float:
    """Return how much memory a process holds (Linux)."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1000


def free_port() -> int:
    """Return a port at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as place:
        port: int = place.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
