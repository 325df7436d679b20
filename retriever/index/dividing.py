"""Divides documents into the units that an index is made of. What was divided once stays as it is."""

from collections.abc import Callable, Sequence

from retriever.core.types import Span
from retriever.store.checking import CheckedDocument
from retriever.store.database import Store


def divided(store: Store, documents: Sequence[CheckedDocument]) -> list[CheckedDocument]:
    """Return documents in units, where the index is made of such: those that are stored, else their sentences."""
    if not store.units.divided:
        return list(documents)
    known, divide = store.units.known(one.hash for one in documents), _divider(store)
    return [one.divided(known.get(one.hash) or divide(one.document.text)) for one in documents]


def divide_stored(store: Store) -> int:
    """Divide the texts of documents that have no units, as after damage; return how many. Joins the transaction."""
    texts = store.documents.texts(store.units.undivided())
    if texts:
        divide = _divider(store)
        store.documents.divide({whole: (text, divide(text)) for whole, text in texts.items()})
    return len(texts)


def _divider(store: Store) -> Callable[[str], list[Span]]:
    """Return what divides the index's texts; it loads sentencex, which an index of whole documents does without."""
    from retriever.corpus.clauses import clauses
    from retriever.corpus.sentences import sentences

    return clauses if store.units.kind == "clauses" else sentences
