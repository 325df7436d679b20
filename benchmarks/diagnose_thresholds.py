"""How the signals of `retriever diagnose` go with the truth, so that its thresholds can be set from measurements.

    python benchmarks/diagnose_thresholds.py DATA --output benchmarks/results/diagnose_thresholds.json

DATA holds ``reviews_dmaste.jsonl``, rows with ``text``, ``labels.category`` and ``labels.polarity``. For every encoder
and instruction the signals stand next to the AUC of cosines on pairs that share the label the instruction asks for and
pairs that do not, and next to that AUC in the base view: an obeyed instruction lifts the one over the other.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from common import write

from retriever import load_encoder
from retriever.evaluation.rows import LabelledRow, read_rows, sample
from retriever.evaluation.run.diagnosing import TextPair, diagnose

DATA = "reviews_dmaste.jsonl"
ENCODERS = ("pretrained:default", "plain", "inbedder", "instemb", "gircse", "minilm")
INSTRUCTIONS = {
    "labels.category": (
        "What kind of product is this review about?",
        "Which category does the product belong to?",
        "product category",
    ),
    "labels.polarity": (
        "Is the review positive or negative?",
        "How does the customer feel about the product?",
        "sentiment of the review",
    ),
}


def labelled_pairs(rows: Sequence[LabelledRow], label: str, count: int, seed: int) -> list[TextPair]:
    """Return about ``count`` pairs of different texts, half of one label, drawn with a seed."""
    generator = np.random.default_rng(seed)
    wanted = {True: count // 2, False: count - count // 2}
    pairs = []
    for _ in range(100 * count):
        one, other = (rows[place] for place in generator.choice(len(rows), 2, replace=False))
        same = one.get(label, str) == other.get(label, str)
        if wanted[same] and one.get("text", str) != other.get("text", str):
            wanted[same] -= 1
            pairs.append(TextPair(one.get("text", str), other.get("text", str), same))
        if not any(wanted.values()):
            break
    return pairs


def main() -> None:
    """Parse the options, measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoder", action="append", default=[])
    parser.add_argument("--limit", type=int, default=80, help="Texts a diagnosis looks at.")
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rows = sample(read_rows(options.data, DATA), options.limit, seed=options.seed)
    texts = [row.get("text", str) for row in rows]
    found: list[dict[str, Any]] = []
    for name in options.encoder or ENCODERS:
        encoder = load_encoder(name)
        for label, instructions in INSTRUCTIONS.items():
            pairs = labelled_pairs(rows, label, options.pairs, options.seed)
            for instruction in instructions:
                seen = diagnose(encoder, texts, instruction, pairs)
                signals = seen.to_json()
                shifts = {key: signals[key] for key in ("base", "paraphrase", "unrelated", "negated", "selectivity")}
                truth = {key: round(value, 4) for key, value in asdict(seen.pairs).items()} if seen.pairs else {}
                found.append({"encoder": name, "label": label, "instruction": instruction, **shifts, "pairs": truth})
    aucs = np.array([one["pairs"]["auc"] for one in found])
    gains = aucs - [one["pairs"]["base_auc"] for one in found]
    selectivity = np.array([one["selectivity"] for one in found])
    correlations = {
        "selectivity_with_auc": _rank_correlation(selectivity, aucs),
        "selectivity_with_gain": _rank_correlation(selectivity, gains),
    }
    write("diagnose_thresholds", options, {"rank_correlations": correlations, "diagnoses": found})


def _rank_correlation(a: np.ndarray, b: np.ndarray) -> float | None:
    from scipy.stats import spearmanr

    return round(float(spearmanr(a, b).statistic), 3) if len(a) > 2 else None


if __name__ == "__main__":
    main()
