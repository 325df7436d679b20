"""Which documents can be stored, and how: the hash of the text, metadata as JSON with the fields that filters reach."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from retriever.core.errors import InputError
from retriever.core.fields import MAX_DEPTH, json_text, leaves
from retriever.core.fingerprint import content_hash
from retriever.core.text import is_blank
from retriever.core.types import Document, Part, Span, child_id


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


def same_metadata(old: str, new: str) -> bool:
    """Whether two metadata texts hold the same values; the order of keys does not matter."""
    return old == new or _sorted(old) == _sorted(new)


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
