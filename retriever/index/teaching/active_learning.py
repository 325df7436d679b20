"""Which documents say most about a question once a person has answered it for them.

The view is divided into as many groups as documents are wanted, so that these are spread over what it holds; where
there are fewer, each gives more. Before anything is taught, a group gives its most central document, the largest group
first; afterwards the one whose answer is least certain, the least certain of all first.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from retriever.core.types import Document, Embeddings, Ids
from retriever.index.opened import Opened
from retriever.index.search.centering import sample
from retriever.index.sources.taught import Taught
from retriever.index.teaching.labels import NONE_OF_THESE

CLEAR = 2.5
"""How many times as probable as the others on average an answer is that a text clearly gives."""

LOOKED_AT = 2000
"""Most texts that are chosen from."""


class Groups(Protocol):
    """Vectors in groups.

    Attributes:
        labels: (n,) group of every row, the largest group 0.
        cosines: (n,) of every row with the middle of its group.
    """

    @property
    def labels(self) -> Ids: ...  # noqa: D102 - told above

    @property
    def cosines(self) -> NDArray[np.float32]: ...  # noqa: D102 - told above


Grouping = Callable[[Embeddings, int], Groups]
"""Puts vectors (n, dim) into k groups, none of them empty."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A document to be answered by a person.

    Attributes:
        document: it.
        guess: the answer that was learned for it so far; None before anything was.
        certainty: by how much that is more probable than the next, 0 to 1; None likewise.
    """

    document: Document
    guess: str | None = None
    certainty: float | None = None


def worth_answering(opened: Opened, instruction: str, group: Grouping, count: int, answered: Ids) -> list[Suggestion]:
    """Return documents that say most of a question; fewer only where the view that serves it holds fewer.

    Those whose texts are ``answered``, by content ids, are not among them.
    """
    store, sources = opened.store, opened.known_sources
    with store.snapshot():
        live, shown = store.documents.live_contents(), sources.active(instruction)
        if shown is None or store.vectors.count_live(shown.view_id) < len(live):
            shown = sources.active("")  # a view that is not whole holds the texts that were indexed or found first
        if shown is None:
            return []
        held = np.setdiff1d(np.intersect1d(store.vectors.held(shown.view_id), live), answered)
        chosen = np.sort(sample(held, LOOKED_AT))
        if not len(chosen) or count < 1:
            return []
        stored = store.vectors.get(shown.view_id, chosen)
        clusters = group(stored.embeddings, min(count, len(chosen)))
        guesses = None if not isinstance(shown, Taught) else shown.guesses(sources.stored, stored.content_ids)
        certainty = None if guesses is None else _certainty(guesses.probable)
        order = spread_out(clusters.labels, -clusters.cosines if certainty is None else certainty, count)
        if certainty is not None:
            order.sort(key=lambda row: float(certainty[row]))
        ids = stored.content_ids[order].tolist()
        documents = store.documents.expand(ids)
    requests = []
    for row, content_id in zip(order, ids, strict=True):
        document = min(documents[content_id], key=lambda equal: equal.id)
        if guesses is None or certainty is None:
            requests.append(Suggestion(document))
        else:
            guess = guesses.answers[int(guesses.probable[row].argmax())]
            requests.append(Suggestion(document, guess, float(certainty[row])))
    return requests


def clear_answers(opened: Opened, instruction: str, ids: Collection[str]) -> dict[str, str] | None:
    """Return the learned answers of documents to a question, as `Teaching.clear_answers` does."""
    store, sources = opened.store, opened.known_sources
    with store.snapshot():
        shown = sources.active(instruction)
        if not isinstance(shown, Taught):
            return None
        held = store.vectors.get(shown.view_id, store.documents.contents_of(ids)).content_ids
        guesses = shown.guesses(sources.stored, held)
        documents = store.documents.expand(held.tolist())
    least = CLEAR / (CLEAR + len(guesses.answers) - 1)
    answers = {}
    for content_id, probable in zip(held.tolist(), guesses.probable, strict=True):
        answer = guesses.answers[int(probable.argmax())]
        if probable.max() >= least and answer != NONE_OF_THESE:
            answers.update({document.id: answer for document in documents[content_id] if document.id in ids})
    return answers


def _certainty(probable: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return by how much the most probable answer is ahead of the next (n,)."""
    ordered = np.sort(probable, axis=1)
    return np.asarray(ordered[:, -1] - ordered[:, -2])


def spread_out(labels: NDArray[np.int64], costs: NDArray[np.float32], count: int) -> list[int]:
    """Return so many rows of as many groups as there are: of each group the cheapest, then the next of each.

    Every row has a group, the largest 0, and a cost: (n,) each.
    """
    order = np.lexsort((costs, labels))
    places = np.arange(len(order)) - np.searchsorted(labels[order], labels[order])  # within the group
    return [int(row) for row in order[np.lexsort((labels[order], places))][:count]]
