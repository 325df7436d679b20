"""Every way we know to lose data, tried on purpose, and a table of what came of it in docs/storage.md.

    PYTHONPATH=tests/durability:tests:tests/index OMP_NUM_THREADS=1 python benchmarks/torture.py --quick

Crashes and failing writes at every change of a file, real SIGKILLs at random times, flipped bits and cut ends; then
the tests that draw examples: a state machine, readers beside a writer, growth, fuzzed files. The
same kills are dealt to SQLite beside a FAISS file kept the usual way. `--quick` takes a small share of everything,
`make torture` the whole; `--only` runs some parts, and the table is made of what the output holds. One thread, since
children are forked.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import damaged_files
import faiss
import tiny_models
import training_faults
from common import machine, write
from damage import WAL, Outcome, Verdict, damages, make_divided_index, make_index, make_killed_index, torture
from disk import unflushed
from interruptions import Recording, Tally, crash_everywhere, fail, fail_everywhere, judge, points, record
from operations import OPERATIONS
from repair_faults import fail_repair, judge_repair, record_repair
from replay import read_tree
from sigkill import COMMANDS, DOCUMENTS, SlowEncoder, document_of, killed_in_child, walk
from torture_table import put_into, table
from torture_tests import FILES, run_tests
from usual_pair import UsualPair

ROOT = Path(__file__).parents[1]
FINETUNE = "finetune --resume"
REPAIR = "repair"
PAGE = ROOT / "docs" / "storage.md"


@dataclass(frozen=True)
class Sizes:
    """How much is tried.

    Kills a walk, changes of an operation, flips a region, damages a kind; the tests' profile.
    """

    kills: int
    points: int | None
    flips: int
    damages: int | None
    profile: str


Part = Callable[[str, Path, Sizes], dict[str, Any]]


def interrupt(name: str, folder: Path, sizes: Sizes) -> dict[str, Any]:
    """Crash and fail an operation of an index at its changes of files."""
    recording, judging, failing = (
        (record_repair(folder), judge_repair, fail_repair)
        if name == REPAIR
        else (record(OPERATIONS[name], folder), judge, fail)
    )
    crashes = crash_everywhere(recording, folder / "crashed", most=sizes.points, judge=judging)
    failures = fail_everywhere(recording, folder / "failed", most=sizes.points, fail=failing)
    return tallied(recording, crashes, failures, sizes.points)


def interrupt_training(name: str, folder: Path, sizes: Sizes) -> dict[str, Any]:
    """Crash and fail a saved state, a promotion or a fine-tuning at its changes of files."""
    root, base = folder / "run", tiny_models.build_llama(folder / "llama")
    most = sizes.points if name == FINETUNE else None
    scenario = {
        "training state": training_faults.saved_states,
        "promote": lambda: training_faults.promotion(base),
        FINETUNE: lambda: training_faults.finetuning_resumed(base),
    }[name]()
    with training_faults.surroundings():
        trace = training_faults.trace(scenario, root)
        crashes = crash_everywhere(
            trace, folder, most=most, judge=lambda trace, tree, _: training_faults.judge(trace, tree, root)
        )
        failures = fail_everywhere(
            trace, folder, most=most, fail=lambda trace, fault, _: training_faults.fail(trace, fault, root)
        )
    return tallied(trace, crashes, failures, most)


def tallied(
    recording: Recording | training_faults.Trace, crashes: Tally, failures: Tally, most: int | None
) -> dict[str, Any]:
    """Return what became of one operation."""
    return {
        "changes": len(recording.changes),
        "points": len(points(recording, 1, most)),
        "crashes": crashes.injected,
        "failing_writes": failures.injected,
        "lost": [*crashes.lost, *failures.lost],
    }


def damage_index(name: str, folder: Path, sizes: Sizes) -> dict[str, Any]:
    """Flip bits in every page of a database, every frame of a log or every other file of an index, and cut them."""
    make_index(folder / "whole")
    make_divided_index(folder / "divided")
    make_killed_index(folder / "killed", folder / "draft")
    files = [file for file, data in read_tree(folder / "whole").items() if data is not None]
    path, chosen = {
        "database": (folder / "whole", [file for file in files if file.endswith(".sqlite3")]),
        "database of sentences": (folder / "divided", ["corpus.sqlite3"]),
        "log (-wal)": (folder / "killed", [WAL]),
        "FAISS files, lock": (folder / "whole", [file for file in files if not file.endswith(".sqlite3")]),
    }[name]
    planned = list(damages(path, chosen, sizes.flips))
    random.Random(0).shuffle(planned)
    return judged(torture(path, planned[: sizes.damages], folder / "damaged"))


def damage_files(name: str, folder: Path, sizes: Sizes) -> dict[str, Any]:
    """Flip bits in a model, a training state, an archive or the pointer to the default model, and cut them."""
    base, path = tiny_models.build_llama(folder / "llama"), folder / "whole"
    damaged_files.make_model(folder / "model", base)
    read = {
        "model folder": lambda: damaged_files.make_model(path, base),
        "training state": lambda: damaged_files.make_states(path),
        "archive": lambda: damaged_files.make_archive(path, folder / "draft"),
        "default model": lambda: damaged_files.make_default(path, folder / "model"),
    }[name]()
    return judged(damaged_files.torture_files(path, read, folder / "damaged", each=sizes.flips))


def judged(outcome: Outcome) -> dict[str, Any]:
    """Return what became of one kind of file."""
    return {
        "tried": sum(sum(counts.values()) for counts in outcome.verdicts.values()),
        **{verdict.name.lower(): outcome.total(verdict) for verdict in Verdict},
        "repaired": outcome.repaired,
        "lost": outcome.bad,
        "by_region": {region: dict(counts) for region, counts in sorted(outcome.verdicts.items())},
    }


def seed_of(name: str) -> int:
    """Return a walk's seed."""
    return int(name.removeprefix("walk "))


