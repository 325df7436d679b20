"""Features that tell a question which is followed from one that is not: arithmetic alone, in NumPy.

Views are compared by the cosines of all pairs of texts, as a search or a clustering sees them; answers by their words.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from retriever.core.types import Embeddings, Encoded
from retriever.index.verdicts.reading import Evidence

Floats = NDArray[np.float64]
Words = Sequence[Sequence[str]]

SAME = 0.98
"""Correlation of all pairs' cosines above which two views group the texts in the same way."""

_TINY = 1e-9
_LEAST_CHANGE = 2e-3  # of a correlation; what is less is rounding
_NEAREST = 8
_FLAT = 1e-6


def features(evidence: Evidence, meanings: Embeddings | None) -> dict[str, float]:
    """Return the features of a question by name.

    Args:
        evidence: what was read.
        meanings: (n, e) of the texts' answers by a plain reader, as `reading.meanings` gives them; None where there is
            no such reader.
    """
    values = {**of_views(evidence), **of_words(evidence)}
    if meanings is not None:
        values["words_near"] = near(evidence.asked.embeddings, meanings)
    return values


def same_whatever_is_asked(evidence: Evidence) -> bool:
    """Whether the question's view is the same as that of none and of every other question: it is not read at all."""
    view = pair_cosines(evidence.asked.embeddings)
    others = (evidence.unasked, *evidence.references)
    return all(likeness(view, pair_cosines(heard.embeddings)) > SAME for heard in others)


def of_views(evidence: Evidence) -> dict[str, float]:
    """Compare the question's view with those it should be unlike, and with that of the question in other words."""
    view, unasked = pair_cosines(evidence.asked.embeddings), pair_cosines(evidence.unasked.embeddings)
    beside = view[: len(evidence.paraphrase.embeddings), : len(evidence.paraphrase.embeddings)]
    reworded = likeness(beside, pair_cosines(evidence.paraphrase.embeddings))
    return {
        "steady": -float(np.log(1 + _LEAST_CHANGE - reworded)),
        "spread": float(np.log((upper(view).std() + _TINY) / (upper(unasked).std() + _TINY))),
        "dimensions": float(np.log(dimensions(evidence.asked.embeddings) / dimensions(evidence.unasked.embeddings))),
        "turned": reworded - likeness(beside, pair_cosines(evidence.negated.embeddings)),
        "like_unasked": likeness(view, unasked),
        "like_others": max(likeness(view, pair_cosines(heard.embeddings)) for heard in evidence.references),
        "neighbours_unasked": shared_neighbours(view, unasked),
    }


def of_words(evidence: Evidence) -> dict[str, float]:
    """Compare the question's answers with those to others, and say how they spread over the texts."""
    said = evidence.asked.words
    beside = said[: len(evidence.paraphrase.words)]
    first = [words[0] if words else "" for words in said]
    return {
        "words_unasked": overlap(said, evidence.unasked.words),
        "words_steady": overlap(beside, evidence.paraphrase.words),
        "words_turned": overlap(beside, evidence.paraphrase.words) - overlap(beside, evidence.negated.words),
        "words_spread": entropy(first),
        "words_group": group_area(pair_cosines(evidence.asked.embeddings), first),
        "words_copied": copied(evidence.asked, evidence.texts) - copied(evidence.unasked, evidence.texts),
    }


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


def shared_neighbours(first: Floats, second: Floats, count: int = _NEAREST) -> float:
    """Return the share of the nearest texts of a text that two views (n, n) have in common, on average."""
    count = min(count, len(first) - 1)
    nearest = []
    for cosines in (first, second):
        order = np.argsort(-(cosines - 9 * np.eye(len(cosines))), axis=1, kind="stable")[:, :count]
        chosen = np.zeros(cosines.shape, dtype=bool)
        np.put_along_axis(chosen, order, True, axis=1)
        nearest.append(chosen)
    return float((nearest[0] & nearest[1]).sum(axis=1).mean() / count)


def dimensions(vectors: Embeddings) -> float:
    """Return over how many directions rows (n, dim) spread: 1 over the sum of squares of their shares of variance."""
    rows = vectors.astype(np.float64)
    variances = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False) ** 2
    total = variances.sum()
    return 1.0 if total < _TINY else float(total**2 / (variances**2).sum())


def overlap(first: Words, second: Words) -> float:
    """Return the share of words in common of all that two lists of answers have, on average over texts."""
    shares = [len({*a} & {*b}) / max(1, len({*a} | {*b})) for a, b in zip(first, second, strict=True)]
    return float(np.mean(shares))


def entropy(words: Sequence[str]) -> float:
    """Return how evenly words spread, 0 where all are the same, 1 where all are different."""
    counts = np.array(list(Counter(words).values()), dtype=np.float64)
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum() / np.log(max(2, len(words))))


def group_area(cosines: Floats, words: Sequence[str]) -> float:
    """Return how likely two texts with the same word are nearer than two with different ones; 0.5 where none says."""
    pairs = np.triu_indices(len(words), k=1)
    same = (np.array(words)[:, None] == np.array(words))[pairs]
    values = cosines[pairs]
    if not same.any() or same.all():
        return 0.5
    ordered = np.sort(values[~same])
    below = np.searchsorted(ordered, values[same], "left") + np.searchsorted(ordered, values[same], "right")
    return float(below.mean() / (2 * len(ordered)))


def copied(heard: Encoded, texts: Sequence[str]) -> float:
    """Return the share of answered words that stand in their text."""
    shares = [
        np.mean([word in text.lower() for word in words])
        for words, text in zip(heard.words, texts, strict=True)
        if words
    ]
    return float(np.mean(shares)) if shares else 0.0
