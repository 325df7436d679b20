"""Rows in planted groups."""

import numpy as np

from retriever.core.similarity import normalise


def groups(sizes, *, dim=24, noise=0.05, seed=0):
    """Rows of length 1 around as many directions as sizes, and the group of each."""
    draw = np.random.default_rng(seed)
    directions = np.linalg.qr(draw.normal(size=(dim, dim)))[0][: len(sizes)]
    planted = np.repeat(np.arange(len(sizes)), sizes)
    return normalise(directions[planted] + draw.normal(size=(len(planted), dim)) * noise), planted
