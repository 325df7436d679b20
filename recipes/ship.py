"""Put a model that `retriever finetune` made with a recipe into the package, with its card.

    python recipes/ship.py build/default default

What a user needs stays: weights, settings, the picture, and a card that names data, licences, recipe and scores.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

from mixture import SOURCES

from retriever.encoders.sources import check_manifest, write_manifest
from retriever.services.report import ranged, table

SHIPPED = Path(__file__).resolve().parents[1] / "retriever" / "pretrained"
KEPT = (
    "retriever.json",
    "adapter_config.json",
    "adapter_model.safetensors",
    "look_ahead.safetensors",
    "finetune.toml",
    "curves.svg",
)
TEACHER = "all-MiniLM-L6-v2 (Apache-2.0) taught similarities under the default instruction"


def main() -> None:
    """Parse the options and write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("made", type=Path, help="What retriever finetune wrote.")
    parser.add_argument("name", help="What the model is called in the package.")
    options = parser.parse_args()
    check_manifest(options.made, hint="Train it again.")
    target = SHIPPED / options.name
    if target.exists():
        shutil.rmtree(target)
    target.mkdir(parents=True)
    for name in KEPT:
        if (options.made / name).exists():
            shutil.copyfile(options.made / name, target / name)
    report = json.loads((options.made / "finetune.json").read_text(encoding="utf-8"))
    (target / "README.md").write_text(card(options.name, report, target), encoding="utf-8")
    write_manifest(target)
    for one in target.iterdir():
        one.chmod(0o644)  # weights are written for their owner alone
    print(f"{target.name}: {sum(one.stat().st_size for one in target.iterdir()) / 2**20:.2f} MiB")


def card(name: str, report: dict[str, Any], folder: Path) -> str:
    """Return the card of a shipped model as Markdown."""
    sources = {f"{source.name}.jsonl": source for source in SOURCES}
    used = {Path(one["name"]).name: one["rows"] for one in report["data"]["files"]}
    data = [[sources[file].file, str(rows), sources[file].licence] for file, rows in used.items()]
    settings = (folder / "finetune.toml").read_text(encoding="utf-8").rstrip()
    lines = [
        "---",
        "library_name: retriever",
        "license: apache-2.0",
        "base_model: HuggingFaceTB/SmolLM2-135M-Instruct",
        "pipeline_tag: feature-extraction",
        "---",
        "",
        f"# {name}",
        "",
        f"The `{name}` encoder of `retriever`: {report['method']} on SmolLM2-135M-Instruct, an adapter of rank "
        f"{report['config']['adapter']['rank']}.",
        "",
        "## Scores",
        "",
        "On texts held out of the training files, and on the package's general set; docs/models.md has the suites.",
        "",
        *scores(report),
        "",
        "![Loss by step, and the scores before and after](curves.svg)",
        "",
        "## Data",
        "",
        "Labels became answers to questions written for this project (`recipes/wordings.json`). Rows by file:",
        "",
        *table(["file", "rows", "licence"], data),
        "",
        f"{TEACHER}. Texts of evaluation files, dev and test parts, some wordings and some kinds of label were left "
        "out.",
        "",
        "## Recipe",
        "",
        f"`make train`, {report['steps']['done']} steps in {report['steps']['seconds'] / 60:.0f} minutes. Settings:",
        "",
        "```toml",
        settings,
        "```",
        "",
        ", ".join(f"{key} {value}" for key, value in report["versions"].items()),
        "",
        "## Limits",
        "",
        "English, short texts: training cut texts as the settings say. Kinds of instruction that are far from those in "
        "training are followed less well. It repeats what the data says, mistakes and prejudices included.",
        "",
    ]
    return "\n".join(lines)


def scores(report: dict[str, Any]) -> list[str]:
    """Return the table of scores before and after training."""
    rows = []
    for one in report["scores"]:
        cells = [ranged(**one[when]) for when in ("before", "after")]
        rows.append([f"{one['task']}, {one['metric']}", *cells, str(one["items"])])
    return table(["score", "before", "after", "items"], rows)


if __name__ == "__main__":
    main()
