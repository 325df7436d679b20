"""What each part of training pays: small models that differ in one setting, trained on the same rows.

    python recipes/mixture.py DATA build/ablation-rows --texts 400
    python benchmarks/ablations.py DATA build/ablation-rows --limit 300 --output benchmarks/results/ablations.json

Every variant starts from the bare backbone with the settings of recipes/default.toml, but for what its name says, and
is measured on test rows. Models stay in ``build/ablations``; what is there already is measured and not trained again.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from common import headline_scores, train_variant, write

from retriever import load_encoder
from retriever.training.config import read_config
from retriever.training.methods import DEFAULT, find_method

ROOT = Path(__file__).resolve().parents[1]
RECIPE = ROOT / "recipes/default.toml"
MODELS = ROOT / "build/ablations"
SUITES = ("awareness", "generic")


@dataclass(frozen=True, slots=True)
class Variant:
    """One model: its name, what differs by section of the settings, and another method than InstEmb."""

    name: str
    changes: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    method: str = DEFAULT


def objective(name: str, **changes: object) -> Variant:
    """Return a variant of the objective."""
    return Variant(name, {"objective": changes})


VARIANTS = (
    Variant("recipe"),
    Variant("InBedder, same rows", {"adapter": {"look_ahead": 0}}, "inbedder"),
    objective("distillation: kl", distillation=("kl",)),
    objective("distillation: mse", distillation=("mse",)),
    objective("distillation: none", distillation=()),
    objective("views: none", contrast=0.0, views=()),
    objective("views: answer", views=("answer",)),
    objective("views: dropout", views=("dropout",)),
    objective("views: teacher", views=("teacher",)),
    objective("compared: input-last", compared="input-last"),
    Variant("look-ahead: 1", {"adapter": {"look_ahead": 1}}),
    Variant("look-ahead: 4", {"adapter": {"look_ahead": 4}}),
    Variant("similarity: none", {"similarity": None}),
    Variant("rank: 8", {"adapter": {"rank": 8, "alpha": 16}}),
)


def main() -> None:
    """Parse the options, train and measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("rows", type=Path, help="The folder that recipes/mixture.py wrote.")
    parser.add_argument("--only", action="append", default=[], help="Variants whose name holds this; repeatable.")
    parser.add_argument("--limit", type=int, default=300, help="Most items a task looks at.")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    chosen = [one for one in VARIANTS if not options.only or any(part in one.name for part in options.only)]
    found = []
    for variant in chosen:
        print(variant.name, file=sys.stderr, flush=True)
        folder = MODELS / "".join(letter if letter.isalnum() else "-" for letter in variant.name)
        if not folder.exists():
            train(variant, sorted(options.rows.glob("*.jsonl")), folder)
        found.append(
            {
                "name": variant.name,
                "scores": headline_scores(load_encoder(str(folder)), options.data, SUITES, limit=options.limit),
            }
        )
        write("ablations", options, {"variants": found})


def train(variant: Variant, files: Sequence[Path], folder: Path) -> None:
    """Train a variant into a folder."""
    config = read_config(RECIPE, None, rows=1)
    if variant.method is not config.method:
        own = read_config(None, variant.method, rows=1)
        config = replace(config, method=own.method, objective=own.objective)
    for section, changes in variant.changes.items():
        changed = None if changes is None else replace(getattr(config, section), **changes)
        config = replace(config, **{section: changed})
    train_variant(config, files, folder, base=f"{find_method(variant.method).encoder}:smollm2-135m")


if __name__ == "__main__":
    main()
