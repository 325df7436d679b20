"""Every suite on the encoders to beat, and the tables of docs/evaluation.md that show them.

    python benchmarks/evaluation_table.py DATA --limit 300

Finished tasks are kept in the cache, so the command can be stopped and run again; scores go to
``benchmarks/results/evaluation.json.gz`` suite by suite, and from there between the marks of ``docs/evaluation.md``.
``--write`` makes the tables from what is there and measures nothing.
"""

import argparse
import gzip
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from common import machine

from retriever import load_encoder
from retriever.core.fingerprint import content_hash
from retriever.core.paths import atomic_write
from retriever.core.protocols import Encoder, EncoderSpec, WrappedEncoder
from retriever.core.types import Encoded
from retriever.evaluation.run.evaluating import EvaluationRequest, evaluate
from retriever.evaluation.run.report import number, ranged, table
from retriever.evaluation.suites import SUITES

ROOT = Path(__file__).resolve().parents[1]
GENERATING_LIMIT = 300
"""Most items a task has for encoders that generate: three tokens a text cost as much as several prefills."""


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
    Row("shipped instemb", "pretrained:instemb"),
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
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks/results/evaluation.json.gz")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/evaluation.md")
    options = parser.parse_args()
    results = Results.read(options.results)
    if not options.write:
        rows = [row for row in ROWS if not options.only or any(part in row.name for part in options.only)]
        measure(rows, options.suite or list(SUITES), options, results)
    options.page.write_text(with_tables(options.page.read_text(encoding="utf-8"), results), encoding="utf-8")


@dataclass
class Results:
    """The measurements by now: evaluations as JSON, by row and suite."""

    path: Path
    machine: dict[str, Any] = field(default_factory=dict)
    cells: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "Results":
        """Return what a file holds; nothing where there is none."""
        stored = json.loads(gzip.decompress(path.read_bytes())) if path.is_file() else {}
        return cls(path, stored.get("machine", {}), stored.get("cells", {}))

    def put(self, row: str, suite: str, found: dict[str, Any]) -> None:
        """Keep an evaluation, but for the command line of this script: it names folders of the machine."""
        found = {**found, "versions": {name: value for name, value in found["versions"].items() if name != "command"}}
        self.cells.setdefault(row, {})[suite] = found
        self.machine = machine()
        content = json.dumps({"benchmark": "evaluation", "machine": self.machine, "cells": self.cells})
        with atomic_write(self.path, private=False) as file:
            file.write(gzip.compress(content.encode(), mtime=0))


def measure(rows: Sequence[Row], suites: Sequence[str], options: argparse.Namespace, results: Results) -> None:
    """Run every suite on every row, cheap rows first within a suite's turn, and keep each as it is done."""
    cells = [(row, suite) for row in rows for suite in suites]
    loaded: tuple[Row, Encoder] | None = None
    for done, (row, suite) in enumerate(cells):
        print(f"{done} of {len(cells)} done; now {row.name}: {suite}", file=sys.stderr, flush=True)
        if loaded is None or loaded[0] != row:
            loaded = (row, load(row, options.device))
        limits = [limit for limit in (row.limit, options.limit) if limit is not None]
        command = f"retriever eval {suite} {' '.join(_arguments(row))}".strip()
        request = EvaluationRequest(
            suite, options.data, limit=min(limits, default=None), seed=options.seed, command=command
        )
        results.put(row.name, suite, evaluate(request, loaded[1]).to_json())


def load(row: Row, device: str) -> Encoder:
    """Return a row's encoder."""
    encoder = load_encoder(row.spec, device=device, **row.options)
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


def with_tables(page: str, results: Results) -> str:
    """Return a page with the tables of all suites, and how they were measured, between their marks."""
    made = {"circumstances": circumstances(results), **{suite: suite_table(results, suite) for suite in SUITES}}
    for name, lines in made.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not pattern.search(page):
            raise SystemExit(f"The page has no marks for {name}.")
        page = pattern.sub(lambda marks, lines=lines: "\n".join([marks[1].rstrip(), *lines, marks[2]]), page)
    return page


def suite_table(results: Results, suite: str) -> list[str]:
    """Return the table of a suite: headline scores with their intervals by encoder."""
    names = [row.name for row in ROWS]
    cells = {name: results.cells[name][suite] for name in names if suite in results.cells.get(name, {})}
    figures = dict.fromkeys(
        (score["task"], score["metric"]) for cell in cells.values() for score in cell["scores"] if score["headline"]
    )
    if not cells:
        return [f"Not measured yet: `python benchmarks/evaluation_table.py DATA --suite {suite}`."]
    header = ["encoder", "mean", *(f"{task}: {metric}" for task, metric in figures)]
    rows = []
    for name in names:
        cell = cells.get(name)
        if cell is None:
            rows.append([name, *["-"] * (len(header) - 1)])
            continue
        scores = {(score["task"], score["metric"]): score for score in cell["scores"]}
        star = "" if cell["limit"] is None else "*"
        mean = "-" if cell["mean"] is None else number(cell["mean"])
        rows.append([f"{name}{star}", mean, *(_cell(scores.get(figure)) for figure in figures)])
    missing = [name for name in names if name not in cells]
    lines = table(header, rows)
    return [*lines, "", f"Not measured yet: {'; '.join(missing)}."] if missing else lines


def _cell(score: Mapping[str, Any] | None) -> str:
    if score is None:
        return "-"
    return ranged(score["value"], score["low"], score["high"])


def circumstances(results: Results) -> list[str]:
    """Return where, when and how the cells were measured."""
    cells = [cell for row in results.cells.values() for cell in row.values()]
    if not cells:
        return ["Nothing is measured yet."]
    dates = sorted(cell["date"][:10] for cell in cells)
    limits = sorted({cell["limit"] for cell in cells if cell["limit"] is not None})
    machines = {f"{cell['machine']['processor']}, {cell['machine']['cores']} cores" for cell in cells}
    accelerators = {cell["machine"]["accelerator"] for cell in cells} - {None}
    packages = results.machine.get("packages", {})
    rows = {
        "dates": " to ".join(dict.fromkeys([dates[0], dates[-1]])),
        "machine": "; ".join(sorted(machines | accelerators)),
        "packages": ", ".join(f"{name} {version}" for name, version in packages.items()),
        "seed": ", ".join(sorted({str(cell["seed"]) for cell in cells})),
        "limits": ", ".join(map(str, limits)) or "none",
        "items": "in benchmarks/results/evaluation.json.gz, with fingerprints, commands and all other figures",
    }
    return table(["", ""], [[name, value] for name, value in rows.items()])


def _arguments(row: Row) -> list[str]:
    settings = [f"--{name.replace('_', '-')} {value}" for name, value in row.options.items()]
    return [f"--encoder {row.spec}", *settings]


if __name__ == "__main__":
    main()
