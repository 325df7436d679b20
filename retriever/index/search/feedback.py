"""Learn from the texts a search has read which others are worth reading: pseudo-relevance feedback by ridge regression.

The texts read so far have a vector x by the base encoder, and a similarity y to the query under the instruction. The
ridge solution w = X^T (X X^T + a I)^-1 y, with X and y less their means, is a vector of the base encoder's space; the
texts with the largest product are those that are expected to be similar under the instruction. Where the index holds a
view of another instruction that has every text, its vectors stand beside those of the base encoder: what the
instruction encoder made of one question tells more of another than the base encoder does. It costs milliseconds for
hundreds of texts, and one more search of each view that is learned from.

Related: dense pseudo-relevance feedback (Rocchio; ANCE-PRF, 2108.13454), which moves the query within one space.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from retriever.core.types import Embeddings

REGULARISATION = 1.0
"""a; vectors have length 1, so that one text alone moves its own prediction about halfway."""

FEWEST = 8
"""Texts, of which fewer teach nothing."""

_LEAST_SPREAD = 1e-6  # of texts whose vectors are all the same


def directions(parts: Sequence[Embeddings], similarities: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """Compute what to look for: for every part (q, d) rows w, zeros where nothing was learned.

    What is predicted of a text is the sum over the parts of w with its vector there, but for a constant. Every part has
    the same say: less their mean, its vectors have length 1 in the root mean square.

    Args:
        parts: each (n, d), the texts read as one view has them; d may differ from part to part.
        similarities: (n, q) of the same texts to each query under the instruction.
    """
    if len(similarities) < FEWEST:
        return [np.zeros((similarities.shape[1], part.shape[1]), dtype=np.float32) for part in parts]
    centred = [part - part.mean(axis=0) for part in parts]
    scales = [1 / max(np.sqrt(np.square(part).sum(axis=1).mean()), _LEAST_SPREAD) for part in centred]
    gram = sum(scale**2 * (part @ part.T) for part, scale in zip(centred, scales, strict=True))
    weights = np.linalg.solve(
        gram + REGULARISATION * np.eye(len(similarities), dtype=np.float32), similarities - similarities.mean(axis=0)
    )
    return [(scale**2 * weights.T @ part).astype(np.float32) for part, scale in zip(centred, scales, strict=True)]
