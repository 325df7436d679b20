"""A question's vectors with the base view's beside: of texts that both place alike, the base view parts them better.

A view under a question of content ("What kind of product is it?") and the base view group the texts much alike, and the
base encoder does it with less noise; under a question of mood or style they do not, and the base view counts nothing.
No label says which it is: the correlation of both views' cosines does (`likeness`).
"""

import numpy as np

from retriever.core.similarity import normalise
from retriever.core.types import Embeddings
from retriever.index.verdicts.arithmetic import likeness, pair_cosines

ALIKE = 0.25
"""Correlation of the views from which the base view counts.

Under 14 wordings of questions of mood it was 0.04 to 0.21, under nine tenths of 76 others 0.29 and more. Measured
2026-11-27 with model 9340485c1f5e and base encoder 35fe04a25c72 (docs/evaluation.md, groups).
"""

CONTENT, TOPIC = 1.5, 3.0
"""Weights of the base view's spread beside the question's, and where the question asks for the topic itself."""

_COMPARED = 500  # rows whose pairs are compared
_TINY = 1e-9


def base_weight(question: Embeddings, base: Embeddings, *, asks_topic: bool) -> float:
    """Return what the base view's spread counts beside that of a question's view; 0 where the two are not alike.

    Args:
        question: (n, d) of length 1.
        base: (n, e) of length 1, of the same texts.
        asks_topic: whether the question asks what the texts are about.
    """
    rows = np.unique(np.linspace(0, len(question) - 1, _COMPARED).astype(np.int64))
    alike = likeness(*(pair_cosines(each[rows] - each[rows].mean(axis=0)) for each in (question, base)))
    if alike < ALIKE:
        return 0.0
    return TOPIC if asks_topic else CONTENT


def joined(question: Embeddings, base: Embeddings, weight: float) -> Embeddings:
    """Return vectors (n, d + e) of length 1, in whose squared distances the base view counts ``weight`` squared.

    Each view counts in units of its spread, the root mean square distance from its mean.
    """
    ours, theirs = 1 / max(_spread(question), _TINY), weight / max(_spread(base), _TINY)
    return normalise(np.hstack([ours * question, theirs * base]))


def _spread(vectors: Embeddings) -> float:
    return float(np.sqrt(np.square(vectors - vectors.mean(axis=0)).sum(axis=1).mean()))
