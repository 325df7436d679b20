"""Curating files: QA rows are read, put through the GEDI pipeline, and written whole or not at all."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from retriever.core.errors import InputError, OutputError, UsageError
from retriever.core.paths import atomic_write, writing
from retriever.core.schema import SCHEMA_VERSION
from retriever.core.types import BadRow
from retriever.training.curate import Curated, CurationOptions, curate
from retriever.training.curation.votes import Expert
from retriever.training.rows import TrainingRow, read_training_rows

SUFFIXES = (".jsonl", ".ndjson")


@dataclass(frozen=True, slots=True)
class CurationReport:
    """The report of a curation.

    Attributes:
        read: good rows of the input.
        curated: the rows that were written, and what each step did.
        bad: the first of them.
    """

    output: Path
    read: int
    curated: Curated
    mappings: Mapping[str, str]
    skipped: int = 0
    bad: Sequence[BadRow] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {
            "schema_version": SCHEMA_VERSION,
            "output": str(self.output),
            "mappings": dict(self.mappings),
            "read": self.read,
            "written": len(self.curated.rows),
            "skipped": self.skipped,
            "quarantined": [asdict(row) for row in self.bad],
            "steps": self.curated.to_json(),
        }


def curate_file(
    source: str | Path,
    output: Path,
    experts: Callable[[], Sequence[Expert]] = tuple,
    options: CurationOptions | None = None,
    encoding: str | None = None,
) -> CurationReport:
    """Curate one file of questions and answers, as `read_training_rows` reads them, into JSON Lines.

    The output, a .jsonl file, appears when it is complete; what an earlier run wrote there stays until then.
    ``experts`` gives the encoders that vote, the first of which mines hard negatives; it is called once the rows are
    read, since loading takes longer than finding a mistake in them.

    Raises:
        InputError: the source cannot be read, the output is no place for rows, or no row is left.
        OutputError: the output cannot be written.
    """
    check_output(source, output)
    rows = read_training_rows([source], encoding=encoding)
    curated = curate(rows.rows, experts(), options)
    if not curated.rows:
        most = max(curated.steps, key=lambda step: step.dropped)
        raise InputError(
            f"{source}: no row is left of {len(rows.rows)}; the step {most.step!r} dropped {most.dropped}"
            f"{''.join(f', {count} for {reason!r}' for reason, count in list(most.reasons.items())[:2])}.",
            hint=f"Nothing was written to {output}.",
        )
    write_rows(output, curated.rows)
    return CurationReport(output, len(rows.rows), curated, rows.mappings, rows.skipped, rows.bad)


def check_output(source: str | Path, output: Path) -> None:
    """Refuse an output that could not be written, before anything is read.

    Raises:
        UsageError: it is no .jsonl file.
        OutputError: it is a folder, or in a folder that is not there.
        InputError: it is the source.
    """
    if output.suffix not in SUFFIXES:
        raise UsageError(f"{output} cannot be written: rows go to JSON Lines.", hint="Name a .jsonl file.")
    if output.is_dir():
        raise OutputError(f"{output} is a folder.", hint="Name a .jsonl file.")
    if not output.parent.is_dir():
        raise OutputError(f"{output} cannot be written: there is no folder {output.parent}.", hint="Make it first.")
    if output.exists() and Path(source).exists() and output.samefile(source):
        raise InputError(f"{output} is the input.", hint="Name another file, so that no row is lost.")


def write_rows(output: Path, rows: Iterable[TrainingRow]) -> None:
    """Write rows as JSON Lines, so that the file is there whole or not at all.

    Raises:
        OutputError: it cannot be written.
    """
    with writing(output, "OUT"), atomic_write(output, private=False) as file:
        file.writelines(f"{json.dumps(row.to_json(), ensure_ascii=False)}\n".encode() for row in rows)
