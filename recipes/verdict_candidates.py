"""Features of a question that were tried for the verdict and told no more than those that ship: arithmetic alone."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from retriever.core.types import Embeddings, Encoded
from retriever.index.verdicts.arithmetic import likeness, pair_cosines, upper
from retriever.index.verdicts.reading import Evidence

Floats = NDArray[np.float64]
Words = Sequence[Sequence[str]]

_TINY = 1e-9
_NEAREST = 8


def candidates(evidence: Evidence, unasked: Encoded) -> dict[str, float]:
    """Compare the question's view and its answers with those under no question."""
    view, bare = pair_cosines(evidence.asked.embeddings), pair_cosines(unasked.embeddings)
    said = evidence.asked.words
    return {
        "like_unasked": likeness(view, bare),
        "spread": float(np.log((upper(view).std() + _TINY) / (upper(bare).std() + _TINY))),
        "dimensions": float(np.log(dimensions(evidence.asked.embeddings) / dimensions(unasked.embeddings))),
        "neighbours_unasked": shared_neighbours(view, bare),
        "words_unasked": overlap(said, unasked.words),
        "words_group": group_area(view, [words[0] if words else "" for words in said]),
        "words_copied": copied(evidence.asked, evidence.texts) - copied(unasked, evidence.texts),
    }


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
