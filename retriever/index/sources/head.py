"""A head: what examples taught of a question, as a map from the vectors of a view to new ones. NumPy alone.

A text has a vector x under the question and a vector b in the base view, by the base encoder. A linear map of
both gives a score to every answer, and a softmax p of these says how probable each is. The new vector is

    [sqrt(share) sqrt(p), sqrt(1 - share) r],   r = (x - m) / |x - m|

with m the mean of the view: of length 1, so that a cosine is share times the Bhattacharyya coefficient of the two
texts' answers (1 where they are the same, 0 where they exclude each other) plus the rest times how alike they are
besides. Texts of one answer lie together, and within an answer they keep the order that the view gave them. Where p is
flat, the view's own order decides.

A query goes through the same map: one that names an answer has a p that is high there.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.core.similarity import normalise
from retriever.core.types import Embeddings

_STORED = np.dtype("<f4")


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """A head; it never changes.

    Attributes:
        answers: k of them, in the order of the scores.
        mean: (d,) of the view's vectors.
        weights: (d, k) from vectors less the mean to scores.
        plain_mean: (e,) of the base view's vectors.
        plain_weights: (e, k) from those less their mean to scores.
        sharpness: what scores are multiplied by before the softmax.
        share: of the answers in the square of a new vector's length, above 0 and below 1.
    """

    answers: Sequence[str]
    mean: NDArray[np.float32]
    weights: NDArray[np.float32]
    plain_mean: NDArray[np.float32]
    plain_weights: NDArray[np.float32]
    sharpness: float
    share: float

    @property
    def dim(self) -> int:
        """Length of a new vector."""
        return len(self.answers) + len(self.mean)

    def probabilities(self, vectors: Embeddings, plain: Embeddings) -> NDArray[np.float32]:
        """Return how probable every answer is for some texts: (n, k), the rows of which sum to 1.

        Args:
            vectors: (n, d) theirs in the view.
            plain: (n, e) theirs in the base view.
        """
        return softmax(self.sharpness * self.scores(vectors, plain))

    def scores(self, vectors: Embeddings, plain: Embeddings) -> NDArray[np.float32]:
        """Return the scores (n, k) of some texts before the softmax; arguments as for `probabilities`."""
        scores = (vectors - self.mean) @ self.weights + (plain - self.plain_mean) @ self.plain_weights
        return np.asarray(scores, dtype=np.float32)

    def map(self, vectors: Embeddings, plain: Embeddings) -> Embeddings:
        """Return the new vectors (n, `dim`) of some texts; arguments as for `probabilities`."""
        answers = np.sqrt(self.probabilities(vectors, plain))  # (n, k)
        rest = normalise(vectors - self.mean)  # (n, d)
        joined = np.concatenate([np.sqrt(self.share) * answers, np.sqrt(1 - self.share) * rest], axis=1)
        return normalise(joined)  # a vector that is the mean itself has no rest

    def to_bytes(self) -> bytes:
        """Return its arrays; `describe` has the rest."""
        arrays = (self.mean, self.weights, self.plain_mean, self.plain_weights)
        return b"".join(np.ascontiguousarray(array, dtype=_STORED).tobytes() for array in arrays)

    def describe(self) -> dict[str, Any]:
        """Return a JSON object with which `from_stored` reads the arrays."""
        return {
            "answers": list(self.answers),
            "dim": len(self.mean),
            "plain_dim": len(self.plain_mean),
            "sharpness": self.sharpness,
            "share": self.share,
        }

    def digest(self) -> str:
        """Return a hash over all that a new vector depends on besides the vectors it is made of, in hex."""
        return sha256(json.dumps(self.describe()).encode() + b"\0" + self.to_bytes()).hexdigest()


def from_stored(arrays: bytes, described: Any) -> Head:  # noqa: ANN401 - any JSON
    """Return the head that `Head.to_bytes` and `Head.describe` gave.

    Raises:
        KeyError, TypeError, ValueError, OverflowError: they do not fit each other, or hold what no head can.
    """
    answers = [str(answer) for answer in described["answers"]]
    dim, plain_dim = int(described["dim"]), int(described["plain_dim"])
    sharpness, share = float(described["sharpness"]), float(described["share"])
    numbers = np.frombuffer(arrays, dtype=_STORED).astype(np.float32)
    lengths = [dim, dim * len(answers), plain_dim, plain_dim * len(answers)]
    usable = min(lengths) >= 0 and sum(lengths) == len(numbers) and np.isfinite(numbers).all()
    if not (usable and dim and plain_dim and answers and 0 < share < 1 and 0 < sharpness < np.inf):
        raise ValueError("its numbers are not those of a head")
    mean, weights, plain_mean, plain_weights = np.split(numbers, np.cumsum(lengths)[:-1])
    k = len(answers)
    return Head(answers, mean, weights.reshape(-1, k), plain_mean, plain_weights.reshape(-1, k), sharpness, share)


def softmax(scores: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Return the softmax of the rows (n, k)."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), dtype=np.float32)
