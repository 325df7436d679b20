r"""What units find that whole reviews do not: labelled (aspect, polarity) pairs of restaurant reviews, and the cost.

    python benchmarks/units.py DATA --output benchmarks/results/units.json

DATA holds aspects_mams.jsonl, whose test rows are single sentences that speak of two or more things. They are indexed
as they are, and put together at random to reviews of three. Every pair with enough reviews is a query ("the staff is
bad"), asked for as many reviews as carry its label; a pair of a review counts as found where the review is among the
hits. So all kinds of unit return equally many reviews. Every search is the product's. A text that several indexes hold
is read once, and its processor time counted for each of them: a pass's, shared out by tokens.
"""

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import write

from retriever import load_encoder
from retriever.core.encoder import Encoder, WrappedEncoder
from retriever.core.requests import SearchRequest
from retriever.core.types import Document, Encoded
from retriever.evaluation.run.report import table as report_table
from retriever.index.indexing import IndexingOptions
from retriever.store.units import KINDS, UnitKind
from retriever.workspace import Index

INSTRUCTION = "What does the guest praise or criticise?"
QUERIES = {
    "positive": "the {} is good",
    "negative": "the {} is bad",
    "neutral": "the {} is mentioned without praise or blame",
}
CORPORA = ("rows as they are", "reviews of three")
COLUMNS = ("plain, praise and blame", "plain, all pairs", "instruction, praise and blame", "instruction, all pairs")
FEWEST = 5
"""Reviews that a pair has to have to be asked for."""
RESAMPLES = 2000
PASS = 32
"""Texts read together."""

Pair = tuple[str, str]


@dataclass(frozen=True)
class Review:
    """A review with its labelled pairs."""

    document: Document
    pairs: frozenset[Pair]


