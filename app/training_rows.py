"""Where the rows of a training come from: a file, an index, or the user's hands in a table."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from retriever.core.errors import InputError
from retriever.core.types import JSON
from retriever.evaluation.run.diagnosing import index_texts
from retriever.index.files import EncodingError
from retriever.training.run.checks import Findings, look_at
from retriever.workspace import Index

COLUMNS = ("text", "question", "answer")
EXAMPLE_ROWS = Path(__file__).with_name("example_qa.jsonl")
FORMATS = ("csv", "tsv", "jsonl", "ndjson", "parquet")
UPLOAD_MB = 50
MOST_EDITED = 2000  # rows that a browser still edits smoothly

Rows = list[dict[str, JSON]]


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A file of rows: those that can be learned from, as `Training.write_rows` takes them, and what is said of it."""

    rows: Rows
    findings: Findings


def read_upload(name: str, data: bytes) -> Uploaded:
    """Read a file that the user sent; nothing is raised."""
    with TemporaryDirectory() as folder:
        file = Path(folder, Path(name).name)
        file.write_bytes(data)
        found = named(look_at(file), file, file.name)
    return Uploaded([dict(row.to_json()) for row in found.rows], found)


def named(findings: Findings, file: Path, name: str) -> Findings:
    """Rename the file in what the findings say of it."""
    if findings.problem is None:
        return findings
    problem = findings.problem
    hint = "Save it as UTF-8 and send it again." if isinstance(problem, EncodingError) else problem.hint
    return replace(findings, problem=InputError(problem.message.replace(str(file), name), hint=hint))


def example() -> Rows:
    """Return the example: questions on invented product reviews."""
    return [dict(row.to_json()) for row in look_at(EXAMPLE_ROWS).rows]


def rows_of_index(index: Index, question: str, count: int) -> Rows:
    """Return some reviews of an index under a question, to be answered."""
    return [{"text": text, "question": question, "answer": ""} for text in index_texts(index, count)]


def is_editable(rows: Rows) -> bool:
    """Whether rows fit the table: text, question and answer alone, and not too many."""
    return len(rows) <= MOST_EDITED and all(set(row) == set(COLUMNS) for row in rows)


def written(edited: list[Mapping[str, str | None]]) -> Rows:
    """Build rows from the table; those without a word are left out."""
    filled = [{name: row.get(name) or "" for name in COLUMNS} for row in edited]
    return [dict(row) for row in filled if any(value.strip() for value in row.values())]
