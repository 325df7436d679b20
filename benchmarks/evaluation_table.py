"""Every suite on the encoders to beat, and the page that shows them.

    python benchmarks/evaluation_table.py DATA --limit 300

Finished tasks are kept in the cache and embeddings too, so the command can be stopped and run again; what is found goes
to ``benchmarks/results/evaluation.json`` suite by suite, and from there to ``docs/evaluation.md``. ``--write`` makes
the page from what is there and measures nothing.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import units
from classify_table import categories_section
from common import machine
from reading_table import reading_section
from shared_passes import SharedPasses
from teach_table import section
from verdict_table import verdict_lines

from retriever import load_encoder
from retriever.core.encoder import Encoder, EncoderSpec, WrappedEncoder
from retriever.core.fingerprint import content_hash
from retriever.core.paths import cache_dir
from retriever.core.types import Encoded
from retriever.encoders.inbedder import InBedderEncoder
from retriever.evaluation.run.embedding_cache import EmbeddingCache
from retriever.evaluation.run.evaluating import evaluate
from retriever.evaluation.run.report import number, ranged, table
from retriever.evaluation.run.requests import EvaluationRequest
from retriever.evaluation.run.results import write_json
from retriever.evaluation.suites import SUITES
from retriever.evaluation.unmet import by_file
from retriever.evaluation.unmet_kinds import unmet_kinds

ROOT = Path(__file__).resolve().parents[1]
UNITS = ROOT / "benchmarks/results/units.json"
GENERATING_LIMIT = 300
"""Most items a task has for encoders that generate: three tokens a text cost as much as several prefills."""

KINDS = unmet_kinds()

METRICS = {
    "triplets": "share of triplets in which the text that is alike under the instruction is nearer, in percent; the "
    "harmonic mean over two criteria is at most 50 for an encoder that ignores the instruction",
    "pairs": "Spearman correlation of cosine with same or different label under the instruction",
    "V-measure": "agreement of k-means clusters with labels: harmonic mean of homogeneity and completeness, 5 seeds",
    "Delta_ci, Delta_ii": "V-measure (0 to 1) under correct (implicit) wordings less that under incorrect ones",
    "Robustness@10": "lowest nDCG@10 of a query over its instructions, averaged over queries",
    "IRS": "share of queries (instruction and input) whose nearest in the pool is their own output",
    "IGS": "share of queries that are nearer to the right answer than to a negative one",
    "ITDS": "mean cosine with the right answer less that with negatives, times 100",
    "nDCG@10, MAP, recall@k": "quality of a ranking, times 100",
    "p-MRR": "how far documents fall that a changed instruction makes irrelevant, -100 to 100; 0 is not at all",
    "Spearman": "rank correlation of cosine with people's scores, times 100",
    "queries/s": "queries an index answers a second, one at a time",
    "asked, worst wording, not asked": "share of triplets in which the text with the same answer is nearer, in percent "
    "(equal counts half): mean over the wordings of a kind, its lowest wording, and under the default instruction",
    "asked less not asked": "what the question adds, in points",
    "reversal": "two questions that pull the same texts apart: harmonic mean of both shares of triplets that come "
    "right, in percent; at most 50 for an encoder that ignores the instruction",
}


FILES = {
    "triplets_dmaste.jsonl": "anchor; same_X and same_Y; instructions: {X: text, Y: text}",
    "aspects_restaurant_acos.jsonl": "id, text; aspects: list of {aspect, polarity}",
    "aspects_mams.jsonl": "id, text; aspects: list of {aspect, polarity}",
    "reviews_dmaste.jsonl": "text; labels: {category, polarity}",
    "aspects_huliu.jsonl": "text; labels: {product}; aspects: list of {polarity}",
    "retrieval_msmarco_corpus.jsonl": "id, text",
    "retrieval_msmarco_queries.jsonl": "id, text; relevant: list of ids; instructions: list of texts",
    "qa_fairytale.jsonl": "text, question, answer, split; meta: {story}",
    "stsb.jsonl": "a, b, score, split",
    "banking77.jsonl": "text, split; labels: {intent}",
    "fewrel_nyt_pubmed.jsonl": "text, head, tail; labels: {relation}",
    **{file: f"text; labels: {{{', '.join(one.kind for one in kinds)}}}" for file, kinds in by_file(KINDS).items()},
    "asked.jsonl": "split; questions: list of {kind, wordings}; rows: list of {text, answers}",
}
"""What a row of every data file holds; own data under the same names and keys is measured alike."""


UNMET = """\
{count} kinds of question in ten wordings each (retriever/evaluation/unmet.json), and the files whose texts they are
asked of, are kept out of all training; rows of every split are taken, evenly by answer, at most 100 a file. *Kinds far
from training* are those for which the table below names no near one that training asks, or may ask, of other texts.
`asked` has grids of 40 texts under the same twelve questions in five wordings each. No training row is made of them,
but their texts are of the training part of their files, so that a model may know them under other questions. A kind
whose name a training grid has too counts as known; what lies near under another name is not told apart there.

