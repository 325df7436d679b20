"""A low-rank change of a model: to every linear layer's weight (out, in) is added up (out, r) times down (r, in).

Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", ICLR 2022, section 4.1. In NumPy; `tuning` learns it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from retriever.core.encoder import Tuning
from retriever.core.errors import EncoderError
from retriever.encoders.bert.arrays import Affine, BertWeights, Floats, Layer

LINEAR = ("attention", "mixed", "up", "down")
"""The parts of a layer that are changed."""

_STORED = np.dtype("<f4")


@dataclass(frozen=True, slots=True)
class Factors:
    """What is added to a weight (out, in): the product of ``up`` (out, r) and ``down`` (r, in)."""

    up: Floats
    down: Floats


def to_tuning(factors: Sequence[Factors]) -> Tuning:
    """Return the change that factors are, layer by layer, of each the parts in the order of `LINEAR`."""
    arrays = [one for pair in factors for one in (pair.up, pair.down)]
    stored = b"".join(np.ascontiguousarray(one, dtype=_STORED).tobytes() for one in arrays)
    return Tuning(stored, {"kind": "low-rank", "rank": len(factors[0].down)})


def tuned_weights(weights: BertWeights, tuning: Tuning) -> BertWeights:
    """Return a model's weights with a change added; what stays is shared.

    Raises:
        EncoderError: the change is not one of this model, or not finite.
    """
    factors = _factors(weights, tuning)
    return replace(weights, layers=tuple(_tuned(layer, factors) for layer in weights.layers))


def _tuned(layer: Layer, factors: Iterator[Factors]) -> Layer:
    parts = {}
    for name in LINEAR:
        affine: Affine = getattr(layer, name)
        one = next(factors)
        parts[name] = Affine(affine.weight + one.up @ one.down, affine.bias)
    return replace(layer, **parts)


def _factors(weights: BertWeights, tuning: Tuning) -> Iterator[Factors]:
    shapes = [getattr(layer, name).weight.shape for layer in weights.layers for name in LINEAR]
    rank, described = tuning.description.get("rank"), tuning.description.get("kind")
    whole = len(tuning.arrays) % _STORED.itemsize == 0
    numbers = np.frombuffer(tuning.arrays if whole else b"", dtype=_STORED).astype(np.float32)
    known = rank if described == "low-rank" and isinstance(rank, int) else 0
    if known < 1 or len(numbers) != known * sum(map(sum, shapes)) or not np.isfinite(numbers).all():
        raise EncoderError("What examples taught the plain reader does not fit it.", hint="Teach the question again.")
    return _cut(numbers, shapes, known)


def _cut(numbers: Floats, shapes: Sequence[tuple[int, ...]], rank: int) -> Iterator[Factors]:
    start = 0
    for out, inner in shapes:
        middle, stop = start + out * rank, start + (out + inner) * rank
        yield Factors(numbers[start:middle].reshape(out, rank), numbers[middle:stop].reshape(rank, inner))
        start = stop
