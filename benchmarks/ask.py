r"""Measure a language model as the reader: searches and clusters by answers that were written by reading, blind.

    PYTHONPATH=tests/contracts:tests/index python benchmarks/ask.py DATA [DATA ...] \
        --output benchmarks/results/ask.json.gz

Two corpora with twelve questions each (benchmarks/data). Answers were written from the questions alone, and who judged
which texts meet a question's criterion saw no answers. Searches are the product's. ``search`` measures precision@10
without a question and by the shipped reader, ``answers`` by answers in words, ``settings`` with other settings of lazy
searches; ``clusters`` V-measures; ``wire`` calls, tokens, faults and texts that give orders, with the reader that asks
over HTTP; ``kills`` what is asked twice when processes die. Parts that are not run stay in the output as they were.
"""

import argparse
import gzip
import json
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ask_clusters import clusters
from ask_data import SOURCES, Material, load_grades, load_material
from ask_kills import kills
from ask_readers import Traffic, on_the_wire, replaying, traffic
from ask_search import Bench, Curve, Readers, gained, interval, read_all
from ask_wire import faults, injection
from common import machine

from retriever import load_encoder
from retriever.core.requests import SearchOptions

WRONG = (0.15, 0.30)
ANSWER_SETTINGS = {
    f"{texts} texts, {rounds} rounds": SearchOptions(costly_texts=texts, costly_rounds=rounds)
    for texts, rounds in ((60, 1), (30, 2), (12, 5), (20, 6))
}
WEIGHTS = {
    f"weights {words:g} of words, {plain:g} of the base encoder": SearchOptions(
        answer_word_weight=words, answer_plain_weight=plain
    )
    for words, plain in ((0.0, 0.0), (0.05, 0.0), (0.05, 0.5), (0.2, 0.5))
}


def search(bench: Bench) -> dict[str, Any]:
    """Return precision@10 without a question, and under it as the shipped reader has it."""
    material = bench.material
    curves = {
        "plain": bench.plain(),
        "default, lazy": bench.default(complete=False),
        "default, complete": bench.default(complete=True),
        "taught, complete": bench.taught(material.answers()),
    }
    pairs = [("default, lazy", "default, complete"), ("default, complete", "plain"), ("taught, complete", "plain")]
    return {
        "texts": len(material.texts),
        "questions": [question.key for question in material.questions],
        "relevant": [len(material.relevant(question)) for question in material.questions],
        "reachable": interval(bench.reachable()),
        **_reported(curves, pairs),
    }


def answers(bench: Bench) -> dict[str, Any]:
    """Return precision@10 by answers in words, judged or not, all of them right, or some of them another text's."""
    curves = {"plain": bench.plain()}
    pairs = [("answers, lazy", "answers, complete"), ("answers, lazy", "plain"), ("answers, complete", "plain")]
    for reach in ("lazy", "complete"):
        curves[f"answers judged, {reach}"] = bench.answered(
            bench.material.answers(), load_grades(bench.material), complete=reach == "complete"
        )
        pairs.append((f"answers judged, {reach}", f"answers, {reach}"))
    for share in (0.0, *WRONG):
        known, name = bench.material.answers(wrong=share), f"answers, {share:.0%} wrong" if share else "answers"
        curves[f"{name}, lazy"] = bench.answered(known)
        curves[f"{name}, complete"] = bench.answered(known, complete=True)
        if share:
            pairs += [(f"{name}, {reach}", f"answers, {reach}") for reach in ("lazy", "complete")]
    return _reported(curves, pairs)


def _reported(curves: Mapping[str, Curve], pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return {
        "ways": {name: curve.to_json() for name, curve in curves.items()},
        "differences": {f"{ours} - {theirs}": gained(curves[ours], curves[theirs]) for ours, theirs in pairs},
    }


def settings(bench: Bench) -> dict[str, Any]:
    """Return precision@10 by answers, with other rounds and other weights of what the answers leave out."""
    known = bench.material.answers()
    report = {}
    for name, options in (ANSWER_SETTINGS | WEIGHTS).items():
        report[f"answers, lazy, {name}"] = bench.answered(known, options=options).to_json()
    for name, options in WEIGHTS.items():
        report[f"answers, complete, {name}"] = bench.answered(known, complete=True, options=options).to_json()
    return report


def wire(bench: Bench) -> dict[str, Any]:
    """Return what searches cost over HTTP, by question, and what faults and orders come to."""
    material, model = bench.material, replaying(bench.material.answers(), load_grades(bench.material))
    with on_the_wire(model) as reader, bench.opened(bench.copied(bench.base())) as index:
        index.teaching.read_by(material.questions[0].question, reader)
        met = len(model.requests)  # the reader's probes
        curve = bench.searched(index, reader, judge=True)
        lazy = traffic(model, met)
        whole = len(model.requests)
        with bench.opened(bench.copied(bench.base())) as other:
            other.teaching.read_by(material.questions[0].question, reader)
            whole = len(model.requests)
            read_all(other, [question.question for question in material.questions], reader)
    return {
        "lazy": _a_question(lazy, material),
        "precision_lazy": interval(curve.score()),
        "every_text": _a_question(traffic(model, whole), material),
        "faults": faults(material),
        "injection": injection(material),
    }


def _a_question(counted: Traffic, material: Material) -> dict[str, float]:
    count = len(material.questions)
    return {
        "calls": round(counted.calls / count, 1),
        "texts": round(counted.texts / count, 1),
        "tokens_sent": round(counted.sent / count),
        "tokens_received": round(counted.received / count),
    }


PARTS: dict[str, Callable[[Bench], dict[str, Any]]] = {
    "search": search,
    "answers": answers,
    "settings": settings,
    "clusters": clusters,
    "wire": wire,
    "kills": lambda bench: kills(bench.material, bench.folder),
}


def measure(materials: Sequence[Material], readers: Readers, parts: Sequence[str]) -> dict[str, Any]:
    """Return the report of each part, by corpus."""
    report: dict[str, Any] = {part: {} for part in parts}
    with tempfile.TemporaryDirectory() as folder:
        for material in materials:
            bench = Bench(material, readers, Path(folder))
            for part in parts:
                began = time.perf_counter()
                report[part][material.name] = PARTS[part](bench)
                print(material.name, part, round(time.perf_counter() - began), "s", file=sys.stderr, flush=True)
    return report


def main() -> None:
    """Parse the options, measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+", help="folders with the files of the corpora")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="all without it")
    parser.add_argument("--corpora", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    readers = Readers(load_encoder("default"), load_encoder("minilm"))
    materials = [load_material(name, options.data) for name in options.corpora]
    measured = measure(materials, readers, options.only)
    before = (
        json.loads(gzip.decompress(options.output.read_bytes())) if options.output and options.output.exists() else {}
    )
    command = shlex.join(["benchmarks/ask.py", "DATA", "--only", *options.only])
    fingerprints = {"default": readers.encoder.fingerprint, "minilm": readers.plain.fingerprint}
    parts = before.get("parts", {})
    for part, corpora in measured.items():
        circumstances = {"command": command, "machine": machine(), "fingerprints": fingerprints}
        parts[part] = {**circumstances, "corpora": parts.get(part, {}).get("corpora", {}) | corpora}
    text = json.dumps({"benchmark": "ask", "parts": {name: parts[name] for name in PARTS if name in parts}}, indent=2)
    print(text)
    if options.output:
        options.output.write_bytes(gzip.compress(f"{text}\n".encode(), mtime=0))


if __name__ == "__main__":
    main()
