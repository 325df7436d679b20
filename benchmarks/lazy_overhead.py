r"""What a search under a new instruction costs besides the model, as the instruction's view fills.

    python benchmarks/lazy_overhead.py --output benchmarks/results/lazy_overhead.json
    python benchmarks/lazy_overhead.py --against CHECKOUT   # another version of the package, in turn with this one

The encoder is a stub: vectors come from a seed and take next to nothing, tokens are counted by a regular expression. So
what is left is the searches of the base view and of the words, what is loaded, read, stored and put in order. Documents
and base vectors are inserted through the store. A process searches without an instruction until it is warm, then asks
query after query under one instruction; ``first``, ``after_10`` and ``after_100`` are medians over the rounds and over
up to ten queries each, in milliseconds of wall-clock and of processor time. The wall-clock depends on what else the
machine does; versions take turns, so that they suffer alike.
"""

import argparse
import importlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from retriever.core.types import Document, Embeddings, Encoded

DIM = 384
SHARD = 2000
WORDS = 40  # of a text
VOCABULARY = 20_000
COMMON = 50  # so many words are more frequent than those of queries
SPANS: Mapping[str, tuple[int, int]] = {"first": (0, 1), "after_10": (10, 20), "after_100": (100, 110)}
INSTRUCTION = "What is this about, in round {}?"
TOKEN = re.compile(r"\w+|[^\w\s]")


def module(*names: str) -> Any:  # noqa: ANN401 - the same functions, wherever this version has them
    """Return the first module there is of some names."""
    for name in names:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    raise ModuleNotFoundError(names[0])


CORE = module("retriever.core.encoder", "retriever.core.protocols")
ONE_METHOD = hasattr(CORE, "EncoderSpec")  # before, an encoder was any object with three methods


