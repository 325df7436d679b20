"""Which documents say most about a question once a person has answered it for them.

The view is divided into as many groups as documents are wanted, so that these are spread over what it holds; where
there are fewer, each gives more. Before anything is taught, a group gives its most central document, the largest group
first; afterwards the one whose answer is least certain, the least certain of all first.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.arithmetic.kmeans import spherical_kmeans
from retriever.core.types import Document
from retriever.index.search.centering import sample
from retriever.index.teaching.taught import Taught, mapped
from retriever.store.database import Store
from retriever.store.views import View

LOOKED_AT = 2000
"""Most texts that are chosen from."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A document to be answered by a person.

    Attributes:
        document: it.
        guess: the answer that was learned for it so far; None before anything was.
        certainty: by how much that is more probable than the next, 0 to 1; None likewise.
    """

    document: Document
    guess: str | None = None
    certainty: float | None = None


def worth_answering(
    store: Store, view: View, taught: Taught | None, count: int, answered: Collection[str] = ()
) -> list[Asked]:
    """Return documents that say most, the one that says most first; fewer only where a view holds fewer.

    Args:
        store: the index's database.
        view: whose texts are chosen from.
        taught: what that was taught so far; None for nothing.
        count: how many.
        answered: ids of documents that are answered already; their texts are left out.
    """
    with store.snapshot():
        known = store.documents.contents_of(answered)
        held = store.vectors.content_ids(view.view_id, through=store.vectors.last_id(view.view_id))
        held = np.setdiff1d(np.intersect1d(held, store.documents.live_contents()), known)
        chosen = np.sort(sample(held, LOOKED_AT))
        if not len(chosen) or count < 1:
            return []
        stored = store.vectors.get(view.view_id, chosen) if taught is None else mapped(store, taught, chosen)
        found = spherical_kmeans(stored.embeddings, min(count, len(chosen)))
        probable = None if taught is None else _probable(store, taught, stored.content_ids.tolist())
        certainty = None if probable is None else _certainty(probable)
        order = spread_out(found.labels, -found.cosines if certainty is None else certainty, count)
        if certainty is not None:
            order.sort(key=lambda row: float(certainty[row]))
        ids = stored.content_ids[order].tolist()
        documents = store.documents.expand(ids)
    asked = []
    for row, content_id in zip(order, ids, strict=True):
        document = min(documents[content_id], key=lambda one: one.id)
        if taught is None or probable is None or certainty is None:
            asked.append(Asked(document))
        else:
            guess = taught.head.answers[int(probable[row].argmax())]
            asked.append(Asked(document, guess, float(certainty[row])))
    return asked


def _probable(store: Store, taught: Taught, ids: list[int]) -> NDArray[np.float32]:
    stored = taught.stored
    own, plain = (store.vectors.get(one, ids).embeddings for one in (stored.source_id, stored.plain_id))
    return taught.head.probabilities(own, plain)


def _certainty(probable: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return by how much the most probable answer is ahead of the next (n,)."""
    ordered = np.sort(probable, axis=1)
    return np.asarray(ordered[:, -1] - ordered[:, -2])


def spread_out(labels: NDArray[np.int64], costs: NDArray[np.float32], count: int) -> list[int]:
    """Return rows of as many groups as there are: of each group the cheapest, then the next of each.

    Args:
        labels: (n,) group of every row, the largest group 0.
        costs: (n,) theirs.
        count: rows wanted.
    """
    order = np.lexsort((costs, labels))
    places = np.arange(len(order)) - np.searchsorted(labels[order], labels[order])  # within the group
    return [int(row) for row in order[np.lexsort((labels[order], places))][:count]]