def kill(name: str, folder: Path, sizes: Sizes) -> dict[str, Any]:
    """Kill a walk over an index of ours."""
    outcome = walk(folder, sizes.kills, seed_of(name))
    return {"killed": sum(outcome.killed.values()), "by_command": outcome.killed, "lost": outcome.lost}


def kill_pair(name: str, folder: Path, sizes: Sizes) -> dict[str, Any]:
    """Kill the usual pair as often; it is made anew after each loss, so that none counts twice."""
    chance, counts, root = random.Random(seed_of(name)), Counter[str](), folder / "pair"
    whole = [document_of(row, 0) for row in range(0, DOCUMENTS, 2)]
    lasts: dict[str, float] = {}
    problems: Counter[str] = Counter()
    while counts["killed"] < sizes.kills:
        if not root.exists():
            UsualPair(root, SlowEncoder()).add(whole)
        command = chance.choices(("index", "delete"), (COMMANDS["index"], COMMANDS["delete"]))[0]
        documents = [document_of(row, chance.randint(0, 2)) for row in chance.sample(range(DOCUMENTS), 8)]

        def run(command: str = command, documents: Sequence[Any] = documents) -> None:
            pair = UsualPair(root, SlowEncoder())
            pair.add(documents) if command == "index" else pair.delete([document.id for document in documents])

        began = time.perf_counter()
        killed = killed_in_child(run, chance.random() * lasts.get(command, 0.1))
        took = time.perf_counter() - began
        lasts[command] = max(lasts.get(command, 0.1), took) * 1.1 if killed else took
        counts["killed"] += killed
        damaged = UsualPair(root, SlowEncoder()).problems()
        counts["after_kill"] += bool(damaged)
        try:
            run()
            left = UsualPair(root, SlowEncoder()).problems()
        except RuntimeError:  # FAISS's own
            left = ["the same command again fails: the FAISS file cannot be read"]
        counts["left"] += bool(left)
        problems.update(problem.lstrip("0123456789 ") for problem in left)
        if left:
            shutil.rmtree(root)
    return {**counts, "what_was_damaged": dict(problems), "lost": []}


