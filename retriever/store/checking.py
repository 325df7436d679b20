"""Which documents can be stored, and as which rows (hash of the text, metadata as JSON); and documents of rows."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from retriever.core.errors import InputError
from retriever.core.fields import MAX_DEPTH, json_text, leaves
from retriever.core.fingerprint import content_hash
from retriever.core.text import is_blank
from retriever.core.types import Document, Part, Span, child_id
from retriever.store.checksums import document_checksum
from retriever.store.columns import stored_json_list
from retriever.store.connection import Connections, Rows


@dataclass(frozen=True, slots=True)
class CheckedDocument:
    """A document that can be stored.

    Attributes:
        document: it.
        hash: of its text.
        metadata: as the JSON text that is stored.
        fields: names and JSON paths of the metadata's leaves.
        children: its parts in order, which are embedded in its place; none where it is embedded itself.
    """

    document: Document
    hash: bytes
    metadata: str
    fields: Sequence[tuple[str, str]]
    children: "Sequence[CheckedDocument]" = ()

    @property
    def embedded(self) -> Mapping[bytes, str]:
        """The distinct texts that are embedded, by hash: the document's own, or those of its children."""
        return {part.hash: part.document.text for part in self.children or (self,)}

    def divided(self, spans: Sequence[Span]) -> "CheckedDocument":
        """Return the document with a child for each of some parts of its text."""
        whole = self.document
        children = []
        for number, span in enumerate(spans, start=1):
            text, part = whole.text[span.start : span.end], Part(whole.id, number, span)
            child = replace(whole, id=child_id(whole.id, number), text=text, part=part)
            children.append(CheckedDocument(child, content_hash(text), self.metadata, ()))
        return replace(self, children=children)


def checked(document: Document) -> CheckedDocument:
    """Return a document with what storing it takes.

    Raises:
        InputError: its id or text is empty or invisible or holds what UTF-8 or SQLite cannot, or its metadata is not
            JSON or nests too deeply.
    """
    return CheckedDocument(document, _hash(document), metadata_json(document), list(metadata_fields(document)))


def _hash(document: Document) -> bytes:
    """Return the hash of the text once id and text are known to be storable."""
    for name, value in (("id", document.id), ("text", document.text)):
        if is_blank(value) or "\0" in value:
            raise InputError(f"Document {document.id!r} has an empty {name} or one with a NUL character.")
    try:
        document.id.encode()
        return content_hash(document.text)
    except UnicodeEncodeError as error:
        raise InputError(f"Document {document.id!r} holds a lone surrogate, which is not text: {error}.") from error


def metadata_json(document: Document) -> str:
    """Return the document's metadata as JSON text.

    Raises:
        InputError: a value is no JSON (NaN and infinities included).
    """
    try:
        text = json_text(dict(document.metadata))
        text.encode()  # a lone surrogate is no text
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"The metadata of document {document.id!r} is not JSON: {error}.",
            hint="Use strings, finite numbers, true, false, null, lists and objects only.",
        ) from error
    return text


def metadata_fields(document: Document) -> Iterator[tuple[str, str]]:
    """Yield (name, JSON path) for every field of the metadata (`retriever.core.fields`).

    Raises:
        InputError: the metadata nests deeper than `MAX_DEPTH`.
    """
    try:
        for field in leaves(document.metadata):
            yield field.name, _path(field.keys)
    except RecursionError:
        raise InputError(
            f"The metadata of document {document.id!r} nests deeper than {MAX_DEPTH} levels.", hint="Flatten it."
        ) from None


@lru_cache(maxsize=10_000)
def _path(keys: tuple[str, ...]) -> str:
    return "$" + "".join(f".{json_text(key)}" for key in keys)


def _sorted(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True)


Row = tuple[str | None, str | None, int, int, int, int, int, str]
"""Id, parent, number, start, stop, parts, content id and metadata."""

ROW = (
    "documents.id, documents.parent, number, documents.start, documents.stop, parts, documents.content_id, "
    "documents.metadata, documents.checksum, text, hash"
)
"""A `Row` with its checksum, and the text with its hash, of documents joined with contents."""


def as_row(entry: CheckedDocument, content_id: int) -> Row:
    """Return the row of a document whose text has a content id."""
    document, part = entry.document, entry.document.part
    if part is None:
        return document.id, None, 0, 0, 0, len(entry.children), content_id, entry.metadata
    return None, part.parent, part.number, part.span.start, part.span.end, 0, content_id, entry.metadata


def same_rows(before: Sequence[Row], rows: Sequence[Row]) -> bool:
    """Whether the rows of a document and its parts hold the same values; the order of keys does not matter."""
    old, new = before[0][7], rows[0][7]
    return [row[:7] for row in before] == [row[:7] for row in rows] and (old == new or _sorted(old) == _sorted(new))


def as_documents(connections: Connections, rows: Rows) -> Iterator[Document]:
    """Yield the documents of a database's rows of `ROW`.

    Raises:
        IndexDamagedError: one is not what was stored.
    """
    for row, data in zip(rows, stored_json_list(row[7] for row in rows), strict=True):
        id, parent, number, start, stop, *_, checksum, text, digest = row
        name = id if parent is None else child_id(parent, number)
        if document_checksum(row[:8]) != checksum or content_hash(text) != digest:
            raise connections.damaged(f"document {name!r} is not what was stored")
        part = None if parent is None else Part(parent, number, Span(start, stop))
        yield Document(name, text, data, part=part)
