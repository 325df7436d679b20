"""Documents as the rows of their table, and back."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from retriever.core.errors import IndexDamagedError
from retriever.core.fingerprint import content_hash
from retriever.core.types import Document, Part, Span, child_id
from retriever.store.checking import CheckedDocument, same_metadata
from retriever.store.checksums import REPAIR, document_checksum
from retriever.store.connection import Rows
from retriever.store.stored_json import stored_json_list

Row = tuple[str | None, str | None, int, int, int, int, int, str]
"""Id, parent, number, start, stop, parts, content id and metadata."""

ROW = (
    "documents.id, documents.parent, number, documents.start, documents.stop, parts, documents.content_id, "
    "documents.metadata, documents.checksum, text, hash"
)
"""A `Row` with its checksum, and the text with its hash, of documents joined with contents."""


def as_row(one: CheckedDocument, content_id: int) -> Row:
    """Return the row of a document whose text has a content id."""
    document, part = one.document, one.document.part
    if part is None:
        return document.id, None, 0, 0, 0, len(one.children), content_id, one.metadata
    return None, part.parent, part.number, part.span.start, part.span.end, 0, content_id, one.metadata


def same_rows(before: Sequence[Row], rows: Sequence[Row]) -> bool:
    """Whether the rows of a document and its parts hold the same values; the order of keys does not matter."""
    return [row[:7] for row in before] == [row[:7] for row in rows] and same_metadata(before[0][7], rows[0][7])


def as_documents(rows: Rows, path: Path) -> Iterator[Document]:
    """Yield the documents of rows of `ROW`.

    Args:
        rows: of the database.
        path: its file, for the error.

    Raises:
        IndexDamagedError: one is not what was stored.
    """
    for row, data in zip(rows, stored_json_list(row[7] for row in rows), strict=True):
        id, parent, number, start, stop, *_, checksum, text, digest = row
        name = id if parent is None else child_id(parent, number)
        if document_checksum(row[:8]) != checksum or content_hash(text) != digest:
            raise IndexDamagedError(f"{path} is damaged: document {name!r} is not what was stored.", hint=REPAIR)
        part = None if parent is None else Part(parent, number, Span(start, stop))
        yield Document(name, text, data, part=part)