def test(name: str, folder: Path, sizes: Sizes) -> dict[str, Any]:
    """Run a file of tests."""
    folder.mkdir()
    return run_tests(ROOT / "tests" / FILES[name], folder, sizes.profile)


def unflushed_part(run: Part) -> Part:
    """Return a part that waits for no disk: what a loss of power leaves is reckoned."""

    def part(name: str, folder: Path, sizes: Sizes) -> dict[str, Any]:
        with unflushed():
            return run(name, folder, sizes)

    return part


KINDS = {
    "kills": kill,
    "usual": kill_pair,
    "faults": unflushed_part(interrupt),
    "training": unflushed_part(interrupt_training),
    "damage": unflushed_part(damage_index),
    "files": unflushed_part(damage_files),
    "tests": test,
}
WALKS = [f"walk {seed}" for seed in range(4)]
NAMES = {
    "kills": WALKS,
    "usual": WALKS,
    "faults": [*OPERATIONS, REPAIR],
    "training": ["training state", "promote", FINETUNE],
    "damage": ["database", "database of sentences", "log (-wal)", "FAISS files, lock"],
    "files": ["model folder", "training state", "archive", "default model"],
    "tests": list(FILES),
}
PARTS = {f"{kind}: {name}": partial(KINDS[kind], name) for kind, names in NAMES.items() for name in names}


def run(name: str, sizes: Sizes) -> dict[str, Any]:
    """Run a part in a folder of its own."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RETRIEVER_CONFIG"] = str(Path(folder) / "user")
        report = PARTS[name](Path(folder) / "part", sizes)
    seconds = round(time.perf_counter() - started, 1)
    print(f"{name}: {seconds:.0f} s, {len(report['lost'])} lost", file=sys.stderr, flush=True)
    return {**report, "sizes": asdict(sizes), "seconds": seconds}


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the options, run the parts, write JSON and, once all parts are in it, the table; 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help=f"parts that begin so: {', '.join(PARTS)}")
    parser.add_argument("--missing", action="store_true", help="run no part that the output holds already")
    parser.add_argument("--kills", type=int, default=50, help="of each walk")
    parser.add_argument("--points", type=int, help="interrupt no operation at more changes than this")
    parser.add_argument("--flips", type=int, default=4, help="flipped bits in each region of a file")
    parser.add_argument("--damages", type=int, help="damage no kind of file of an index more often than this")
    profile = os.environ.get("HYPOTHESIS_PROFILE", "default")
    parser.add_argument("--profile", default=profile, help="Hypothesis's: HYPOTHESIS_PROFILE unless given")
    parser.add_argument("--quick", action="store_true", help="a small share of everything")
    parser.add_argument("--output", type=Path, help="JSON; parts that are in it and not run again stay")
    parser.add_argument("--page", type=Path, default=PAGE, help="where the table is put")
    options = parser.parse_args(argv)
    sizes = Sizes(options.kills, options.points, options.flips, options.damages, options.profile)
    if options.quick:
        sizes = Sizes(kills=3, points=3, flips=1, damages=10, profile="default")
    faiss.omp_set_num_threads(1)
    known = json.loads(options.output.read_text()) if options.output and options.output.exists() else {}
    parts = {**known.get("parts", {})}
    for name in PARTS:
        if name.startswith(options.only) and not (options.missing and name in parts):
            parts[name] = run(name, sizes)
            write("torture", options, {"parts": parts})
    if options.output and parts.keys() >= PARTS.keys():
        put_into(options.page, table(parts, NAMES, machine()))
    lost = [f"{name}: {loss}" for name, part in parts.items() for loss in part["lost"]]
    print(*lost, sep="\n", file=sys.stderr)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
