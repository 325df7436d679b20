"""The model in NumPy, float32: its weights, low-rank changes of them, and the pass that queries are read with.

Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", NAACL 2019; `tensors` computes the same. Why our
own: without torch and the seconds it takes to import, a query in a new process takes a ninth of the processor's time.

Texts of like length stand behind each other in one row of tokens, without padding. Attention takes the row run by run,
a run being texts of one length; everything else takes it as a whole.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from retriever.core.errors import EncoderError
from retriever.core.protocols import Tuning
from retriever.core.types import Embeddings, Ids
from retriever.encoders.bert.layout import WEIGHTS, BertLayout, weight_names

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring texts of one length in a row of tokens: where the first begins, how many, and tokens of each."""

    start: int
    texts: int
    length: int

    @property
    def tokens(self) -> slice:
        """Where its tokens stand."""
        return slice(self.start, self.start + self.texts * self.length)


@dataclass(frozen=True, slots=True)
class Pack:
    """Texts that are read together.

    Attributes:
        rows: the texts' positions among those given, longest first.
        ids: (T,) their tokens.
        places: (T,) the place of each token in its text.
        runs: the texts by length, in this order.
    """

    rows: Sequence[int]
    ids: Ids
    places: Ids
    runs: Sequence[Run]

    @property
    def tokens(self) -> int:
        """How many tokens are read."""
        return len(self.ids)


def plan_packs(texts: Sequence[Sequence[int]], budget: int) -> Iterator[Pack]:
    """Yield texts (n token sequences, none empty) in packs of at most ``budget`` tokens; a longer one goes alone."""
    order = sorted(range(len(texts)), key=lambda row: (-len(texts[row]), row))
    start, total = 0, 0
    for at, row in enumerate(order):
        if at > start and total + len(texts[row]) > budget:
            yield _pack(texts, order[start:at])
            start, total = at, 0
        total += len(texts[row])
    if order:
        yield _pack(texts, order[start:])


def _pack(texts: Sequence[Sequence[int]], rows: Sequence[int]) -> Pack:
    runs, start = [], 0
    for length, group in groupby(len(texts[row]) for row in rows):
        runs.append(Run(start, sum(1 for _ in group), length))
        start = runs[-1].tokens.stop
    ids = np.concatenate([np.asarray(texts[row], dtype=np.int64) for row in rows])
    places = np.concatenate([np.arange(len(texts[row]), dtype=np.int64) for row in rows])
    return Pack(rows, ids, places, runs)


