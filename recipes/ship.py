"""Put a model that `retriever finetune` made with a recipe into the package, with its card; `make train` calls it.

The pieces of the training come in their order, and the last is what ships. What a user needs stays: weights, settings,
the picture, and a card that names data, licences, recipe and scores. A piece that teaches one thing forgets some of the
others; the mean of its weights and those of the piece before keeps most of both, and that of two trainings from one
start is better than either (Wortsman et al., "Model soups", 2022).
"""

import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from finding import FINDING
from kinds import FILES
from mixture import SOURCES
from safetensors.torch import load_file, save_file
from torch import Tensor

from retriever.core.errors import UsageError
from retriever.encoders.sources import check_manifest, write_manifest
from retriever.evaluation.run.report import ranged, table

TRAINING = "training.json"
TOLD = ("base", "method", "config", "data", "steps", "scores", "versions")
SHIPPED = Path(__file__).resolve().parents[1] / "retriever" / "pretrained"
KEPT = (
    "retriever.json",
    "adapter_config.json",
    "adapter_model.safetensors",
    "look_ahead.safetensors",
    "low_rank.safetensors",
    "answers.txt",
    "finetune.toml",
    "curves.svg",
)
NAMES = {"minilm": "all-MiniLM-L6-v2 (Apache-2.0)"}
BASES = {"instructor": "sentence-transformers/all-MiniLM-L6-v2"}
"""The model under a method; a language model where nothing else is said."""
LANGUAGE_MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"


def put(name: str, folders: Sequence[Path], *, keep: float = 0.0) -> Path:
    """Write the folder of a model and return it.

    Args:
        name: what it is called.
        folders: what `retriever finetune` wrote, piece by piece.
        keep: the share of the last piece but one in the mean of weights that ships; 0 for none.

    Raises:
        CheckpointError: a piece differs from its manifest.
    """
    for piece in folders:
        check_manifest(piece, hint="Train it again.")
    made = folders[-1]
    target = SHIPPED / name
    pieces = [Piece.read(folder) for folder in folders]
    pieces[-1] = replace(pieces[-1], keep=keep)
    record = json.dumps([asdict(piece) for piece in pieces], indent=1)
    described = card(name, pieces)
    weights = {file.name: load_file(file) for file in sorted(folders[-2].glob("*.safetensors"))} if keep else {}
    if target.exists():
        shutil.rmtree(target)
    target.mkdir(parents=True)
    for file in KEPT:
        if (made / file).exists():
            shutil.copyfile(made / file, target / file)
    for file, before in weights.items():
        save_file(mean(before, load_file(made / file), keep), target / file)
    (target / TRAINING).write_text(record + "\n", encoding="utf-8")
    (target / "README.md").write_text(described, encoding="utf-8")
    write_manifest(target)
    for path in target.iterdir():
        path.chmod(0o644)  # weights are written for their owner alone
    return target


def mean(before: Mapping[str, Tensor], after: Mapping[str, Tensor], keep: float) -> dict[str, Tensor]:
    """Return the weighted means of the tensors of two models of one make, ``keep`` being the share of the first."""
    return {
        name: torch.lerp(tensor.float(), before[name].float(), keep).to(tensor.dtype) for name, tensor in after.items()
    }


@dataclass(frozen=True, slots=True)
class Piece:
    """One run of the training.

    Attributes:
        report: what its report says of base, method, data, steps, scores and versions.
        settings: its settings as TOML.
        keep: share of the piece before in the mean of weights that was taken after it; 0 for none.
    """

    report: Mapping[str, Any]
    settings: str
    keep: float = 0.0

    @classmethod
    def read(cls, folder: Path) -> "Piece":
        """Return what a folder tells of its run."""
        report = json.loads((folder / "finetune.json").read_text(encoding="utf-8"))
        report["base"] = {"name": Path(report["base"]["name"]).name}  # where it lay is nobody's business
        report["data"] = {"files": [{**file, "name": Path(file["name"]).name} for file in report["data"]["files"]]}
        return cls({key: report[key] for key in TOLD}, (folder / "finetune.toml").read_text(encoding="utf-8").rstrip())