For questions a and b, and texts i, j, k with y_a(i) = y_a(j) != y_a(k) and y_b(i) = y_b(k) != y_b(j), the reversal
score is the harmonic mean of P[sim_a(i, j) > sim_a(i, k)] and P[sim_b(i, k) > sim_b(i, j)], equal similarities counting
half. Without regard to the question the two sum to 1, so it is at most 50. It is the harmonic mean over two criteria of
Peng et al. (ACL 2024, section 3.2), for any two questions; the lowest of several wordings is that of InstructIR (Oh et
al., 2024). Triplets are scored asked and not asked, since texts with the same answer are often alike anyway. A
limit below 100 asks three wordings, the worst of which is not to be compared with the worst of ten, and whole grids.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One encoder of the table: its name there, how to load it, and its limit where it has one of its own."""

    name: str
    spec: str
    options: Mapping[str, Any] = field(default_factory=dict)
    limit: int | None = None
    instructed: bool = True


ROWS = (
    Row("backbone, mean", "plain:smollm2-135m", {"pooling": "mean"}),
    Row("InBedder 1st-gen", "inbedder:smollm2-135m", {"pooling": "1st-gen"}),
    Row("InBedder avg-gen", "inbedder:smollm2-135m", {"pooling": "avg-gen"}, GENERATING_LIMIT),
    Row("InBedder last-gen", "inbedder:smollm2-135m", {"pooling": "last-gen"}, GENERATING_LIMIT),
    Row("InBedder avg-ppt", "inbedder:smollm2-135m", {"pooling": "avg-ppt"}),
    Row("InBedder avg-all", "inbedder:smollm2-135m", {"pooling": "avg-all"}, GENERATING_LIMIT),
    Row("InstEmb, untrained look-ahead", "instemb:smollm2-135m"),
    Row("GIRCSE, untrained", "gircse:smollm2-135m"),
    Row("MiniLM, without instruction", "minilm", instructed=False),
    Row("MiniLM, instruction prepended", "minilm"),
    Row("shipped default", "pretrained:default"),
    Row("shipped gircse", "pretrained:gircse"),
)


def main() -> None:
    """Parse the options, measure what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--limit", type=int, help="Most items a task looks at, for all encoders.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--suite", action="append", default=[], help="Measure this suite alone; repeatable.")
    parser.add_argument("--only", action="append", default=[], help="Measure rows whose name holds this; repeatable.")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--write", action="store_true", help="Write the page from what is there.")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks/results/evaluation.json")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/evaluation.md")
    options = parser.parse_args()
    results = Results.read(options.results)
    if not options.write:
        rows = [row for row in ROWS if not options.only or any(part in row.name for part in options.only)]
        measure(rows, options.suite or list(SUITES), options, results)
    options.page.write_text(page(results), encoding="utf-8")