class SeededEncoder(CORE.Encoder if ONE_METHOD else object):  # type: ignore[misc]
    """Reads texts that end in their number, with vectors from a seed.

    Args:
        texts: how many there are.
    """

    dim, fingerprint = DIM, "seeded".ljust(64, "0")
    spec = CORE.EncoderSpec(fingerprint, DIM, max_text_tokens=512) if ONE_METHOD else ""
    dtype, pooling, steps, look_ahead, max_text_tokens = "float32", "", None, None, 512

    def __init__(self, texts: int) -> None:
        generator = np.random.default_rng(0)
        self._base = generator.standard_normal((texts, DIM), dtype=np.float32)
        self._turn = np.linalg.qr(generator.standard_normal((DIM, DIM)))[0].astype(np.float32)

    def encode(self, texts: Sequence[str], *, instruction: str = "", **_: object) -> Embeddings:
        """Return the rows of the texts' numbers, half turned under an instruction; (n, dim)."""
        rows = self._base[[int(text.rsplit(" ", 1)[1]) for text in texts]]
        if instruction:
            rows = rows + rows @ self._turn
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def encode_many(self, texts: Sequence[str], instructions: Sequence[str], **_: object) -> list[Embeddings]:
        """Return one array (n, dim) an instruction."""
        return [self.encode(texts, instruction=one) for one in instructions]

    def encode_with_words(self, texts: Sequence[str], *, instruction: str = "", **_: object) -> Encoded:
        """Return the vectors, with two words a text."""
        return Encoded(self.encode(texts, instruction=instruction), [["some", "words"] for _ in texts])

    def encode_views(self, texts: Sequence[str], instructions: Sequence[str], **_: object) -> list[Encoded]:
        """Return vectors and two words a text under every instruction."""
        return [self.encode_with_words(texts, instruction=one) for one in instructions]

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the words and signs of every text."""
        return [len(TOKEN.findall(text)) for text in texts]


def indexes() -> Any:  # noqa: ANN401 - a module
    """Return the module of `Index`."""
    return module("retriever.services.workspace", "retriever.workspace")


def texts(count: int) -> list[str]:
    """Return texts of words as frequent as those of a language, each with its number at the end."""
    drawn = np.random.default_rng(1).zipf(1.3, size=(count, WORDS)) % VOCABULARY
    return [" ".join(f"word{one}" for one in row) + f" {number}" for number, row in enumerate(drawn)]


def telling(text: str) -> list[str]:
    """Return the words of a text that few others have, as those of a query are: at most one text in twenty."""
    return [word for word in text.split()[:-1] if int(word.removeprefix("word")) > COMMON]


def build(folder: Path, count: int) -> None:
    """Make an index with a complete base view and its FAISS file."""
    encoding = module("retriever.services.encoding", "retriever.index.encoding")
    store_of = importlib.import_module("retriever.store.database")
    encoder, rows = SeededEncoder(count), texts(count)
    with store_of.Store.open(folder / store_of.DATABASE, create=True) as store:
        store.settings.set("encoder", encoding.describe(encoder))
        view = store.views.ensure(encoding.view_key(encoder, ""))
        for start in range(0, count, SHARD):
            part = rows[start : start + SHARD]
            with store.transaction():
                documents = [Document(f"d{start + n:07}", text, {"n": start + n}) for n, text in enumerate(part)]
                contents = store.documents.upsert(documents).content_ids
                store.vectors.put(view.view_id, contents, encoder.encode(part), [["word"] for _ in part])
    with indexes().Index(folder, encoder=encoder) as index:
        index.compact()


def measure(folder: Path, count: int, turn: int) -> list[list[float]]:
    """Return wall-clock and processor milliseconds of lazy searches, one after the other, under a new instruction."""
    asked = np.random.default_rng(2).permutation(count)[: max(end for _, end in SPANS.values()) + 5]
    rows = texts(count)
    queries = [f"{' '.join(telling(rows[row])[:3])} {row}" for row in asked.tolist()]
    took = []
    with indexes().Index(folder, encoder=SeededEncoder(count)) as index:
        for query in queries[:5]:
            index.search(query, mode="hybrid")
        for query in queries[5:]:
            wall, processor = time.perf_counter(), time.process_time()
            index.search(query, instruction=INSTRUCTION.format(turn))
            took.append([1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - processor)])
    return took


def run(checkout: Path, *arguments: str) -> str:
    """Run this file on a version of the package and return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__).resolve()), *arguments]
    done = subprocess.run(command, env=environment, cwd=checkout, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def summary(rounds: Sequence[Sequence[Sequence[float]]]) -> dict[str, dict[str, float]]:
    """Return the medians of every span."""
    found = {}
    for name, (start, end) in SPANS.items():
        wall, processor = zip(*(one for took in rounds for one in took[start:end]), strict=True)
        found[name] = {"ms": round(statistics.median(wall), 1), "processor_ms": round(statistics.median(processor), 1)}
    return found


def compare(versions: Mapping[str, Path], count: int, rounds: int) -> dict[str, Any]:
    """Measure versions of the package in turn on an index each of so many documents."""
    with tempfile.TemporaryDirectory(prefix="lazy-overhead-") as folder:
        places = {name: str(Path(folder) / name) for name in versions}
        for name, checkout in versions.items():
            run(checkout, "--build", places[name], "--sizes", str(count))
        took: dict[str, list[Any]] = {name: [] for name in versions}
        for turn in range(rounds):
            for name in list(versions) if turn % 2 == 0 else reversed(list(versions)):
                asked = ("--measure", places[name], "--sizes", str(count), "--rounds", str(turn))
                took[name].append(json.loads(run(versions[name], *asked)))
    found: dict[str, Any] = {name: summary(one) for name, one in took.items()}
    if len(found) == 2:
        ours, theirs = found.values()
        found["ratio"] = {
            name: {key: round(ours[name][key] / theirs[name][key], 3) for key in ours[name]} for name in SPANS
        }
    return found


def main() -> None:
    """Parse the options, measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="a checkout of another version")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 20_000, 200_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--build", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.build:
        build(options.build, options.sizes[0])
    elif options.measure:
        print(json.dumps(measure(options.measure, options.sizes[0], options.rounds)))
    else:
        from common import write

        versions = {"this": Path(__file__).resolve().parent.parent}
        if options.against:
            versions["other"] = options.against.resolve()
        found = {str(size): compare(versions, size, options.rounds) for size in options.sizes}
        del options.build, options.measure
        write("lazy_overhead", options, {"documents": found})


if __name__ == "__main__":
    main()
