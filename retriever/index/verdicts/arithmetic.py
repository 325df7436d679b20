"""Features that tell a question which is followed from one that is not: arithmetic alone, in NumPy.

Views are compared by the cosines of all pairs of texts, as a search or a clustering sees them.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from retriever.core.types import Embeddings
from retriever.index.verdicts.reading import Evidence

Floats = NDArray[np.float64]

SAME = 0.98
"""Correlation of all pairs' cosines above which two views group the texts in the same way."""

_TINY = 1e-9
_LEAST_CHANGE = 2e-3  # of a correlation; what is less is rounding
_FLAT = 1e-6


def features(evidence: Evidence, meanings: Embeddings | None) -> dict[str, float]:
    """Return the features of a question by name: those of the chance, and those that `alike` tells.

    The question's view is compared with those it should be unlike, and with that of the question in other words.

    Args:
        evidence: what was read.
        meanings: (n, e) of the texts' answers by a plain reader, as `reading.meanings` gives them; None where there is
            no such reader.
    """
    view, unasked = pair_cosines(evidence.asked.embeddings), pair_cosines(evidence.unasked.embeddings)
    beside = view[: len(evidence.paraphrase.embeddings), : len(evidence.paraphrase.embeddings)]
    reworded = likeness(beside, pair_cosines(evidence.paraphrase.embeddings))
    values = {
        "steady": -float(np.log(1 + _LEAST_CHANGE - reworded)),
        "spread": float(np.log((upper(view).std() + _TINY) / (upper(unasked).std() + _TINY))),
        "turned": reworded - likeness(beside, pair_cosines(evidence.negated.embeddings)),
        "like_unasked": likeness(view, unasked),
        "like_others": max(likeness(view, pair_cosines(heard.embeddings)) for heard in evidence.references),
    }
    if meanings is not None:
        values["words_near"] = near(evidence.asked.embeddings, meanings)
    return values


def same_whatever_is_asked(evidence: Evidence) -> bool:
    """Whether the question's view is the same as that of none and of every other question: it is not read at all."""
    view = pair_cosines(evidence.asked.embeddings)
    others = (evidence.unasked, *evidence.references)
    return all(likeness(view, pair_cosines(heard.embeddings)) > SAME for heard in others)


def alike(values: Mapping[str, float]) -> dict[str, float]:
    """Return how alike the same texts are grouped under a question and otherwise, by its features: correlations.

    ``unasked`` is under no question, ``others`` under that of the other questions which is most alike, ``reworded``
    under the question in other words, ``negated`` under the question turned around.
    """
    reworded = 1 + _LEAST_CHANGE - float(np.exp(-values["steady"]))
    return {
        "unasked": values["like_unasked"],
        "others": values["like_others"],
        "reworded": reworded,
        "negated": reworded - values["turned"],
    }


def near(vectors: Embeddings, meanings: Embeddings) -> float:
    """Return how far a view (n, dim) has those texts together whose answers mean the same (n, e), as a correlation.

    A model that answers the question has both by the answer; where both go by different things, it hardly reads it.
    """
    return likeness(pair_cosines(vectors), pair_cosines(meanings - meanings.mean(axis=0)))


def pair_cosines(vectors: Embeddings) -> Floats:
    """Return the cosines (n, n) of rows (n, dim)."""
    rows = vectors.astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True) + _TINY
    return np.asarray(rows @ rows.T)


def upper(cosines: Floats) -> Floats:
    """Return the values (n (n - 1) / 2,) of all pairs of different texts in (n, n)."""
    return cosines[np.triu_indices(len(cosines), k=1)]


def likeness(first: Floats, second: Floats) -> float:
    """Return Pearson's correlation of the cosines of all pairs in two views (n, n); 1 where both are flat."""
    ours, theirs = upper(first), upper(second)
    flat = [float(np.ptp(cosines)) < _FLAT for cosines in (ours, theirs)]
    if any(flat):  # all texts are alike in a view: there are no groups to compare
        return float(all(flat))
    return float(np.corrcoef(ours, theirs)[0, 1])
