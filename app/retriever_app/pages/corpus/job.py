"""From a file that somebody dropped to an index: kept on disk, looked at, indexed in the background, gone on with.

A file waits in ``.uploads`` in the folder of indexes, in a folder of its own beside a note of what is to become of it,
until it is indexed whole: so that an indexing that was stopped, or a server that was, goes on with the same file.
"""

import io
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from retriever.core.errors import InputError
from retriever.core.fields import values_by_name
from retriever.core.paths import atomic_write, make_folder, write_whole
from retriever.core.results import IndexingReport
from retriever.core.types import BadRow, Document
from retriever.index.dividing import UnitKind
from retriever.index.files import (
    UTF8,
    EncodingError,
    FieldNames,
    Reading,
    ReadingOptions,
    find_foreign,
    find_utf16,
    read_documents,
    read_fields,
)
from retriever.index.indexing import IndexingOptions
from retriever.index.languages import AUTO
from retriever.index.opened import is_index
from retriever.index.profiling import Columns, recognise, set_columns
from retriever.serving.jobs import Job
from retriever.serving.pools import EncoderPool
from retriever.workspace import Index
from retriever_app.background import JUDGING, LOADING, READING, Progress
from retriever_app.text import calling

INDEXING = "Indexing the reviews"
UPLOADS_FOLDER = ".uploads"
NOTE = "plan.json"
TYPES = ("csv", "tsv", "jsonl", "ndjson", "json", "parquet", "xlsx", "xls", "ods", "gz", "zip")
_PREVIEWED_ROWS = 200
_LOOKED_UP = 1000  # rows whose ids are looked up before they are indexed
_TABLES, _JSON_LINES = (".csv", ".tsv"), (".jsonl", ".ndjson")
_USUAL = "windows-1252"
_HEAD = 4096  # bytes of a file in which a zero tells that it is no text
_ZIPPED = (b"\x1f\x8b", b"PK\x03\x04")
_FORGOTTEN = 86_400  # seconds after which a file that was dropped and never indexed goes


@dataclass(frozen=True, slots=True)
class Preview:
    """The beginning of a file.

    Attributes:
        names: its fields, nested ones joined with dots.
        rows: its first rows.
        bad: line and reason of those that cannot be read.
        columns: which field seems to hold what.
        notes: what was recognised or changed on reading it.
        total: rows of the whole file; None where nobody counted them.
    """

    names: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    bad: Sequence[tuple[int, str]]
    columns: Columns
    notes: Sequence[str]
    total: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan of a file to index.

    Attributes:
        file: the kept file; its folder holds nothing but what belongs to this plan.
        index: the index's name.
        instructions: views to fill besides the base view.
        sentences: whether a new index is one of sentences; another keeps what it is.
    """

    file: Path
    index: str
    columns: Columns
    instructions: tuple[str, ...] = ()
    sentences: bool = False

    @property
    def name(self) -> str:
        """The file's name as it was dropped."""
        return self.file.name


_PLANS = TypeAdapter(Plan)


def guess_encoding(name: str, data: bytes) -> str:
    """Return the encoding a file seems to be in, a key of `corpus.encodings.ENCODINGS`.

    Raises:
        InputError: it is no text.
    """
    json_lines = name.lower().endswith(_JSON_LINES)
    if not json_lines and not name.lower().endswith(_TABLES):
        return UTF8
    if data.startswith(_ZIPPED) or find_utf16(data[: 1 << 16]):  # readers know these by themselves
        return UTF8
    foreign = find_foreign(io.BytesIO(data), json_lines=json_lines)
    encoding = foreign.encoding or _USUAL if foreign else UTF8
    if encoding not in (UTF8, "utf-16") and b"\0" in data[:_HEAD]:
        raise InputError(
            f"{name} holds no text: it may be a picture or a spreadsheet under another name.",
            hint="Export the reviews as CSV, JSON Lines, Parquet or a spreadsheet.",
        )
    return encoding


def keep(folder: Path, name: str, data: bytes, encoding: str = UTF8) -> Path:
    """Keep a file under the folder of indexes, in UTF-8; return its path.

    It gets a folder of its own, whatever is kept already. Nothing of the name but its last part counts.
    """
    plain = re.sub(r"[^\w .-]", "_", Path(name.replace("\\", "/")).name).strip(" .") or "reviews"
    if encoding != UTF8:
        data = data.decode(encoding, "replace").encode(UTF8)
    _sweep(folder / UPLOADS_FOLDER)
    make_folder(folder / UPLOADS_FOLDER, private=True)
    kept = Path(tempfile.mkdtemp(dir=folder / UPLOADS_FOLDER), plain)
    with atomic_write(kept) as file:
        file.write(data)
    return kept


