"""Texts by their best vectors: the own one of a text, or that of one of its windows.

A view's vector index finds vectors; here they become texts, each as near as its nearest vector. Views whose texts
have no windows go past this.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retriever.core.types import Neighbours, Span
from retriever.store.database import Store
from retriever.store.windows import texts_of


@dataclass(frozen=True, slots=True)
class Best:
    """How near a text is.

    Attributes:
        cosine: of what is searched for and the nearest of the text's vectors.
        part: the window that this is of; None where it is the text's own.
    """

    cosine: float
    part: Span | None = None


def best_of_texts(search: Callable[[int], Neighbours], k: int, vectors_each: float) -> Neighbours:
    """Return the k nearest texts of each query, or all there are, each by its best vector.

    The search returns so many vectors of each query, best first, as `VectorIndex.search` does.
    """
    width = int(np.ceil(k * vectors_each))
    while True:
        neighbours = search(width)
        rows = [_first_of_each(texts) for texts in texts_of(neighbours.ids)]
        if all(len(row) >= k or ids[-1] < 0 for row, ids in zip(rows, neighbours.ids, strict=True)):
            break
        width *= 2
    best = Neighbours(np.full((len(rows), k), -1), np.full((len(rows), k), -np.inf, dtype=np.float32))
    for number, row in enumerate(rows):
        kept = row[:k]
        best.ids[number, : len(kept)] = texts_of(neighbours.ids[number, kept])
        best.scores[number, : len(kept)] = neighbours.scores[number, kept]
    return best


def best_vectors(
    store: Store, view_id: int, content_ids: Iterable[int], toward: NDArray[np.float32]
) -> dict[int, Best]:
    """Return how near those of some texts that have a vector in a view are to what is searched for (dim,).

    Each cosine is worked out by itself, so that it is the same whatever is beside it.
    """
    ids = sorted(set(content_ids))
    own = store.vectors.get(view_id, ids)
    best = {
        content_id: Best(float(vector @ toward))
        for content_id, vector in zip(own.content_ids.tolist(), own.embeddings, strict=True)
    }
    for content_id, windows in store.vectors.windows(view_id, ids).items():
        for span, vector in zip(windows.spans, windows.embeddings, strict=True):
            cosine = float(vector @ toward)
            if cosine > best[content_id].cosine:
                best[content_id] = Best(cosine, span)
    return best


def _first_of_each(texts: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the places (m,) in an array of texts at which each but -1 stands first, ascending."""
    _, first = np.unique(texts, return_index=True)
    return np.sort(first[texts[first] >= 0])