@dataclass(frozen=True, slots=True)
class Affine:
    """A weight and the bias added to it: of a linear layer (out, in) and (out,), or of a normalisation, (d,) both."""

    weight: Floats
    bias: Floats


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights of one layer.

    Attributes:
        attention: queries, keys and values behind each other, (3d, d).
        mixed: what follows attention, (d, d).
        attention_norm: after what follows attention.
        up: into the inner layer, (m, d).
        down: out of it, (d, m).
        output_norm: at the end.
    """

    attention: Affine
    mixed: Affine
    attention_norm: Affine
    up: Affine
    down: Affine
    output_norm: Affine


@dataclass(frozen=True, slots=True)
class BertWeights:
    """Weights of a model.

    Attributes:
        words: (V, d) embeddings of the tokens, in the format of the file: a large vocabulary's are most of the model.
        places: (P, d) embeddings of the places in a text, that of the first segment added.
        norm: of their sum.
        layers: what reads it, in order.
    """

    words: NDArray[np.floating]
    places: Floats
    norm: Affine
    layers: tuple[Layer, ...]


_HEADS = ("query", "key", "value")


def read_weights(layout: BertLayout) -> BertWeights:
    """Read a model's weights into memory as float32, but for its vocabulary's, of which a text needs few rows."""
    with safe_open(layout.folder / WEIGHTS, "numpy") as file:
        table, *names = weight_names(layout.layers)
        words = file.get_tensor(layout.prefix + table)
        arrays = {name: np.asarray(file.get_tensor(layout.prefix + name), dtype=np.float32) for name in names}
    return BertWeights(
        words=words,
        places=arrays["embeddings.position_embeddings.weight"] + arrays["embeddings.token_type_embeddings.weight"][0],
        norm=_affine(arrays, "embeddings.LayerNorm"),
        layers=tuple(_layer(arrays, f"encoder.layer.{i}") for i in range(layout.layers)),
    )


def _layer(arrays: Mapping[str, Floats], name: str) -> Layer:
    parts = [_affine(arrays, f"{name}.attention.self.{part}") for part in _HEADS]
    return Layer(
        attention=Affine(np.concatenate([p.weight for p in parts]), np.concatenate([p.bias for p in parts])),
        mixed=_affine(arrays, f"{name}.attention.output.dense"),
        attention_norm=_affine(arrays, f"{name}.attention.output.LayerNorm"),
        up=_affine(arrays, f"{name}.intermediate.dense"),
        down=_affine(arrays, f"{name}.output.dense"),
        output_norm=_affine(arrays, f"{name}.output.LayerNorm"),
    )


def _affine(arrays: Mapping[str, Floats], name: str) -> Affine:
    return Affine(arrays[f"{name}.weight"], arrays[f"{name}.bias"])


def linear_weights(weights: BertWeights) -> dict[str, Floats]:
    """Return the weights of the linear layers under their published names, as `read_weights` reads them."""
    arrays: dict[str, Floats] = {}
    for number, layer in enumerate(weights.layers):
        name = f"encoder.layer.{number}"
        parts = np.split(layer.attention.weight, 3)
        arrays |= {f"{name}.attention.self.{part}.weight": rows for part, rows in zip(_HEADS, parts, strict=True)}
        arrays[f"{name}.attention.output.dense.weight"] = layer.mixed.weight
        arrays[f"{name}.intermediate.dense.weight"] = layer.up.weight
        arrays[f"{name}.output.dense.weight"] = layer.down.weight
    return arrays


class ArrayBert:
    """Computes the pooled vectors of packs in NumPy."""

    def __init__(self, layout: BertLayout, weights: BertWeights) -> None:
        self._layout = layout
        self._weights = weights

    def read(self, pack: Pack) -> Embeddings:
        """Return the pooled states (n, d) of a pack's texts, in the order of its rows, of any length."""
        weights = self._weights
        states = self._normed(weights.words[pack.ids] + weights.places[pack.places], weights.norm)  # (T, d)
        for layer in weights.layers:
            mixed = _linear(self._attended(_linear(states, layer.attention), pack), layer.mixed)
            states = self._normed(states + mixed, layer.attention_norm)
            inner = gelu(_linear(states, layer.up))  # (T, m)
            states = self._normed(states + _linear(inner, layer.down), layer.output_norm)
        pooled = [states[run.tokens].reshape(run.texts, run.length, -1) for run in pack.runs]  # (t, n, d) each
        return np.concatenate(
            [texts[:, 0] if self._layout.pooling == "cls" else texts.mean(axis=1) for texts in pooled]
        )

    def _attended(self, projected: Floats, pack: Pack) -> Floats:
        """Return what every token (T, d) takes from its own text, given queries, keys and values (T, 3d)."""
        heads, width = self._layout.heads, self._layout.dim // self._layout.heads
        mixed = np.empty((len(projected), self._layout.dim), dtype=np.float32)
        for run in pack.runs:
            parts = projected[run.tokens].reshape(run.texts, run.length, 3, heads, width)
            queries, keys, values = parts.transpose(2, 0, 3, 1, 4)  # (t, heads, n, width) each
            weights = queries @ keys.swapaxes(-1, -2)  # (t, heads, n, n)
            weights *= np.float32(width**-0.5)
            weights -= weights.max(axis=-1, keepdims=True)
            np.exp(weights, out=weights)
            weights /= weights.sum(axis=-1, keepdims=True)
            mixed[run.tokens] = (weights @ values).swapaxes(1, 2).reshape(-1, self._layout.dim)
        return mixed

    def _normed(self, states: Floats, norm: Affine) -> Floats:
        """Normalise every state (T, d) by its mean and variance."""
        centred: Floats = states - states.mean(axis=1, keepdims=True)
        variance = np.einsum("td,td->t", centred, centred) / np.float32(states.shape[1])
        centred /= np.sqrt(variance + np.float32(self._layout.epsilon))[:, None]
        centred *= norm.weight
        centred += norm.bias
        return centred


def _linear(states: Floats, affine: Affine) -> Floats:
    """Return states (T, in) times a layer's weights, (T, out)."""
    product: Floats = states @ affine.weight.T
    product += affine.bias
    return product


_ERFC = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)