def card(name: str, pieces: Sequence[Piece]) -> str:
    """Return the card of a shipped model as Markdown."""
    last = pieces[-1].report
    base = BASES.get(last["method"], LANGUAGE_MODEL)
    lines = [
        "---",
        "library_name: retriever",
        "license: apache-2.0",
        f"base_model: {base}",
        "pipeline_tag: feature-extraction",
        "---",
        "",
        f"# {name}",
        "",
        f"The `{name}` encoder of `retriever`: {last['method']} on {base.rpartition('/')[2]}, an adapter of rank "
        f"{last['config']['adapter']['rank']}.",
        "",
        "## Scores",
        "",
        "On rows that the piece did not learn from, though an earlier one may have, and on the package's general set, "
        "without a mean of weights. docs/models.md has the suites, on test rows.",
        "",
        f"Before piece 1 stands `{pieces[0].report['base']['name']}`.",
        "",
        *scores(pieces),
        "",
        "![Loss by step, and the scores before and after](curves.svg)",
        "",
        "## Data",
        "",
        "Labels became answers to questions written for this project (`recipes/wordings.json`). Questions by file that "
        "each piece of the training drew from; its steps may have read fewer:",
        "",
        *data(pieces),
        "",
        f"{teachers(pieces)} Texts of evaluation files, dev and test parts, some wordings and some kinds of label were "
        "left out; docs/models.md says what slipped through.",
        "",
        "## Recipe",
        "",
        "`make train`.",
        "",
        *recipe(pieces),
        ", ".join(f"{key} {value}" for key, value in last["versions"].items()),
        "",
        "## Limits",
        "",
        "English, short texts: training cut texts as the settings say. Kinds of instruction that are far from those in "
        "training are followed less well. It repeats what the data says, mistakes and prejudices included.",
        "",
    ]
    return "\n".join(lines)


def data(pieces: Sequence[Piece]) -> list[str]:
    """Return the table of files, the rows that each piece was given of them, and their licences.

    Raises:
        UsageError: a piece read a file whose licence is not known here.
    """
    used: list[Counter[str]] = [Counter() for _ in pieces]
    for counts, piece in zip(used, pieces, strict=True):
        for file in piece.report["data"]["files"]:
            counts[Path(file["name"]).stem.removeprefix(FINDING)] += file["rows"]
    known = {source.name: (source.file, source.licence) for source in (*SOURCES, *FILES)}
    if unknown := set().union(*used) - known.keys():
        raise UsageError(
            f"No licence is known of {', '.join(sorted(unknown))}.", hint="Name it where its rows are made."
        )
    rows = [
        [file, *(str(counts[name]) for counts in used), licence]
        for name, (file, licence) in known.items()
        if any(name in counts for counts in used)
    ]
    return table(["file", *(f"piece {number}" for number in range(1, len(pieces) + 1)), "licence"], rows)


def teachers(pieces: Sequence[Piece]) -> str:
    """Return sentences on the encoders that the pieces learned similarities from."""
    sentences: dict[str, None] = {}
    for config in (piece.report["config"] for piece in pieces):
        for section, where in (("similarity", "the default instruction"), ("objective", "every question")):
            teacher = config.get(section, {}).get("teacher")
            if teacher and config[section].get("weight") != 0:
                sentences[f"{NAMES.get(teacher, f'`{teacher}`')} taught similarities under {where}."] = None
    return " ".join(sentences)


def recipe(pieces: Sequence[Piece]) -> list[str]:
    """Return what every piece was told, and how long it took."""
    lines = []
    for number, piece in enumerate(pieces, start=1):
        done, minutes = piece.report["steps"]["done"], piece.report["steps"]["seconds"] / 60
        lines += [f"Piece {number}, {piece.report['method']}: {done} steps in {minutes:.0f} minutes.", ""]
        lines += ["```toml", piece.settings, "```", ""]
        if piece.keep:
            lines += [f"Then the mean of the weights was taken: {piece.keep:.2g} of those of piece {number - 1}.", ""]
    return lines


def scores(pieces: Sequence[Piece]) -> list[str]:
    """Return the table of scores before and after every piece."""
    rows = []
    for number, piece in enumerate(pieces, start=1):
        for score in piece.report["scores"]:
            cells = [ranged(**score[when]) for when in ("before", "after")]
            rows.append([str(number), f"{score['task']}, {score['metric']}", *cells, str(score["items"])])
    return table(["piece", "score", "before", "after", "items"], rows)
