"""The part of docs/evaluation.md about teaching, of what `teach.py` found."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from retriever.evaluation.run.report import table

RESULTS = Path(__file__).parent / "results" / "teach.json"
PEERS = "teach_peers.json"
"""Beside it, the same with the peers that train a model, of fewer kinds and draws."""

TUNED = "teach_tuned.json"
"""Beside it, the same with the plain reader fine-tuned, of fewer kinds and draws."""

_NAMES = {"before": "untaught", "tuned": "taught, `--tune`"}


def section(results: Path = RESULTS) -> list[str]:
    """Return the lines of the part, those of fine-tuning and of the peers where these were measured."""
    if not results.is_file():
        return ["## Taught by examples", "", "Not measured yet: `python benchmarks/teach.py DATA DATA2`.", ""]
    found = json.loads(results.read_text(encoding="utf-8"))
    machine, draws = found["machine"], found["options"]["draws"]
    by = f"encoder {found['fingerprint'][:12]}, {machine['date'][:10]}, {machine['cpu']}"
    lines = [
        "## Taught by examples",
        "",
        "What a few examples an answer teach of a question (`retriever teach`), in percent, on texts that were no",
        "examples: balanced accuracy of the answer given, triplets, V-measure of as many clusters as there are",
        f"answers; means over {draws} draws of the examples. A kind counts as followed where asking it gains 5 points",
        "of triplets or more over not asking. Untaught, a text gets the answer whose examples' mean is nearest.",
        f"`benchmarks/teach.py DATA DATA2`, {by}",
        "beside other work: seconds say how methods compare, no more.",
        "",
    ]
    beside = []
    for name, told in ((TUNED, _tuned), (PEERS, _peers)):
        file = results.with_name(name)
        beside += told(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else []
    return [*lines, *_means(found["means"]), "", *beside, *_kinds(found["kinds"]), ""]


def _tuned(found: Mapping[str, Any]) -> list[str]:
    return _part(found, "--tune", ["With the plain reader fine-tuned on the examples (`retriever teach --tune`)."])


def _peers(found: Mapping[str, Any]) -> list[str]:
    said = [
        "Beside peers that train a model on the same examples: SetFit's recipe on MiniLM (2209.11055), and `retriever",
        "finetune` of the question reader, which wants 20 rows or more.",
    ]
    return _part(found, "--setfit --finetune", said)


def _part(found: Mapping[str, Any], options: str, said: list[str]) -> list[str]:
    """Return what some options measured: what is said of it, how it was found, its means, and of which kinds."""
    draws, machine = found["options"]["draws"], found["machine"]
    return [
        *said,
        f"{draws} draw{'s' if draws > 1 else ''} a kind; {found['note']}",
        f"`benchmarks/teach.py DATA DATA2 {options}`, encoder {found['fingerprint'][:12]},"
        f" {machine['date'][:10]}, {machine['cpu']}.",
        "",
        *_means(found["means"]),
        "",
        f"Kinds: {', '.join(sorted(one['kind'] for one in found['kinds']))}.",
        "",
    ]


def _means(means: Mapping[str, Any]) -> list[str]:
    rows = [
        [
            f"{group} ({found['kinds']})",
            number,
            _NAMES.get(method, method),
            *(f"{scores[name]:.1f}" for name in ("accuracy", "triplets", "v_measure")),
            f"{scores['seconds']:.2f}",
        ]
        for group, found in means.items()
        for number, methods in found["examples"].items()
        for method, scores in methods.items()
    ]
    return table(["kinds", "examples an answer", "method", "accuracy", "triplets", "V-measure", "seconds"], rows)


def _kinds(kinds: list[Mapping[str, Any]]) -> list[str]:
    numbers = list(dict.fromkeys(number for one in kinds for number in one["examples"]))
    rows = []
    for one in sorted(kinds, key=lambda kind: kind["asked"] - kind["unasked"]):
        taught = [one["examples"][number].get("taught", {}).get("triplets") for number in numbers]
        told = ["-" if value is None else f"{value:.1f}" for value in taught]
        plain = [one["kind"], one["question"], str(one["answers"]), f"{one['unasked']:.1f}", f"{one['asked']:.1f}"]
        rows.append([*plain, *told])
    header = ["kind", "question", "answers", "triplets, not asked", "asked"]
    return table([*header, *(f"taught by {number}" for number in numbers)], rows)
