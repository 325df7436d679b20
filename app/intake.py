"""From a file that somebody dropped to an index: kept on disk, looked at, indexed in the background, gone on with.

A file waits in ``.uploads`` in the folder of indexes, in a folder of its own beside a note of what is to become of it,
until it is indexed whole: so that an indexing that was stopped, or a server that was, goes on with the same file.
"""

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
from retriever.core.fields import values_by_name
from retriever.core.paths import atomic_write, make_folder, write_whole
from retriever.core.results import IndexingReport
from retriever.core.types import BadRow, Document
from retriever.index.files import (
    UTF8,
    EncodingError,
    FieldNames,
    Limits,
    count_rows,
    find_foreign,
    read_documents,
    read_fields,
)
from retriever.index.indexing import IndexingOptions
from retriever.index.open_index import is_index
from retriever.index.profiling import Columns, normalised, recognise, set_columns
from retriever.serving.encoder_pool import EncoderPool
from retriever.serving.jobs import Job
from retriever.workspace import Index
from retriever_app.view_models.problems import calling

UPLOADS_FOLDER = ".uploads"
NOTE = "plan.json"
EXAMPLE_REVIEWS = Path(__file__).with_name("example.jsonl")
TYPES = ("csv", "tsv", "jsonl", "ndjson", "parquet", "gz")
_PREVIEWED_ROWS = 200
_LOOKED_UP = 1000  # rows whose ids are looked up before they are indexed
_TABLES, _JSON_LINES = (".csv", ".tsv"), (".jsonl", ".ndjson")
_USUAL = "windows-1252"
_HEAD = 4096  # bytes of a file in which a zero tells that it is no text
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


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Plans that were begun and not finished, and the folders of those whose notes cannot be read."""

    plans: list[Plan]
    unreadable: list[Path]


@dataclass(frozen=True, slots=True)
class TableSample:
    """The progress of an indexing: rows reached, rows in all where known, seconds run and left."""

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
    """Return the encoding a file seems to be in, a key of `corpus.encodings.ENCODINGS`.

    Raises:
        InputError: it is no text.
    """
    json_lines = name.lower().endswith(_JSON_LINES)
    if not json_lines and not name.lower().endswith(_TABLES):
        return UTF8
    found = find_foreign(io.BytesIO(data), json_lines=json_lines, longest=Limits().line_bytes)
    encoding = found.encoding or _USUAL if found else UTF8
    if encoding not in (UTF8, "utf-16") and b"\0" in data[:_HEAD]:
        raise InputError(
            f"{name} holds no text: it is a picture, a spreadsheet or the like under another name.",
            hint="Export the reviews as CSV, JSON Lines or Parquet.",
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
        read = list(islice(read_fields(file, FieldNames(text_needed=False)), _PREVIEWED_ROWS))
    except EncodingError as error:
        problem, hint = error.message.replace(str(file), file.name), "or save the file as UTF-8 and drop it again."
        raise InputError(problem, hint=f"Choose another encoding, {hint}") from error
    rows = [_shown(row.values) for row in read if row.values is not None]
    bad = [(row.line, row.problem) for row in read if row.values is None]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return Preview(names, rows, bad, recognise(rows), count_rows([file]))


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
    rows = islice(read_documents([file], id_field=columns.id or None, text_field=columns.text or None), _LOOKED_UP)
    return [row.id for row in rows if isinstance(row, Document)]


def note(plan: Plan) -> None:
    """Write down what is to become of a kept file."""
    said = {**asdict(plan), "file": plan.name}
    write_whole(plan.file.with_name(NOTE), json.dumps(said, ensure_ascii=False) + "\n")


def unfinished(folder: Path) -> Unfinished:
    """Find the plans that were begun under a folder of indexes and not finished."""
    found = Unfinished([], [])
    for written in sorted((folder / UPLOADS_FOLDER).glob(f"*/{NOTE}")):
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
    sentences = said.get("sentences", False) is True  # notes of earlier versions do not say
    return Plan(written.with_name(name), index, columns, tuple(said["instructions"]), sentences)


def discard(folder: Path) -> None:
    """Drop a kept file with its folder; what was indexed of it stays."""
    shutil.rmtree(folder, ignore_errors=True)


def indexing(plan: Plan, path: Path, encoders: EncoderPool) -> Callable[[Job], IndexingReport]:
    """Return the work of indexing a kept file; it tells `TableSample`s, and stops between shards.

    ``encoders`` gives those of a new index in the folder ``path``, or those that an index describes.
    """

    def work(job: Job) -> IndexingReport:
        total = count_rows([plan.file])
        rows = _Rows(plan, job)

        def tell(report: IndexingReport) -> None:
            if not report.judging:  # that counts the texts of a sample
                job.tell(TableSample(report.in_hand, total, report.seconds))
            if rows.ended:
                job.check()

        known = is_index(path)
        question, base = (None, None) if known else (encoders.default(), encoders.plain())
        options = IndexingOptions(units="sentences" if plan.sentences and not known else None)
        with calling(plan.file, plan.name), Index(path, encoder=question, plain=base, load=encoders.described) as index:
            try:
                report = index.add(rows, instructions=plan.instructions, options=options, progress=tell)
            finally:
                if is_index(path):
                    set_columns(index, plan.columns)
        discard(plan.file.parent)
        return report

    return work


class _Rows:
    """The rows of a plan's file; between two shards, when the next is asked for, a stopped job ends."""

    def __init__(self, plan: Plan, job: Job) -> None:
        self._plan, self._job, self.ended = plan, job, False

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
