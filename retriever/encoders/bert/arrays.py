"""The model in NumPy, float32: its weights, and what few texts are read with, without torch and its seconds to import.

Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", NAACL 2019; `tensors` computes the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from retriever.core.types import Embeddings
from retriever.encoders.bert.layout import WEIGHTS, BertLayout, weight_names
from retriever.encoders.bert.packs import Pack

Floats = NDArray[np.float32]


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
        words: (V, d) embeddings of the tokens.
        places: (P, d) embeddings of the places in a text, that of the first segment added.
        norm: of their sum.
        layers: what reads it, in order.
    """

    words: Floats
    places: Floats
    norm: Affine
    layers: tuple[Layer, ...]


def read_weights(layout: BertLayout) -> BertWeights:
    """Read a model's weights into memory as float32."""
    with safe_open(layout.folder / WEIGHTS, "numpy") as file:
        names = weight_names(layout.layers)
        found = {name: np.asarray(file.get_tensor(layout.prefix + name), dtype=np.float32) for name in names}
    return BertWeights(
        words=found["embeddings.word_embeddings.weight"],
        places=found["embeddings.position_embeddings.weight"] + found["embeddings.token_type_embeddings.weight"][0],
        norm=_affine(found, "embeddings.LayerNorm"),
        layers=tuple(_layer(found, f"encoder.layer.{i}") for i in range(layout.layers)),
    )


def _layer(found: Mapping[str, Floats], name: str) -> Layer:
    parts = [_affine(found, f"{name}.attention.self.{part}") for part in ("query", "key", "value")]
    return Layer(
        attention=Affine(np.concatenate([p.weight for p in parts]), np.concatenate([p.bias for p in parts])),
        mixed=_affine(found, f"{name}.attention.output.dense"),
        attention_norm=_affine(found, f"{name}.attention.output.LayerNorm"),
        up=_affine(found, f"{name}.intermediate.dense"),
        down=_affine(found, f"{name}.output.dense"),
        output_norm=_affine(found, f"{name}.output.LayerNorm"),
    )


def _affine(found: Mapping[str, Floats], name: str) -> Affine:
    return Affine(found[f"{name}.weight"], found[f"{name}.bias"])


class ArrayBert:
    """Computes the pooled vectors of packs in NumPy.

    Args:
        layout: the model's shape.
        weights: its weights.
    """

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
        return np.concatenate([one[:, 0] if self._layout.pooling == "cls" else one.mean(axis=1) for one in pooled])

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
