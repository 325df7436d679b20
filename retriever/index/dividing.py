"""Divides documents into sentences where an index embeds these, or long texts into windows.

What was divided once stays as it is.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, get_args

import numpy as np

from retriever.core.errors import UsageError
from retriever.core.types import Embeddings, Span
from retriever.store.checking import CheckedDocument, checked
from retriever.store.database import Store
from retriever.store.windows import MOST, Windows

UNITS = "units"
"""The setting that says what is embedded of the first documents; an index without it is of whole ones."""

UnitKind = Literal["documents", "sentences"]
KINDS: tuple[UnitKind, ...] = get_args(UnitKind)
"""The units of a document that can be embedded."""


def kind(store: Store) -> UnitKind:
    """Return what of documents is embedded: what those that are there tell, else what is settled."""
    return "sentences" if store.parts or store.settings.get(UNITS) == "sentences" else "documents"


def choose(store: Store, wanted: UnitKind | None) -> None:
    """Settle what is embedded of documents, for good once there are any; None for what is settled.

    Raises:
        UsageError: the kind is unknown, or the index holds documents of another.
    """
    if wanted is None or wanted == kind(store):
        return
    if wanted not in KINDS:
        raise UsageError(f"Unknown units {wanted!r}.", hint=f"Known: {', '.join(KINDS)}.")
    if store.documents.count_to(1):
        raise UsageError(
            f"The units of this index are {kind(store)}, and it holds documents.",
            hint="Index the corpus into another folder (--index), or leave --units out.",
        )
    store.settings.set(UNITS, wanted)


def divided(store: Store, documents: Sequence[CheckedDocument]) -> list[CheckedDocument]:
    """Return documents with their sentences, where the index is of such; a text that is stored keeps those it has."""
    if kind(store) == "documents":
        return list(documents)
    from retriever.corpus.sentences import sentences  # loads sentencex, which an index of documents does without

    known, code = store.parts.known(document.hash for document in documents), store.words.language.code
    return [
        document.divided(known.get(document.hash) or sentences(document.document.text, code)) for document in documents
    ]


def divide_again(store: Store) -> int:
    """Divide the documents again of whose parts some are gone; return how many. Joins the transaction."""
    lacking = store.parts.lacking()
    if lacking:
        store.documents.put(divided(store, [*map(checked, store.documents.get(lacking).values())]))
    return len(lacking)


def windows_of(store: Store, texts: Iterable[str]) -> dict[str, list[Span]]:
    """Return the windows of texts that are longer than one, by text; none where sentences are embedded."""
    if kind(store) == "sentences":
        return {}
    from retriever.corpus.windows import windows

    code = store.words.language.code
    divided = {text: windows(text, MOST, code) for text in texts}
    return {text: spans for text, spans in divided.items() if spans}


def windows_with_vectors(
    divided: Mapping[str, Sequence[Span]], vectors: Mapping[str, Embeddings], ids: Mapping[str, int]
) -> dict[int, Windows]:
    """Return the windows of texts (`windows_of`) that were embedded, by the texts' content ids.

    Vectors (dim,) are given by the text of a window, and content ids by the text.
    """
    windows = {}
    for text, spans in divided.items():
        held = [span for span in spans if text[span.start : span.end] in vectors]
        if held and text in ids:
            rows = np.stack([vectors[text[span.start : span.end]] for span in held])
            windows[ids[text]] = Windows(held, rows)
    return windows
