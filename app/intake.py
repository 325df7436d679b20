"""From a file that somebody dropped to an index: kept on disk, looked at, indexed in the background, gone on with.

A file waits in ``.uploads`` in the folder of indexes, in a folder of its own beside a note of what is to become of it,
until it is indexed whole: so that an indexing that was stopped, or a server that was, goes on with the same file.
"""

import csv
import io
import json
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from retriever.core.errors import InputError
from retriever.core.paths import make_folder, new_file, write_whole
from retriever.core.protocols import Encoder
from retriever.core.types import JSON, BadRow, Document
from retriever.corpus.columns import Columns, normalised, recognise
from retriever.corpus.readers import count_rows, read_documents, read_fields
from retriever.corpus.rows import FieldNames, Limits
from retriever.services.profiling import flat, set_columns
from retriever.services.results import IndexingReport
from retriever.services.workspace import Index
from retriever.store.database import DATABASE
from retriever_app.jobs import Job

FOLDER = ".uploads"
NOTE = "plan.json"
EXAMPLE = Path(__file__).with_name("example.jsonl")
TYPES = ("csv", "tsv", "jsonl", "ndjson", "parquet", "gz")
ENCODINGS = {
    "utf-8-sig": "UTF-8",
    "cp1252": "Windows-1252 (Excel, western Europe)",
    "utf-16": "UTF-16 (Excel, Unicode text)",
    "mac-roman": "Mac Roman",
}
_SAMPLE = 200
_LOOKED_UP = 1000  # rows whose ids are looked up before they are indexed
_TEXT_FORMATS = (".csv", ".tsv", ".jsonl", ".ndjson")
_DELIMITERS = (";", "\t", "|")
_FORGOTTEN = 86_400  # seconds after which a file that was dropped and never indexed goes


@dataclass(frozen=True, slots=True)
class Preview:
    """The beginning of a file.

    Attributes:
        names: its fields, nested ones joined with dots.
        rows: its first rows.
        bad: line and reason of those that cannot be read.
        columns: which field seems to hold what.
        total: rows of the whole file, about; None where counting is not cheap.
    """

    names: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    bad: Sequence[tuple[int, str]]
    columns: Columns
    total: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be indexed.

    Attributes:
        file: the kept file; its folder holds nothing but what belongs to this plan.
        index: the index's name.
        columns: which field holds what.
        instructions: views to fill besides the base view.
    """

    file: Path
    index: str
    columns: Columns
    instructions: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The file's name as it was dropped."""
        return self.file.name


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What was begun and not finished, in this process or one before.

    Attributes:
        plans: what can be gone on with.
        unreadable: folders of plans whose notes cannot be read.
    """

    plans: list[Plan]
    unreadable: list[Path]


@dataclass(frozen=True, slots=True)
class Reading:
    """How far an indexing is: rows reached, rows in all where known, seconds run and left."""

    rows: int
    total: int | None
    seconds: float

    @property
    def share(self) -> float:
        """The part that is done, 0 to 1."""
        return min(1.0, self.rows / self.total) if self.total else 0.0

    @property
    def left(self) -> float | None:
        """Seconds left at this pace; None before anything is known."""
        return self.seconds * (1 - self.share) / self.share if self.share else None


def guess_encoding(name: str, data: bytes) -> str:
    """Return the encoding a file seems to be in, one of `ENCODINGS`."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if not _is_text(name):
        return "utf-8-sig"
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8-sig"


def keep(folder: Path, name: str, data: bytes, encoding: str = "utf-8-sig") -> Path:
    """Keep a file under the folder of indexes, in UTF-8 and with commas where it is a table; return its path.

    It gets a folder of its own, whatever is kept already. Nothing of the name but its last part counts.

    Raises:
        InputError: it is not in that encoding, or a table whose rows cannot be told apart.
    """
    plain = re.sub(r"[^\w .-]", "_", Path(name.replace("\\", "/")).name).strip(" .") or "reviews"
    if _is_text(plain):
        text = _decoded(data, encoding)
        data = (_with_commas(text) if plain.lower().endswith(".csv") else text).encode("utf-8")
    _sweep(folder / FOLDER)
    make_folder(folder / FOLDER, private=True)
    kept = Path(tempfile.mkdtemp(dir=folder / FOLDER), plain)
    with new_file(kept) as file:
        file.write(data)
    return kept


def preview(file: Path) -> Preview:
    """Return the beginning of a file and what its columns seem to be.

    Raises:
        InputError: it cannot be read.
    """
    read = list(islice(read_fields(file, FieldNames(text_needed=False)), _SAMPLE))
    rows = [flat(row.values) for row in read if row.values is not None]  # type: ignore[arg-type]
    bad = [(row.line, row.problem) for row in read if row.values is None]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return Preview(names, rows, bad, recognise(rows), count_rows([file]))