def gelu(values: Floats) -> Floats:
    """Return x times the share of a standard normal distribution below x, off by 3e-7 of max(1, x) at most.

    The share is made of the complementary error function, here formula 7.1.26 of Abramowitz and Stegun, "Handbook of
    Mathematical Functions", 1964, which is off by 1.5e-7 at most.
    """
    size = np.abs(values)
    t = 1 / (1 + np.float32(0.3275911 / 2**0.5) * size)
    tail = np.full_like(size, _ERFC[-1])
    for factor in _ERFC[-2::-1]:
        tail *= t
        tail += np.float32(factor)
    tail *= t
    tail *= np.exp(np.float32(-0.5) * size * size)  # erfc(|x| / sqrt 2)
    tail *= size
    return np.asarray(np.maximum(values, 0) - np.float32(0.5) * tail, dtype=np.float32)


LINEAR = ("attention", "mixed", "up", "down")
"""The parts of a layer that are changed."""

_STORED = np.dtype("<f4")


@dataclass(frozen=True, slots=True)
class Factors:
    """A change added to a weight (out, in): the product of ``up`` (out, r) and ``down`` (r, in)."""

    up: Floats
    down: Floats


def to_tuning(factors: Sequence[Factors]) -> Tuning:
    """Return the change that factors are, layer by layer, of each the parts in the order of `LINEAR`."""
    arrays = [factor for pair in factors for factor in (pair.up, pair.down)]
    stored = b"".join(np.ascontiguousarray(factor, dtype=_STORED).tobytes() for factor in arrays)
    return Tuning(stored, {"kind": "low-rank", "rank": len(factors[0].down)})


def tuned_weights(weights: BertWeights, tuning: Tuning) -> BertWeights:
    """Return a model's weights with a change added; what stays is shared.

    Raises:
        EncoderError: the change is not one of this model, or not finite.
    """
    sides = [side for layer in weights.layers for name in LINEAR for side in getattr(layer, name).weight.shape]
    described = tuning.description.get("rank") if tuning.description.get("kind") == "low-rank" else None
    rank = described if isinstance(described, int) else 0
    fits = rank > 0 and len(tuning.arrays) == rank * sum(sides) * _STORED.itemsize
    numbers = np.frombuffer(tuning.arrays if fits else b"", dtype=_STORED).astype(np.float32)
    if not fits or not np.isfinite(numbers).all():
        raise EncoderError(
            "The weights that examples taught the base encoder do not fit it.", hint="Teach the question again."
        )
    pieces = np.split(numbers, rank * np.cumsum(sides)[:-1])
    pairs = zip(pieces[::2], pieces[1::2], strict=True)
    return changed_weights(weights, (Factors(up.reshape(-1, rank), down.reshape(rank, -1)) for up, down in pairs))


def changed_weights(weights: BertWeights, factors: Iterable[Factors]) -> BertWeights:
    """Return a model's weights with factors added, layer by layer, of each the parts in the order of `LINEAR`."""
    rest = iter(factors)
    return replace(weights, layers=tuple(_changed(layer, rest) for layer in weights.layers))


def _changed(layer: Layer, factors: Iterator[Factors]) -> Layer:
    parts = {}
    for name in LINEAR:
        affine, factor = getattr(layer, name), next(factors)
        parts[name] = Affine(affine.weight + factor.up @ factor.down, affine.bias)
    return replace(layer, **parts)


def save_factors(path: Path, factors: Sequence[Factors]) -> None:
    """Write a change in float16, under names such as ``layers.0.attention.up``."""
    arrays: dict[str, Floats] = {}
    for place, factor in enumerate(factors):
        name = f"layers.{place // len(LINEAR)}.{LINEAR[place % len(LINEAR)]}"
        arrays |= {f"{name}.up": factor.up, f"{name}.down": factor.down}
    save_file({name: np.ascontiguousarray(array, dtype=np.float16) for name, array in arrays.items()}, path)


def load_factors(path: Path, weights: BertWeights) -> list[Factors]:
    """Read a change that `save_factors` wrote.

    Raises:
        ValueError: it does not fit the weights, or is not finite.
    """
    stored, factors = load_file(path), []
    for number, layer in enumerate(weights.layers):
        for name in LINEAR:
            up, down = (stored.pop(f"layers.{number}.{name}.{side}").astype(np.float32) for side in ("up", "down"))
            if (len(up), down.shape[1]) != getattr(layer, name).weight.shape or up.shape[1] != len(down):
                raise ValueError(f"layers.{number}.{name} does not fit the model")
            if not (np.isfinite(up).all() and np.isfinite(down).all()):
                raise ValueError(f"layers.{number}.{name} is not finite")
            factors.append(Factors(up, down))
    if stored:
        raise ValueError(f"{next(iter(stored))} is of no weight")
    return factors
