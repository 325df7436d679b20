"""Does a shipped model follow questions that its training kept out? Wordings it never met, and whole kinds of label.

    python benchmarks/unmet_questions.py DATA --output benchmarks/results/unmet_questions.json

For every kind of label of the recipe, texts of test rows make triplets: a text, one with the same label, one with
another. A triplet counts when the two that share the label are nearer. Each kind is asked in three wordings of the
training, in three that it kept out, and not at all: without a question half or a little more come right by chance and
by what texts with one label have in common anyhow. Kinds that were kept out whole have no wording of the training.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import write
from numpy.typing import NDArray

from retriever import load_encoder
from retriever.core.protocols import Encoder
from retriever.core.types import Embeddings
from retriever.evaluation.metrics import triplet_successes
from retriever.evaluation.rows import held_out, read_rows, sample
from retriever.evaluation.scores import mean_score

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "recipes"))

from derived import DERIVED
from label_types import load_label_types
from mixture import SOURCES, nothing

WORDINGS = 3
PER_ANCHOR = 5
LEAST_TEXTS = 40
UNASKED, TRAINED, UNMET = "no question", "trained wordings", "unmet wordings"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of label with its texts.

    Attributes:
        name: of the kind.
        kept_out: whether training never asked for it.
        asked: wordings by what they are to training.
        labels: by text.
    """

    name: str
    kept_out: bool
    asked: Mapping[str, Sequence[str]]
    labels: Mapping[str, str]


def main() -> None:
    """Parse the options, measure every kind, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoder", default="pretrained:default")
    parser.add_argument("--limit", type=int, default=120, help="Most texts of a kind.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    encoder = load_encoder(options.encoder)
    found = []
    for kind in kinds(options.data, options.limit, options.seed):
        found.append(measured(encoder, kind, options.seed))
        print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    write("unmet_questions", options, {"means": means(found), "kinds": found})


def kinds(data: Path, limit: int, seed: int) -> Iterator[Kind]:
    """Yield the kinds of label that have no names in their wordings and enough test texts."""
    labels: dict[str, dict[str, str]] = defaultdict(dict)
    texts: list[str] = []
    for source in (one for one in SOURCES if one.labels is not nothing):
        rows = sample(held_out(read_rows(data, source.file)), 10 * limit, seed=seed)
        texts += [row.get("text", str) for row in rows]
        for row in rows:
            for label in source.labels(row.values):
                labels[label.kind].setdefault(row.get("text", str), label.value)
            if source.name == "reviews":
                labels["star_rating"][row.get("text", str)] = str(row.get("labels.stars", float))
            if source.name == "emotions":
                labels["ekman_emotion"][row.get("text", str)] = row.get("labels.ekman", str)
    for name, kind in load_label_types().items():
        if not kind.fields:
            asked = _asked(kind.wordings, kind.held_out, kind.whole_type_held_out)
            yield from _usable(Kind(name, kind.whole_type_held_out, asked, labels[name]), limit, seed)
    for one in DERIVED:
        seen = {text: label for text in dict.fromkeys(texts) if (label := one.rule(text)) is not None}
        asked = _asked(one.wordings, one.held_out, one.held_out_type)
        yield from _usable(Kind(one.name, one.held_out_type, asked, seen), limit, seed)


def measured(encoder: Encoder, kind: Kind, seed: int) -> dict[str, Any]:
    """Return the share of triplets that come right unasked and under each sort of wording, with intervals."""
    texts, labels = list(kind.labels), np.array(list(kind.labels.values()))
    triplets = drawn(labels, seed)
    asked = [(UNASKED, ""), *((sort, wording) for sort, wordings in kind.asked.items() for wording in wordings)]
    by_sort: dict[str, list[NDArray[np.float64]]] = defaultdict(list)
    for (sort, _), view in zip(asked, encoder.encode_many(texts, [wording for _, wording in asked]), strict=True):
        by_sort[sort].append(successes(view, triplets))
    found = {}
    for sort, values in by_sort.items():
        score = mean_score(kind.name, sort, np.mean(values, axis=0), seed=seed, scale=100)
        found[sort] = [round(float(one), 2) for one in (score.value, score.low, score.high)]
    counts = {"texts": len(texts), "labels": len(set(labels.tolist()))}
    return {"kind": kind.name, "kept_out": kind.kept_out, **counts, **found}


def drawn(labels: NDArray[np.str_], seed: int) -> NDArray[np.int64]:
    """Return triplets (anchors, PER_ANCHOR, 3): a text, one with its label, one with another."""
    generator = np.random.default_rng(seed)
    found = []
    for anchor, label in enumerate(labels):
        same = np.flatnonzero((labels == label) & (np.arange(len(labels)) != anchor))
        other = np.flatnonzero(labels != label)
        if len(same) and len(other):
            pairs = (
                np.full(PER_ANCHOR, anchor),
                generator.choice(same, PER_ANCHOR),
                generator.choice(other, PER_ANCHOR),
            )
            found.append(np.stack(pairs, axis=1))
    return np.array(found)


def successes(view: Embeddings, triplets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return each anchor's share of triplets that come right."""
    anchors, same, other = (view[triplets[:, :, place]] for place in range(3))  # (anchors, PER_ANCHOR, dim) each
    return triplet_successes(anchors, same, other).mean(axis=1)


def means(found: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the mean over kinds of every sort, for kinds that training asked for and those it did not."""
    parts = {"trained kinds": False, "kept-out kinds": True}
    return {
        name: {
            sort: round(float(np.mean([one[sort][0] for one in found if one["kept_out"] == kept_out])), 2)
            for sort in (UNASKED, TRAINED, UNMET)
            if any(sort in one for one in found if one["kept_out"] == kept_out)
        }
        for name, kept_out in parts.items()
        if any(one["kept_out"] == kept_out for one in found)
    }


def _asked(wordings: Sequence[str], held_out_wordings: Sequence[str], kept_out: bool) -> dict[str, Sequence[str]]:
    if kept_out:
        return {UNMET: [*held_out_wordings, *wordings][:WORDINGS]}
    return {TRAINED: wordings[:WORDINGS], UNMET: held_out_wordings[:WORDINGS]}


def _usable(kind: Kind, limit: int, seed: int) -> Iterator[Kind]:
    """Yield the kind with as many texts as wanted, two of every label in turn, if there are enough."""
    by_label: dict[str, list[str]] = defaultdict(list)
    for text in sample(list(kind.labels), None, seed=seed):
        by_label[kind.labels[text]].append(text)
    many = [texts for texts in by_label.values() if len(texts) > 1]
    places = {text: place // 2 for texts in many for place, text in enumerate(texts)}
    chosen = sorted(places, key=places.__getitem__)[:limit]
    if len(chosen) >= LEAST_TEXTS and len(many) > 1:
        yield Kind(kind.name, kind.kept_out, kind.asked, {text: kind.labels[text] for text in chosen})


if __name__ == "__main__":
    main()
