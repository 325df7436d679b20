"""Steer a search by hits that somebody liked and others that they did not.

Rocchio's formula ("Relevance feedback in information retrieval", 1971): the query moves towards the mean of what is
liked and away from the mean of what is not. All three have what is typical of the view taken off first (`centering`),
so that a liked text adds what it says, not that it answers at all.
"""

import numpy as np

from retriever.core.requests import SearchRequest
from retriever.core.types import Embeddings
from retriever.index.search.view_searcher import LoadedView

MORE, LESS = 0.75, 0.25
"""Weights of the mean of what is liked and of what is not, the query's being 1."""


def steered(view: LoadedView, queries: Embeddings, request: SearchRequest) -> Embeddings:
    """Return the vectors to search a view with (n, dim): the queries' less what is typical, moved by the marked texts.

    Documents that are gone, or that have no vector in the view, have no say.
    """
    towards = queries - view.shift
    for ids, weight in ((request.more, MORE), (request.less, -LESS)):
        if ids:
            contents = view.store.documents.contents_of(ids)
            marked = view.store.vectors.get(view.view.view_id, contents).embeddings
            if len(marked):
                towards = towards + weight * (marked.mean(axis=0) - view.shift)
    return np.asarray(towards, dtype=np.float32)
