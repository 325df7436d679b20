"""Parcels stored beside a batch's vectors: rows as documents or put aside, or texts that are stored already."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from retriever.core.protocols import Encoder
from retriever.core.types import BadRow, Document, Span
from retriever.index.forecast import Amount
from retriever.store.checking import CheckedDocument

_SHOWN = 5  # ids in a note
_RAW = 2000  # characters of a text that is put aside


@dataclass(frozen=True, slots=True)
class Parcel:
    """Rows and texts that are stored together with a batch's vectors.

    Attributes:
        size: rows or texts by which the progress grows.
        tokens: that are to be read for it, about.
        amount: of texts that are read for it.
        documents: to insert or update.
        bad: rows to put aside.
        truncated_ids: of documents whose texts are cut.
        known: content ids of stored texts that have no document among these.
        windows: those of long texts that are embedded, by text.
    """

    size: int
    tokens: int
    amount: Amount
    documents: Sequence[CheckedDocument] = ()
    bad: Sequence[BadRow] = ()
    truncated_ids: Sequence[str] = ()
    known: Mapping[str, int] = field(default_factory=dict)
    windows: Mapping[str, Sequence[Span]] = field(default_factory=dict)

    def without(self, refused: Mapping[str, str], stored: Iterable[Document] = ()) -> "Parcel":
        """Return the parcel with the documents put aside that refused texts are embedded of, by why they were refused.

        So are the stored documents of such texts, which stay stored.
        """
        ended = {
            id(document): next(filter(None, map(refused.get, document.embedded.values())), "")
            for document in self.documents
        }
        bad = [put_aside(document.document, ended[id(document)]) for document in self.documents if ended[id(document)]]
        bad += [put_aside(document, refused[document.text]) for document in stored]
        return replace(
            self, documents=[document for document in self.documents if not ended[id(document)]], bad=[*self.bad, *bad]
        )


def put_aside(document: Document, reason: str) -> BadRow:
    """Return a document as a row that is left out."""
    return BadRow(document.file, document.line, document.id, reason, document.text[:_RAW])


def first_ids(ids: Sequence[str], count: int) -> str:
    """Return the first of some ids for a note, and how many more there are."""
    return ", ".join(ids[:_SHOWN]) + (f" and {count - _SHOWN} more" if count > _SHOWN else "")


class UnknownTexts:
    """Notes documents of whose texts an encoder knows nothing."""

    def __init__(self) -> None:
        self._count = 0
        self._first: list[str] = []

    def see(self, encoder: Encoder, documents: Sequence[CheckedDocument], new: Collection[str]) -> None:
        """See the documents of a batch that an encoder reads, of which some texts are new."""
        texts = {
            text: document.document.id for document in documents for text in document.embedded.values() if text in new
        }
        ids = [id for id, knows in zip(texts.values(), encoder.knows(list(texts)), strict=True) if not knows]
        self._count += len(ids)
        self._first = [*self._first, *ids][:_SHOWN]

    def notes(self) -> list[str]:
        """Return what there is to tell the user of them."""
        if not self._count:
            return []
        texts = "1 text holds" if self._count == 1 else f"{self._count} texts hold"
        return [
            f"{texts} nothing that the encoder knows and can be found by the same characters alone: "
            f"{first_ids(self._first, self._count)}."
        ]


def chunks(rows: Iterable[Document | BadRow], size: Callable[[], int]) -> Iterator[list[Document | BadRow]]:
    """Yield rows in lists, whose sizes are asked for; an error on reading them is raised behind the rows before it."""
    rows = iter(rows)
    while True:
        chunk: list[Document | BadRow] = []
        try:
            chunk.extend(islice(rows, size()))
        except Exception:
            if chunk:
                yield chunk
            raise
        if not chunk:
            return
        yield chunk
