"""Embedded documents as hits: equal texts are one, and so are the parts of a document."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from retriever.core.results import Hit
from retriever.core.types import Document
from retriever.index.selection import place
from retriever.store.database import Store


def first_of_equal(
    documents: Sequence[Document], *, besides: str | None = None
) -> Iterator[tuple[Document, Sequence[str]]]:
    """Yield the first of some documents of one text with the ids of the others; parts one by one.

    Args:
        documents: as `Documents.expand` gives them for a content.
        besides: the id of a document that is left out.
    """
    wanted = [document for document in documents if document.parent_id != besides]
    yield from ((document, ()) for document in wanted if document.part)  # equal sentences stand in different documents
    if wholes := [document for document in wanted if not document.part]:
        yield wholes[0], [whole.id for whole in wholes[1:]]


def order(hit: Hit) -> tuple[float, str, int]:
    """Return what hits are sorted by: the best first, then by document, then by place in it."""
    return -hit.fused, *place(hit.document)


def by_parent(store: Store, hits: Sequence[Hit]) -> list[Hit]:
    """Return hits in order with the best part of each text of documents as a hit of the first of these.

    Args:
        store: the index's database.
        hits: best first; of documents that are embedded.
    """
    best: dict[str, Hit] = {}
    for hit in hits:
        best.setdefault(hit.document.parent_id, hit)
    parents = [id for id, hit in best.items() if hit.document.part]
    wholes = store.documents.get(parents) if parents else {}
    if len(wholes) < len(parents):
        raise store.inspection.hidden("documents")
    of_text: dict[str, list[str]] = {}
    for id, hit in best.items():
        of_text.setdefault(wholes.get(id, hit.document).text, []).extend([id, *hit.equal])
    return [_whole_hit(best[first], wholes.get(first), others) for first, *others in of_text.values()]


def _whole_hit(hit: Hit, whole: Document | None, equal: Sequence[str]) -> Hit:
    """Return the hit of a document, given that of its best part; None where it was found whole."""
    document = hit.document
    if whole is None or document.part is None:
        return replace(hit, equal=equal)
    return replace(hit, document=whole, unit=document, part=document.part.span, equal=equal)
