"""Divides documents into the units that an index is made of. What was divided once stays as it is."""

from collections.abc import Sequence

from retriever.store.checking import CheckedDocument
from retriever.store.database import Store


def divided(store: Store, documents: Sequence[CheckedDocument]) -> list[CheckedDocument]:
    """Return documents in units, where the index is made of such: those that are stored, else their sentences."""
    if not store.units.divided:
        return list(documents)
    from retriever.corpus.sentences import sentences

    known = store.units.known(one.hash for one in documents)
    return [one.divided(known.get(one.hash) or sentences(one.document.text)) for one in documents]


def divide_stored(store: Store) -> int:
    """Divide the texts of documents that have no units, as after damage; return how many. Joins the transaction."""
    texts = store.documents.texts(store.units.undivided())
    if texts:
        from retriever.corpus.sentences import sentences

        store.documents.divide({whole: (text, sentences(text)) for whole, text in texts.items()})
    return len(texts)
