"""What it costs that a command's success is durable, and that rows carry checksums: indexing with and without, in turn.

    python benchmarks/durability_cost.py CORPUS.jsonl --output benchmarks/results/durability_cost.json

The encoder costs nothing, which makes the share of all else as large as it can be; `--encoder NAME` takes a real one.
Without flushing means no fsync anywhere and SQLite's synchronous=OFF; without checksums, no CRC-32 and no seals.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from common import median_ratio, read_texts, write

from retriever import load_encoder
from retriever.core.encoder import Encoder, EncoderSpec
from retriever.core.similarity import normalise
from retriever.core.types import Document, Embeddings, Encoded
from retriever.store import checksums, documents, vectors
from retriever.store.connection import Connections
from retriever.workspace import Index

DIM = 576  # of the default encoder


class FreeEncoder(Encoder):
    """Gives each text a row of noise that was made before."""

    spec = EncoderSpec("free".ljust(64, "0"), DIM)

    def __init__(self, rows: int) -> None:
        noise = np.random.default_rng(0).standard_normal((rows, DIM), dtype=np.float32)
        self._rows = normalise(noise)
        self._at = 0

    def encode_views(self, texts: Sequence[str], instructions: Sequence[str], **options: object) -> list[Encoded]:
        """Return the next rows for each instruction, and no words."""
        return [Encoded(self._next(len(texts)), [[] for _ in texts]) for _ in instructions]

    def _next(self, count: int) -> Embeddings:
        start, self._at = self._at, (self._at + count) % len(self._rows)
        return np.take(self._rows, range(start, start + count), axis=0, mode="wrap")


@contextmanager
def unflushed() -> Iterator[None]:
    """Leave flushing to the operating system."""
    connect = Connections._connect

    def careless(self: Connections) -> Any:  # noqa: ANN401
        connection = connect(self)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    with mock.patch.object(Connections, "_connect", careless), mock.patch.object(os, "fsync", lambda file: None):
        yield


@contextmanager
def unchecked() -> Iterator[None]:
    """Store no checksums."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(documents, "document_checksum", lambda *row: 0))
        stack.enter_context(mock.patch.object(vectors, "vector_checksum", lambda *row: 0))
        stack.enter_context(mock.patch.object(checksums.Seals, "renew", lambda self: None))
        yield


def index(texts: Sequence[str], encoder: Encoder, folder: Path) -> dict[str, float]:
    """Index the texts into a new folder; return wall-clock and processor seconds, and the flushes."""
    flushes, fsync = [], os.fsync
    rows = [Document(str(row), text) for row, text in enumerate(texts)]
    place = Path(tempfile.mkdtemp(dir=folder)) / "index"
    with mock.patch.object(os, "fsync", lambda file: (flushes.append(1), fsync(file))):
        began, worked = time.perf_counter(), time.process_time()
        with Index(place, encoder=encoder) as opened:
            opened.add(rows)
        found = {"wall": time.perf_counter() - began, "processor": time.process_time() - worked}
    shutil.rmtree(place.parent)
    return {**found, "python_flushes": len(flushes)}


def measure(texts: Sequence[str], make: Callable[[], Encoder], rounds: int, folder: Path) -> dict[str, Any]:
    """Index the texts each way in turn; return medians in seconds and the median ratios within a round."""
    ways = {"durable": ExitStack, "unflushed": unflushed, "unchecked": unchecked}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for turn in range(rounds):
        for name in list(ways) if turn % 2 == 0 else reversed(ways):
            with ways[name]():
                found[name].append(index(texts, make(), folder))
    report: dict[str, Any] = {}
    for clock in ("wall", "processor"):
        seconds = {name: [one[clock] for one in runs] for name, runs in found.items()}
        report[clock] = {
            "seconds": {name: round(statistics.median(each), 3) for name, each in seconds.items()},
            "rounds": {name: [round(one, 3) for one in each] for name, each in seconds.items()},
            "durable_over_unflushed": median_ratio(seconds["durable"], seconds["unflushed"]),
            "durable_over_unchecked": median_ratio(seconds["durable"], seconds["unchecked"]),
        }
    return report


def fsync_ms(folder: Path, times: int = 20) -> float:
    """Return what it takes to flush a page of a file, the median in milliseconds."""
    seconds = []
    with (folder / "page").open("wb") as file:
        for _ in range(times):
            file.write(bytes(4096))
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            seconds.append(time.perf_counter() - began)
    return round(1000 * statistics.median(seconds), 3)


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the options, measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--encoder", help="a real one, by name; one that costs nothing by default")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(argv)
    texts = read_texts(options.corpus, options.rows)
    texts = [*texts, *(f"{text} ({row})" for row, text in enumerate(texts))][: options.rows]
    loaded = load_encoder(options.encoder) if options.encoder else None
    make = (lambda: loaded) if loaded else partial(FreeEncoder, len(texts))
    with tempfile.TemporaryDirectory() as folder:
        report = {
            "texts": len(texts),
            "fsync_ms": fsync_ms(Path(folder)),
            **measure(texts, make, options.rounds, Path(folder)),
        }
    write("durability_cost", options, report)


if __name__ == "__main__":
    main()
