"""Divides documents into the units that an index is made of, or long texts into windows.

What was divided once stays as it is.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from retriever.core.types import Embeddings, Span
from retriever.store.checking import CheckedDocument
from retriever.store.database import Store
from retriever.store.windows import MOST, Windows


def divided(store: Store, documents: Sequence[CheckedDocument]) -> list[CheckedDocument]:
    """Return documents in units, where the index is made of such: those that are stored, else their sentences."""
    if not store.units.divided:
        return list(documents)
    from retriever.corpus.sentences import sentences  # loads sentencex, which an index of documents does without

    known = store.units.known(one.hash for one in documents)
    return [one.divided(known.get(one.hash) or sentences(one.document.text)) for one in documents]


def divide_stored(store: Store) -> int:
    """Divide the texts of documents that have no units, as after damage; return how many. Joins the transaction."""
    texts = store.documents.texts(store.units.undivided())
    if texts:
        from retriever.corpus.sentences import sentences

        store.documents.divide({whole: (text, sentences(text)) for whole, text in texts.items()})
    return len(texts)


def windows_of(store: Store, texts: Iterable[str]) -> dict[str, list[Span]]:
    """Return the windows of texts that are longer than one, by text; none in an index of units."""
    if store.units.divided:
        return {}
    from retriever.corpus.windows import windows

    divided = {text: windows(text, MOST) for text in texts}
    return {text: spans for text, spans in divided.items() if spans}


def windows_with_vectors(
    divided: Mapping[str, Sequence[Span]], vectors: Mapping[str, Embeddings], ids: Mapping[str, int]
) -> dict[int, Windows]:
    """Return the windows of texts, by their content ids, that were embedded.

    Args:
        divided: from `windows_of`.
        vectors: by the text of a window, its vector (dim,).
        ids: content ids of the texts.
    """
    found = {}
    for text, spans in divided.items():
        held = [span for span in spans if text[span.start : span.end] in vectors]
        if held and text in ids:
            rows = np.stack([vectors[text[span.start : span.end]] for span in held])
            found[ids[text]] = Windows(held, rows)
    return found
