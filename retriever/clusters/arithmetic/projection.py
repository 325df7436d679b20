"""A map of a view: every document at a place in the plane, near to what it resembles.

t-SNE (van der Maaten and Hinton, 2008) places a sample; every other document goes to the weighted mean of its nearest
neighbours there, so that a map of a large corpus takes little longer than one of the sample.
"""

import numpy as np
from numpy.typing import NDArray

from retriever.core.contexts import single_threaded
from retriever.core.types import Embeddings

LANDMARKS = 2000
_DIMENSIONS = 50  # principal components that t-SNE sees
_PERPLEXITY = 30.0
_NEIGHBOURS = 3
_ROWS_AT_ONCE = 16_384


def project(vectors: Embeddings) -> NDArray[np.float32]:
    """Return (n, 2) places between -1 and 1 for rows (n, dim) of length 1, always the same on one machine."""
    distinct, places = np.unique(vectors, axis=0, return_inverse=True)
    chosen = np.random.default_rng(0).permutation(len(distinct))[:LANDMARKS]
    landmarks = distinct[np.sort(chosen)]
    with single_threaded():
        plane = _scaled(_embedded(landmarks))
        positions = plane if len(landmarks) == len(distinct) else _between(distinct, landmarks, plane)
    return positions[places.reshape(-1)]


def _embedded(landmarks: Embeddings) -> NDArray[np.float64]:
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    if len(landmarks) < 4:  # too few to be near to anything
        return np.stack([np.arange(len(landmarks), dtype=np.float64), np.zeros(len(landmarks))], axis=1)
    components = min(_DIMENSIONS, len(landmarks), landmarks.shape[1])
    reduced = PCA(components, svd_solver="full").fit_transform(landmarks.astype(np.float64))
    perplexity = min(_PERPLEXITY, (len(landmarks) - 1) / 3)
    start = reduced[:, :2] / max(float(reduced[:, 0].std()), 1e-12) * 1e-4
    return np.asarray(TSNE(2, perplexity=perplexity, init=start, random_state=0, n_jobs=1).fit_transform(reduced))


def _scaled(plane: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the places moved to the middle and stretched to fill -1 to 1, shape kept."""
    centred = plane - (plane.max(axis=0) + plane.min(axis=0)) / 2
    reach = float(np.abs(centred).max())
    return np.asarray(centred / reach if reach else centred, dtype=np.float32)


def _between(vectors: Embeddings, landmarks: Embeddings, plane: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return for every row the mean place of its nearest landmarks, nearer ones counting more."""
    positions = np.empty((len(vectors), 2), dtype=np.float32)
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        cosines = vectors[part] @ landmarks.T  # (rows, m)
        nearest = np.argpartition(-cosines, _NEIGHBOURS, axis=1)[:, :_NEIGHBOURS]
        distances = 1 - np.take_along_axis(cosines, nearest, axis=1)
        weights = 1 / (distances + 1e-6)
        positions[part] = (plane[nearest] * weights[:, :, None]).sum(axis=1) / weights.sum(axis=1, keepdims=True)
    return positions
