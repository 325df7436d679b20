"""What more kinds of question bring at equal rows: models trained on grids of 50 to 800 kinds, asked kinds none knows.

    python benchmarks/kinds_curve.py KINDS build/rows-5 --limit 60 --output benchmarks/results/kinds_curve.json

Every model goes on from what ships, with the settings of recipes/follow.toml and the same number of steps and rows a
step; whole grids of ``asked.jsonl`` are drawn until they hold so many kinds, and read as often as the steps want. All
are measured by the suite `unmet`, and so is what they go on from. Models stay in ``build/kinds-curve``; what is there
already is measured and not trained again.
"""

import argparse
import json
import random
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from common import headline_scores, train_variant, write

from retriever import load_encoder
from retriever.training.config import read_config

ROOT = Path(__file__).resolve().parents[1]
RECIPE = ROOT / "recipes/follow.toml"
MODELS = ROOT / "build/kinds-curve"
BASE = "pretrained:default"
PASSES = 1000
"""More than the steps need."""

Row = Mapping[str, Any]


def main() -> None:
    """Parse the options, train and measure, and write JSON after every model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="The folder with the suite's files.")
    parser.add_argument("rows", type=Path, help="The folder with asked.jsonl, as `make train` makes it.")
    parser.add_argument("--kinds", nargs="*", type=int, default=[50, 150, 500, 800])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--limit", type=int, default=60, help="Most texts of a kind.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    grids = read_grids(options.rows / "asked.jsonl")
    found = [measured(BASE, 0, 0, options)]
    for kinds in options.kinds:
        chosen = drawn(grids, kinds, options.seed)
        folder = MODELS / f"{kinds}-kinds-{options.steps}-steps"
        if not folder.exists():
            train(chosen, options.steps, folder)
        held = {row["group"] for grid in chosen for row in grid}
        found.append(measured(str(folder), len(held), len(chosen), options))
        write("kinds_curve", options, {"models": found})


def measured(model: str, kinds: int, grids: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return the scores of a model, with the kinds and grids it learned from."""
    encoder = load_encoder(model)
    scores = headline_scores(encoder, options.data, ("unmet",), limit=options.limit)
    print(model, json.dumps(scores), file=sys.stderr, flush=True)
    return {"kinds": kinds, "grids": grids, "fingerprint": encoder.fingerprint, "scores": scores["unmet"]}


def read_grids(path: Path) -> list[list[Row]]:
    """Return the rows of every grid: those whose texts stand under the same questions of the same kinds."""
    by_text: dict[str, list[Row]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        by_text[row["text"]].append(row)
    grids: dict[frozenset[str], list[Row]] = defaultdict(list)
    for rows in by_text.values():
        grids[frozenset(row["group"] for row in rows)] += rows
    return list(grids.values())


def drawn(grids: Sequence[list[Row]], kinds: int, seed: int) -> list[list[Row]]:
    """Return grids in a random order until they hold so many kinds: those of fewer begin those of more."""
    chosen, held = [], set[str]()
    for grid in random.Random(seed).sample(grids, len(grids)):
        if len(held) >= kinds:
            break
        chosen.append(grid)
        held |= {row["group"] for row in grid}
    return chosen


def train(grids: Sequence[Sequence[Row]], steps: int, folder: Path) -> None:
    """Train what ships on some grids into a folder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    rows = folder.with_name(f"{folder.name}.jsonl")
    rows.write_text("".join(json.dumps(row) + "\n" for grid in grids for row in grid), encoding="utf-8")
    config = read_config(RECIPE, None, rows=1)
    config = replace(config, loop=replace(config.loop, epochs=PASSES, max_steps=steps))
    train_variant(config, [rows], folder, base=BASE)


if __name__ == "__main__":
    main()