def first_ids(file: Path, columns: Columns) -> list[str]:
    """Return the ids of a file's first thousand reviews.

    Raises:
        InputError: it cannot be read.
    """
    rows = islice(read_documents([file], id_field=columns.id or None, text_field=columns.text or None), _LOOKED_UP)
    return [row.id for row in rows if isinstance(row, Document)]


def note(plan: Plan) -> None:
    """Write down what is to become of a kept file."""
    said = {
        "file": plan.name,
        "index": plan.index,
        "columns": asdict(plan.columns),
        "instructions": plan.instructions,
    }
    write_whole(plan.file.with_name(NOTE), json.dumps(said, ensure_ascii=False) + "\n")


def unfinished(folder: Path) -> Unfinished:
    """Return what was begun under a folder of indexes and not finished."""
    found = Unfinished([], [])
    for written in sorted((folder / FOLDER).glob(f"*/{NOTE}")):
        try:
            plan = _noted(written)
        except FileNotFoundError:  # finished or left meanwhile
            continue
        except (OSError, ValueError, LookupError, TypeError):
            found.unreadable.append(written.parent)
        else:
            if plan.file.is_file():
                found.plans.append(plan)
    return found


def _noted(written: Path) -> Plan:
    """Return the plan of a note. Nothing of the file's name but its last part counts: it lies beside the note."""
    said = json.loads(written.read_text(encoding="utf-8"))
    name, index, columns = Path(said["file"]).name, said["index"], Columns(**said["columns"])
    if not all(isinstance(one, str) for one in (index, *asdict(columns).values(), *said["instructions"])):
        raise TypeError(written)
    return Plan(written.with_name(name), index, columns, tuple(said["instructions"]))


def discard(folder: Path) -> None:
    """Drop a kept file with its folder; what was indexed of it stays."""
    shutil.rmtree(folder, ignore_errors=True)


def indexing(
    plan: Plan, path: Path, default: Callable[[], Encoder], load: Callable[[Mapping[str, JSON]], Encoder]
) -> Callable[[Job], IndexingReport]:
    """Return the work of indexing a kept file; it tells `Reading`s, and stops between shards.

    Args:
        plan: what to index.
        path: the index's folder.
        default: gives the encoder of a new index.
        load: gives the encoder an index describes.
    """

    def work(job: Job) -> IndexingReport:
        total = count_rows([plan.file])
        rows = _Rows(plan, job)

        def tell(report: IndexingReport) -> None:
            job.tell(Reading(report.in_hand, total, report.seconds))
            if rows.ended:
                job.check()

        encoder = None if (path / DATABASE).exists() else default()
        with Index(path, encoder=encoder, load=load) as index:
            try:
                report = index.add(rows, instructions=plan.instructions, progress=tell)
            finally:
                if (path / DATABASE).exists():
                    set_columns(index, plan.columns)
        discard(plan.file.parent)
        return report

    return work


class _Rows:
    """The rows of a plan's file; between two shards, when the next is asked for, a stopped job ends."""

    def __init__(self, plan: Plan, job: Job) -> None:
        self._plan = plan
        self._job = job
        self.ended = False

    def __iter__(self) -> Iterator[Document | BadRow]:
        columns = self._plan.columns
        for row in read_documents([self._plan.file], id_field=columns.id or None, text_field=columns.text or None):
            self._job.check()
            yield normalised(row, columns) if isinstance(row, Document) else row
        self.ended = True


def _sweep(uploads: Path) -> None:
    """Drop what nobody decided about for a day."""
    for place in uploads.glob("*/"):
        if not (place / NOTE).exists() and time.time() - place.stat().st_mtime > _FORGOTTEN:
            shutil.rmtree(place, ignore_errors=True)


def _is_text(name: str) -> bool:
    return name.lower().endswith(_TEXT_FORMATS)


def _decoded(data: bytes, encoding: str) -> str:
    if encoding != "utf-8-sig":
        return data.decode(encoding, "replace")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(
            f"The file is not in UTF-8: byte 0x{error.object[error.start]:02x} at position {error.start + 1:,}.",
            hint="Choose another encoding, or save the file as UTF-8 and drop it again.",
        ) from error


def _with_commas(text: str) -> str:
    """Return a table whose cells are parted by commas, whatever the spreadsheet took."""
    header = text.lstrip().partition("\n")[0]
    delimiter = next((one for one in _DELIMITERS if one in header), "")
    if not delimiter or "," in header:
        return text
    out = io.StringIO(newline="")
    csv.writer(out).writerows(_parted(text, delimiter))
    return out.getvalue()


def _parted(text: str, delimiter: str) -> Iterator[list[str]]:
    """Yield the rows of a table; one that is not CSV is named by the line it begins in."""
    csv.field_size_limit(max(csv.field_size_limit(), Limits().line_bytes))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            closed = "unexpected end of data" not in str(error)
            problem = f"is not CSV: {error}" if closed else "has a quote that is never closed"
            raise InputError(
                f"The row that begins in line {line} {problem}.", hint="Correct it, or save the table with commas."
            ) from error
        if row is None:
            return
        yield row
