"""Which documents can be stored, and what of them is worked out once: the hash of the text, the metadata as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from retriever.core.errors import InputError
from retriever.core.fingerprint import content_hash
from retriever.core.types import Document, Span
from retriever.store import metadata


@dataclass(frozen=True, slots=True)
class CheckedDocument:
    """A document that can be stored.

    Attributes:
        document: it.
        hash: of its text.
        metadata: as the JSON text that is stored.
        fields: names and JSON paths of the metadata's leaves.
        units: the parts of the text that are embedded in its place, in order; none where the text itself is.
    """

    document: Document
    hash: bytes
    metadata: str
    fields: Sequence[tuple[str, str]]
    units: Sequence[Span] = ()

    @property
    def embedded(self) -> Mapping[bytes, str]:
        """The distinct texts that are embedded, by hash: the document's own, or those of its units."""
        if not self.units:
            return {self.hash: self.document.text}
        texts = (self.document.text[one.start : one.end] for one in self.units)
        return {content_hash(text): text for text in texts}

    def divided(self, units: Sequence[Span]) -> "CheckedDocument":
        """Return the document with its text in units."""
        return replace(self, units=units)


def checked(document: Document) -> CheckedDocument:
    """Return a document with what storing it takes.

    Raises:
        InputError: its id or text is empty or holds what UTF-8 or SQLite cannot, or its metadata is not JSON or nests
            too deeply.
    """
    return CheckedDocument(document, _hash(document), metadata.dump(document), list(metadata.fields(document)))


def _hash(document: Document) -> bytes:
    """Return the hash of the text once id and text are known to be storable."""
    for name, value in (("id", document.id), ("text", document.text)):
        if not value.strip() or "\0" in value:
            raise InputError(f"Document {document.id!r} has an empty {name} or one with a NUL character.")
    try:
        document.id.encode()
        return content_hash(document.text)
    except UnicodeEncodeError as error:
        raise InputError(f"Document {document.id!r} holds a lone surrogate, which is not text: {error}.") from error