def preview(file: Path) -> Preview:
    """Return the beginning of a file and what its columns seem to be.

    Raises:
        InputError: it cannot be read.
    """
    try:
        reading = read_fields(file, FieldNames(text_needed=False))
        read = list(islice(reading, _PREVIEWED_ROWS))
    except EncodingError as error:
        problem, hint = error.message.replace(str(file), file.name), "or save the file as UTF-8 and drop it again."
        raise InputError(problem, hint=f"Choose another encoding, {hint}") from error
    rows = [_shown(row.values) for row in read if row.values is not None]
    bad = [(row.line, row.problem) for row in read if row.values is None]
    names = list(dict.fromkeys(name for row in rows for name in row))
    notes = [note.replace(str(file), file.name) for note in reading.notes]
    return Preview(names, rows, bad, recognise(rows), notes, reading.count)


def _shown(row: Mapping[str, object]) -> dict[str, object]:
    """Return a row by its columns as the file heads them, the fields inside an object each by its own name."""
    shown: dict[str, object] = {}
    for name, value in row.items():
        shown |= values_by_name({name: value}) if isinstance(value, Mapping) else {name: value}
    return shown


def first_ids(file: Path, columns: Columns) -> list[str]:
    """Return the ids of a file's first thousand reviews.

    Raises:
        InputError: it cannot be read.
    """
    rows = islice(_documents(file, columns), _LOOKED_UP)
    return [row.id for row in rows if isinstance(row, Document)]


def _documents(file: Path, columns: Columns) -> Reading[Document | BadRow]:
    """Read a file as documents, its columns as a person corrected them."""
    options = ReadingOptions(columns=columns)
    return read_documents([file], id_field=columns.id or None, text_field=columns.text or None, options=options)


def note(plan: Plan) -> None:
    """Write the plan beside its file."""
    write_whole(plan.file.with_name(NOTE), _PLANS.dump_json(replace(plan, file=Path(plan.name))).decode() + "\n")


def unfinished(folder: Path) -> tuple[list[Plan], list[Path]]:
    """Find the plans that were begun under a folder of indexes and not finished, and folders of unreadable ones."""
    plans, unreadable = [], []
    for written in sorted((folder / UPLOADS_FOLDER).glob(f"*/{NOTE}")):
        try:
            plan = _PLANS.validate_json(written.read_bytes())
            plan = replace(plan, file=written.with_name(plan.name))  # beside its note, whatever else the name says
        except FileNotFoundError:  # finished or dropped meanwhile
            continue
        except (OSError, ValueError):
            unreadable.append(written.parent)
        else:
            if plan.file.is_file():
                plans.append(plan)
    return plans, unreadable


def discard(folder: Path) -> None:
    """Drop a kept file with its folder; what was indexed of it stays."""
    shutil.rmtree(folder, ignore_errors=True)


def index_file(plan: Plan, path: Path, encoders: EncoderPool, job: Job) -> IndexingReport:
    """Index a kept file as a job, which reports its `Progress`, and stops between batches.

    ``encoders`` gives those of a new index in the folder ``path``, or those that an index describes.
    """
    job.tell(Progress(LOADING))
    tell = _telling(job, len(plan.instructions))
    ended = False

    def checked(rows: Iterator[Document | BadRow]) -> Iterator[Document | BadRow]:
        nonlocal ended
        for row in rows:
            job.check()
            yield row
        ended = True

    def follow(report: IndexingReport) -> None:
        tell(report)
        if ended:
            job.check()

    known = is_index(path)
    question, base = (None, None) if known else (encoders.default(), encoders.plain())
    units: UnitKind | None = "sentences" if plan.sentences and not known else None
    with calling(plan.file, plan.name), Index(path, encoder=question, plain=base, load=encoders.described) as index:
        read = _documents(plan.file, plan.columns)
        options = IndexingOptions(units=units, language=AUTO, raw=True, rows=read.count)
        try:
            report = index.add(checked(read), instructions=plan.instructions, options=options, progress=follow)
        finally:
            if is_index(path):
                set_columns(index, plan.columns)
    discard(plan.file.parent)
    return report


def _telling(job: Job, instructions: int) -> Callable[[IndexingReport], None]:
    """Return what tells how far an indexing is: of all its rows first, then of the reading under instructions."""
    steps = (f"Step 1 of 2: {INDEXING}", f"Step 2 of 2: {READING}") if instructions else (INDEXING, READING)

    def tell(report: IndexingReport) -> None:
        second, total = report.expected is not None, report.rows
        share = report.share if second else min(1.0, report.in_hand / total) if total else None
        if not (share or report.in_hand):
            return  # the model is being loaded
        doing = JUDGING if report.judging else steps[second]
        if not second:
            doing += f", {report.in_hand:,} of {total:,}" if total else f", {report.in_hand:,}"
        job.tell(Progress(doing, share, report.left))

    return tell


def _sweep(uploads: Path) -> None:
    """Drop what nobody decided about for a day."""
    for place in uploads.glob("*/"):
        if not (place / NOTE).exists() and time.time() - place.stat().st_mtime > _FORGOTTEN:
            shutil.rmtree(place, ignore_errors=True)
