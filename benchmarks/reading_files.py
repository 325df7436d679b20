"""How long `read_documents` takes, and how much memory, against another checkout of this repository.

    python benchmarks/reading_files.py --before ../old --rows 200000

Files of short rows and of reviews are made in a temporary folder, as CSV, JSON Lines and Parquet, and each is read by
both checkouts in turns, every time in a process of its own. No model is involved. Ratios are of processor time and of
peak memory, which holds what the ids take; below 1 this checkout needs less.
"""

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

HERE = Path(__file__).parents[1]
WORDS = "the lid broke after a week it pours well and never drips motor is quiet handle came loose fits my small shelf"
READ = """
import re, sys, time
from pathlib import Path
from retriever.corpus.readers import read_documents
before = time.process_time()
count = sum(1 for _ in read_documents([sys.argv[1]]))
status = Path("/proc/self/status").read_text()  # the peak of this process alone, on Linux
print(count, time.process_time() - before, int(re.search(r"VmHWM:\\s+(\\d+)", status)[1]) / 1024)
"""


def rows(count: int, words: int) -> Iterator[dict[str, object]]:
    """Yield reviews of so many words, with stars, a date and a shop."""
    chance = random.Random(0)
    for number in range(count):
        text = " ".join(chance.choices(WORDS.split(), k=chance.randint(words // 2, words * 3 // 2)))
        day = f"2024-{1 + number % 12:02}-{1 + number % 28:02}"
        yield {
            "id": number,
            "text": f"{text}, yes",
            "stars": 1 + number % 5,
            "date": day,
            "shop": f"shop {number % 90}",
        }


def write(folder: Path, name: str, count: int, words: int) -> list[Path]:
    """Write the rows in each format."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    paths = [folder / f"{name}{suffix}" for suffix in (".csv", ".jsonl", ".parquet")]
    first = next(rows(1, words))
    schema = pa.schema({key: pa.string() if isinstance(value, str) else pa.int64() for key, value in first.items()})
    with (
        paths[0].open("w", newline="") as table,
        paths[1].open("w") as lines,
        ParquetWriter(paths[2], schema) as columns,
    ):
        writer = csv.DictWriter(table, list(first))
        writer.writeheader()
        batch = []
        for row in rows(count, words):
            writer.writerow(row)
            lines.write(json.dumps(row) + "\n")
            batch.append(row)
            if len(batch) == 50_000:
                columns.write_table(pa.Table.from_pylist(batch, schema))
                batch = []
        if batch:
            columns.write_table(pa.Table.from_pylist(batch, schema))
    return paths


def measure(checkout: Path, path: Path) -> tuple[float, float]:
    """Return the seconds of processor time and the MiB that reading takes."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", READ, str(path)]
    done = subprocess.run(command, env=environment, cwd=checkout, capture_output=True, text=True, check=True)
    _, seconds, memory = map(float, done.stdout.split())
    return seconds, memory


def main() -> None:
    """Print a line a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="Another checkout.")
    parser.add_argument("--rows", type=int, default=2_000_000, help="Short rows; there are 20,000 reviews.")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, count, words in (("reviews", 20_000, 80), ("short rows", given.rows, 6)):
            for path in write(Path(folder), name, count, words):
                pairs = [(measure(given.before.resolve(), path), measure(HERE, path)) for _ in range(given.rounds)]
                times, memories = ([after[at] / before[at] for before, after in pairs] for at in (0, 1))
                seconds, memory = (median(after[at] for _, after in pairs) for at in (0, 1))
                print(
                    f"{count:>9,} {name}{path.suffix:<9} time {median(times):.2f} ({seconds:.1f} s), "
                    f"memory {median(memories):.2f} ({memory:.0f} MiB)",
                    flush=True,
                )


if __name__ == "__main__":
    main()
