"""What it gains to store a shard while the next is embedded: the same rows indexed both ways, in turns.

python benchmarks/index_overlap.py CORPUS.jsonl --encoder default --output benchmarks/results/index_overlap.json

Every run is a process of its own with an index of its own; the encoder is loaded and warm before the clock starts.
``--against`` takes a checkout of another version along. ``--encoder stub`` sleeps as a model would work.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from retriever.core.types import Encoded

WARM = "The kettle leaks."
_PIECES = re.compile(r"\w+|[^\w\s]")
ROWS_OF_A_BATCH = 32
SELF = Path(__file__).resolve()


class Stub:
    """Sleeps for every token. Its methods are those of this version's encoders and of those before.

    Args:
        rate: text tokens it reads in a second under one instruction; each further one takes a fifth of that.
    """

    dim = 576
    dtype = "float32"
    pooling = "stub"
    max_text_tokens = 512
    fingerprint = "stub".ljust(64, "0")

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._chance = np.random.default_rng(0)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return about the tokens of every text."""
        return [1 + len(_PIECES.findall(text)) for text in texts]

    def encode_many_with_words(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        top: int = 0,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        """Return what `encode_views` does."""
        return self.encode_views(texts, instructions, words=top, on_tokens=on_tokens)

    def encode_views(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        words: int = 0,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        """Return random vectors of length 1 and the same words for every text."""
        for start in range(0, len(texts), ROWS_OF_A_BATCH):
            tokens = sum(min(count, 512) for count in self.count_tokens(texts[start : start + ROWS_OF_A_BATCH]))
            time.sleep(tokens / self._rate * (1 + 0.2 * (len(instructions) - 1)))
            if on_tokens is not None:
                on_tokens(tokens)
        rows = self._chance.normal(size=(len(instructions), len(texts), self.dim)).astype(np.float32)
        rows /= np.linalg.norm(rows, axis=2, keepdims=True)
        return [Encoded(view, [["kettle", "broken", "leak", "water", "bad"][:words] for _ in texts]) for view in rows]

    def encode_many(self, texts: Sequence[str], instructions: Sequence[str]) -> list[Any]:
        """Return the vectors of `encode_views`."""
        return [one.embeddings for one in self.encode_views(texts, instructions)]


def stub(rate: float) -> Any:  # noqa: ANN401 - an encoder of the version at hand
    """Return the stub as an encoder of the version at hand."""
    try:
        from retriever.core.encoder import Encoder, EncoderSpec
    except ImportError:  # a version before encoders had one method
        return Stub(rate)
    spec = EncoderSpec(Stub.fingerprint, Stub.dim, pooling=Stub.pooling, max_text_tokens=Stub.max_text_tokens)
    return type("Stub", (Stub, Encoder), {"spec": spec})(rate)


class Inline:
    """Takes the place of the thread that stores shards, and stores them at once."""

    def __init__(self, *args: object) -> None:
        pass

    def __enter__(self) -> "Inline":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def submit(self, call: Callable[..., object], *args: object) -> "Future[object]":
        """Make the call before returning."""
        done: Future[object] = Future()
        done.set_result(call(*args))
        return done


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Index the rows once and return what it took."""
    from retriever import load_encoder, open_index
    from retriever.corpus.readers import read_documents

    encoder = stub(options.rate) if options.encoder == "stub" else load_encoder(options.encoder, device=options.device)
    encoder.encode_many([WARM], ["", *options.instruction])
    settings = {}
    if options.how == "in turns":
        from retriever.index import indexing

        indexing.ThreadPoolExecutor = Inline
    if options.shard:
        from retriever.index.indexing import IndexingOptions

        settings["options"] = IndexingOptions(shard=options.shard)
    rows = list(islice(read_documents([options.corpus]), options.rows))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder, open_index(folder, encoder=encoder) as index:
        worked = time.process_time()
        started = time.perf_counter()
        report = index.add(rows, instructions=options.instruction, **settings)
        seconds = time.perf_counter() - started
        return {
            "seconds": round(seconds, 3),
            "processor_seconds": round(time.process_time() - worked, 3),
            "vectors": sum(report.embedded.values()),
            "tokens": report.tokens,
            "encoder": encoder.fingerprint[:12],
        }


def child(how: str, checkout: Path) -> dict[str, Any]:
    """Measure in a process that imports the package of a checkout."""
    command = [sys.executable, str(SELF), *sys.argv[1:], "--how", how]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def main() -> None:
    """Parse the options, measure in turns, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--encoder", default="stub", help="a name of `retriever models list`, or stub")
    parser.add_argument("--rate", type=float, default=100_000, help="text tokens a second of the stub")
    parser.add_argument("--instruction", action="append", default=[])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shard", type=int, help="rows of a shard; not with --against")
    parser.add_argument("--against", type=Path, help="a checkout of another version")
    parser.add_argument("--folder", type=Path, help="where the indexes are made; the disk matters")
    parser.add_argument("--how", help="for one run in this process")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.how:
        print(json.dumps(measure(options)))
        return
    from common import median_ratio, write

    here = SELF.parents[1]
    ways = {"at once": here, "in turns": here, **({"other version": options.against} if options.against else {})}
    runs: dict[str, list[dict[str, Any]]] = {how: [] for how in ways}
    for turn in range(options.rounds):
        for how in ways if turn % 2 == 0 else reversed(ways):
            runs[how].append(child(how, ways[how]))
    seconds = {how: [one["seconds"] for one in each] for how, each in runs.items()}
    report = {
        "runs": runs,
        "median_seconds": {how: statistics.median(each) for how, each in seconds.items()},
        "at_once_over": {how: median_ratio(seconds["at once"], each) for how, each in seconds.items()},
    }
    write("index_overlap", options, report)


if __name__ == "__main__":
    main()