@dataclass
class Results:
    """What was measured by now: evaluations as JSON, by row and suite."""

    path: Path
    machine: dict[str, Any] = field(default_factory=dict)
    cells: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "Results":
        """Return what a file holds; nothing where there is none."""
        stored = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        return cls(path, stored.get("machine", {}), stored.get("cells", {}))

    def put(self, row: str, suite: str, found: dict[str, Any]) -> None:
        """Keep an evaluation, but for the command line of this script: it names folders of the machine."""
        found = {**found, "versions": {name: one for name, one in found["versions"].items() if name != "command"}}
        self.cells.setdefault(row, {})[suite] = found
        self.machine = machine()
        write_json(self.path, {"benchmark": "evaluation", "machine": self.machine, "cells": self.cells})


def measure(rows: Sequence[Row], suites: Sequence[str], options: argparse.Namespace, results: Results) -> None:
    """Run every suite on every row, cheap rows first within a suite's turn, and keep each as it is done."""
    left = [(row, suite) for row in rows for suite in suites if needs_model(suite)]
    alone = [(Row("no encoder", ""), suite) for suite in suites if not needs_model(suite)]
    loaded: tuple[Row, Encoder | None] | None = None
    for done, (row, suite) in enumerate([*alone, *left]):
        total = len(alone) + len(left)
        print(f"{done} of {total} done; now {row.name}: {suite}", file=sys.stderr, flush=True)
        if loaded is None or loaded[0] != row:
            loaded = (row, load(row, options.device))
        limits = [one for one in (row.limit, options.limit) if one is not None]
        command = f"retriever eval {suite} {' '.join(_arguments(row))}".strip()
        request = EvaluationRequest(
            suite, options.data, limit=min(limits, default=None), seed=options.seed, command=command
        )
        results.put(row.name, suite, evaluate(request, loaded[1]).to_json())


def needs_model(suite: str) -> bool:
    """Return whether any task of a suite needs an encoder."""
    return any(task.needs_model for task in SUITES[suite])


def load(row: Row, device: str) -> Encoder | None:
    """Return a row's encoder."""
    if not row.spec:
        return None
    encoder = load_encoder(row.spec, device=device, **row.options)
    if isinstance(encoder, InBedderEncoder) and encoder.reads_on:
        return SharedPasses.sharing_poolings(encoder, EmbeddingCache(cache_dir() / "evaluation"))
    return encoder if row.instructed else WithoutInstruction(encoder)