def main() -> None:
    """Measure and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoder", default="default")
    parser.add_argument("--rows", type=int, default=240, help="test rows; a multiple of three")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rows = read_rows(options.data / "aspects_mams.jsonl", options.rows, options.seed)
    question, plain = Remembering(load_encoder(options.encoder)), Remembering(load_encoder("minilm"))
    corpora = dict(zip(CORPORA, (rows, joined(rows)), strict=True))
    report: dict[str, Any] = {"fingerprints": {"question": question.fingerprint, "plain": plain.fingerprint}}
    for name, reviews in corpora.items():
        wanted = asked_for(reviews)
        measured = {kind: measure(reviews, wanted, kind, question, plain) for kind in KINDS}
        report[name] = {
            "reviews": len(reviews),
            "pairs": len(wanted),
            "labelled": sum(len(one) for one in wanted.values()),
            "kinds": {kind: shares(one, measured["documents"], wanted, len(reviews)) for kind, one in measured.items()},
        }
    write("units", options, report)


def section(report: Mapping[str, Any]) -> list[str]:
    """Return what docs/evaluation.md says of a report."""
    prints = {name: one[:12] for name, one in report["fingerprints"].items()}
    lines = [
        "Share of labelled (aspect, polarity) pairs of MAMS test rows that are found when every pair is asked for as",
        "many reviews as carry it, in percent, and in brackets how much more that is than by whole reviews, in points,",
        "with the 95 % interval over resampled reviews; first for praise and blame, then for all pairs, neutral ones",
        "among them. The rows are single sentences that speak of two or more things; three of them, drawn at random,",
        f"make a longer review. `python benchmarks/units.py DATA`, {report['machine']['date'][:10]},",
        f"{report['machine']['cpu']}, load average {report['machine']['load_average']:.0f}; fingerprints",
        f"{prints['question']} (asked) and {prints['plain']} (plain).",
        "",
    ]
    for name in CORPORA:
        one = report[name]
        lines += [f"**{one['reviews']} {name}**, {one['labelled']} labels of {one['pairs']} pairs:", ""]
        rows = [[kind, *map(_cell, (found[column] for column in COLUMNS)), *_cost(found["cost"])]
                for kind, found in one["kinds"].items()]  # fmt: skip
        header = ["units", *COLUMNS, "units a review", "processor seconds, plain and asked", "MB of vectors and index"]
        lines += [*report_table(header, rows), ""]
    return lines


def _cell(found: Mapping[str, Any]) -> str:
    low, high = found["interval"]
    return f"{found['share']:.1f} ({found['more than whole reviews']:+.1f} [{low:+.1f}, {high:+.1f}])"


def _cost(cost: Mapping[str, Any]) -> list[str]:
    seconds = f"{cost['processor seconds, plain reader']:.1f}, {cost['processor seconds, question reader']:.1f}"
    size = f"{cost['bytes of vectors'] / 1e6:.2f}, {cost['bytes of the index'] / 1e6:.2f}"
    return [f"{cost['units per review']:.2f}", seconds, size]


def read_rows(path: Path, count: int, seed: int) -> list[Review]:
    """Return test rows of MAMS, drawn at random."""
    with path.open(encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if row["split"] == "test"]
    return [
        Review(Document(row["id"], row["text"]), frozenset((one["aspect"], one["polarity"]) for one in row["aspects"]))
        for row in random.Random(seed).sample(rows, min(count, len(rows)))
    ]


def joined(rows: Sequence[Review]) -> list[Review]:
    """Return reviews of three rows each, with the pairs of all of them."""
    found = []
    for place in range(0, len(rows) - 2, 3):
        parts = rows[place : place + 3]
        text = " ".join(one.document.text for one in parts)
        found.append(Review(Document(f"review-{place // 3}", text), frozenset().union(*(one.pairs for one in parts))))
    return found


def asked_for(reviews: Sequence[Review]) -> dict[Pair, frozenset[str]]:
    """Return the pairs that enough reviews carry, with the ids of these."""
    pairs = sorted({pair for one in reviews for pair in one.pairs})
    held = {pair: frozenset(one.document.id for one in reviews if pair in one.pairs) for pair in pairs}
    return {pair: ids for pair, ids in held.items() if len(ids) >= FEWEST}


class Remembering(WrappedEncoder):
    """An encoder that reads a document once, and knows what that took.

    Attributes:
        seconds: of the processor, that reading what was asked for since it was last set to nought takes.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder)
        self.seconds = 0.0
        self._known: dict[tuple[str, str], tuple[np.ndarray, list[str], float]] = {}

    def encode_views(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        words: int = 0,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        """Read what is not known; queries, which ask for no words, are read as ever."""
        if not words:
            return super().encode_views(texts, instructions)
        return [self._read(texts, instruction, words) for instruction in instructions]

    def _read(self, texts: Sequence[str], instruction: str, words: int) -> Encoded:
        new = [text for text in dict.fromkeys(texts) if (text, instruction) not in self._known]
        for start in range(0, len(new), PASS):
            some = new[start : start + PASS]
            started, tokens = time.process_time(), self.count_tokens(some)
            (encoded,) = super().encode_views(some, [instruction], words=words)
            each = (time.process_time() - started) / sum(tokens)
            for text, row, answer, count in zip(some, encoded.embeddings, encoded.words, tokens, strict=True):
                self._known[text, instruction] = (row, answer, each * count)
        found = [self._known[text, instruction] for text in texts]
        self.seconds += sum(seconds for *_, seconds in found)
        return Encoded(np.array([row for row, *_ in found], dtype=np.float32), [answer for _, answer, _ in found])


def measure(
    reviews: Sequence[Review],
    wanted: Mapping[Pair, frozenset[str]],
    kind: UnitKind,
    question: Remembering,
    plain: Remembering,
) -> dict[str, Any]:
    """Index reviews in units of a kind, ask for every pair, and return what was found and what it took."""
    with tempfile.TemporaryDirectory() as folder:
        with Index(Path(folder) / "index", encoder=question, plain=plain) as index:
            question.seconds = plain.seconds = 0.0
            index.add([one.document for one in reviews], options=IndexingOptions(units=kind))
            index.complete([INSTRUCTION])
            found = {asked: {pair: hits(index, pair, asked, len(ids)) for pair, ids in wanted.items()}
                     for asked in ("", INSTRUCTION)}  # fmt: skip
            status = index.status()
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
    cost = {
        "units": status.unit_count,
        "units per review": round(status.unit_count / len(reviews), 2),
        "processor seconds, plain reader": round(plain.seconds, 2),
        "processor seconds, question reader": round(question.seconds, 2),
        "bytes of vectors": sum(view.bytes for view in status.views),
        "bytes of the index": size,
    }
    return {"found": found, "cost": cost}


def hits(index: Index, pair: Pair, instruction: str, count: int) -> frozenset[str]:
    """Return the ids of as many reviews as there are for a pair."""
    aspect, polarity = pair
    request = SearchRequest([QUERIES[polarity].format(aspect)], instruction, count)
    return frozenset(hit.document.id for hit in index.search_many(request)[0].hits)


def shares(
    one: Mapping[str, Any], whole: Mapping[str, Any], wanted: Mapping[Pair, frozenset[str]], reviews: int
) -> dict[str, Any]:
    """Return the share of the labelled pairs that was found, and that less the share by whole reviews."""
    report: dict[str, Any] = {"cost": one["cost"]}
    for asked, found in one["found"].items():
        for kinds in (("positive", "negative"), tuple(QUERIES)):
            name = f"{'instruction' if asked else 'plain'}, {'all pairs' if len(kinds) > 2 else 'praise and blame'}"
            pairs = {pair: ids for pair, ids in wanted.items() if pair[1] in kinds}
            ours, theirs = (table(side, pairs) for side in (found, whole["found"][asked]))
            report[name] = {"share": round(100 * float(ours[:, 0].sum() / ours[:, 1].sum()), 1)} | difference(
                ours, theirs
            )
    return report


def table(found: Mapping[Pair, frozenset[str]], pairs: Mapping[Pair, frozenset[str]]) -> np.ndarray:
    """Return by review (reviews, 2) how many of its pairs were found, and how many it has."""
    ids = sorted({id for group in pairs.values() for id in group})
    rows = [
        [
            sum(id in found[pair] for pair, group in pairs.items() if id in group),
            sum(id in group for group in pairs.values()),
        ]
        for id in ids
    ]
    return np.array(rows, dtype=np.float64)


def difference(ours: np.ndarray, theirs: np.ndarray) -> dict[str, Any]:
    """Return how much larger a share is than another, in points, with its 95 % interval over resampled reviews."""
    random_rows = np.random.default_rng(0).integers(0, len(ours), (RESAMPLES, len(ours)))
    gains = (ours[random_rows, 0].sum(axis=1) - theirs[random_rows, 0].sum(axis=1)) / ours[random_rows, 1].sum(axis=1)
    low, high = np.percentile(100 * gains, [2.5, 97.5])
    gain = 100 * (ours[:, 0].sum() - theirs[:, 0].sum()) / ours[:, 1].sum()
    return {"more than whole reviews": round(float(gain), 1), "interval": [round(float(low), 1), round(float(high), 1)]}


if __name__ == "__main__":
    main()