class WithoutInstruction(WrappedEncoder):
    """An encoder that never sees an instruction; its texts are embedded once whatever is asked, without words."""

    @property
    def spec(self) -> EncoderSpec:
        """The wrapped encoder's under another name, and another fingerprint: under an instruction vectors differ."""
        spec = super().spec
        fingerprint = content_hash(f"{spec.fingerprint} without instruction").hex()
        return replace(spec, name=f"{spec.name} without instruction", fingerprint=fingerprint)

    def encode_views(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        words: int = 0,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        """Return the same rows for every instruction."""
        return super().encode_views(texts, [""], on_tokens=on_tokens) * len(instructions)


def page(results: Results) -> str:
    """Return the text of docs/evaluation.md: a table of headline scores a suite, and what they mean."""
    lines = [
        "# Evaluation",
        "",
        "Made by `python benchmarks/evaluation_table.py DATA`; do not edit. The shipped models, measured on test rows,",
        "and the numbers to beat: no other encoder is fine-tuned on the project's data. A cell is the score with its",
        "95 % bootstrap interval; a star marks a run with a limit on the items of a task. A dash is not measured yet.",
        "InBedder 1st-gen, untrained, is the bare backbone's last token.",
        "",
        *_circumstances(results),
    ]
    for suite in SUITES:
        lines += [f"## {suite}", "", *(f"- {task.name}: {task.summary}." for task in SUITES[suite]), ""]
        lines += [*_MORE.get(suite, list)(), *_suite_table(results, suite), ""]
    if UNITS.exists():
        lines += ["## units", "", *units.section(json.loads(UNITS.read_text(encoding="utf-8")))]
    lines += reading_section()
    lines += categories_section()
    lines += section()
    lines += verdict_lines()
    names = dict.fromkeys(name for tasks in SUITES.values() for task in tasks for name in task.files)
    lines += ["## Data", "", "One JSON object a line. Own files under these names and keys are measured alike.", ""]
    lines += [*table(["file", "keys of a row"], [[name, FILES[name]] for name in names]), ""]
    lines += ["## What the metrics mean", "", *table(["metric", "meaning"], [[k, v] for k, v in METRICS.items()]), ""]
    return "\n".join(lines)


def _unmet() -> list[str]:
    """Return what the suite `unmet` asks, and of which texts."""
    rows = [[one.family, one.kind, one.file, ", ".join(one.near) or "-"] for one in KINDS]
    return [UNMET.format(count=len(KINDS)), *table(["family", "kind", "file", "trained kinds near it"], rows), ""]


_MORE: Mapping[str, Callable[[], list[str]]] = {"unmet": _unmet}
"""What a suite's part of the page says before its table."""


def _suite_table(results: Results, suite: str) -> list[str]:
    names = [row.name for row in ROWS] if needs_model(suite) else ["no encoder"]
    found = {name: results.cells[name][suite] for name in names if suite in results.cells.get(name, {})}
    figures = dict.fromkeys(
        (score["task"], score["metric"]) for one in found.values() for score in one["scores"] if score["headline"]
    )
    if not found:
        return [f"Not measured yet: `python benchmarks/evaluation_table.py DATA --suite {suite}`."]
    header = ["encoder", "mean", *(f"{task}: {metric}" for task, metric in figures)]
    rows = []
    for name in names:
        one = found.get(name)
        if one is None:
            rows.append([name, *["-"] * (len(header) - 1)])
            continue
        scores = {(score["task"], score["metric"]): score for score in one["scores"]}
        star = "" if one["limit"] is None else "*"
        mean = "-" if one["mean"] is None else number(one["mean"])
        rows.append([f"{name}{star}", mean, *(_cell(scores.get(figure)) for figure in figures)])
    missing = [name for name in names if name not in found]
    lines = table(header, rows)
    return [*lines, "", f"Not measured yet: {'; '.join(missing)}."] if missing else lines


def _cell(score: Mapping[str, Any] | None) -> str:
    if score is None:
        return "-"
    return ranged(score["value"], score["low"], score["high"])


def _circumstances(results: Results) -> list[str]:
    """Return where, when and how the cells were measured."""
    cells = [one for row in results.cells.values() for one in row.values()]
    if not cells:
        return ["Nothing is measured yet.", ""]
    dates = sorted(one["date"][:10] for one in cells)
    limits = sorted({one["limit"] for one in cells if one["limit"] is not None})
    machines = {f"{one['machine']['processor']}, {one['machine']['cores']} cores" for one in cells}
    accelerators = {one["machine"]["accelerator"] for one in cells} - {None}
    packages = results.machine.get("packages", {})
    rows = {
        "dates": " to ".join(dict.fromkeys([dates[0], dates[-1]])),
        "machine": "; ".join(sorted(machines | accelerators)),
        "packages": ", ".join(f"{name} {version}" for name, version in packages.items()),
        "seed": ", ".join(sorted({str(one["seed"]) for one in cells})),
        "limits": ", ".join(map(str, limits)) or "none",
        "items": "in benchmarks/results/evaluation.json, with fingerprints, commands and all other figures",
    }
    return [*table(["", ""], [[name, value] for name, value in rows.items()]), ""]


def _arguments(row: Row) -> list[str]:
    settings = [f"--{name.replace('_', '-')} {value}" for name, value in row.options.items()]
    return [*([f"--encoder {row.spec}"] if row.spec else []), *settings]


if __name__ == "__main__":
    main()
