"""The model in torch: what many texts are read with, on a CPU or a GPU. `arrays` computes the same in NumPy."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from retriever.core.types import Embeddings
from retriever.encoders.bert.arrays import Affine, BertWeights, Floats, Layer
from retriever.encoders.bert.layout import BertLayout
from retriever.encoders.bert.packs import Pack
from retriever.encoders.packing import can_pack, pack_linear_layers

BUDGETS: Mapping[str, int] = {"cpu": 4096, "cuda": 65_536}
"""Tokens of a pack by torch's device type; others take the CPU's."""


def quick_dtype(device: torch.device) -> torch.dtype:
    """Return what many texts are read in where nothing else is asked: bfloat16 on a CPU that multiplies it faster."""
    return torch.bfloat16 if device.type == "cpu" and can_pack() else torch.float32


class TensorBert(nn.Module):
    """Computes the pooled vectors of packs in torch.

    Args:
        layout: the model's shape.
        weights: its weights.
        device: where to compute.
        dtype: in which number format; the embeddings are added up and the states pooled in float32 all the same.
    """

    def __init__(self, layout: BertLayout, weights: BertWeights, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__()
        self._layout = layout
        self._device, self._dtype = device, dtype
        self.budget = BUDGETS.get(device.type, BUDGETS["cpu"])
        self._words, self._places = (_tensor(table).to(device) for table in (weights.words, weights.places))
        self._norm = _norm(weights.norm, layout.epsilon).to(device)
        self.layers = nn.ModuleList(_TensorLayer(layer, layout) for layer in weights.layers).to(device, dtype)
        pack_linear_layers(self.layers)

    @torch.inference_mode()
    def read(self, pack: Pack) -> Embeddings:
        """Return the pooled states (n, d) of a pack's texts, in the order of its rows, of any length, as float32."""
        found: Embeddings = self(pack).cpu().numpy()
        return found

    def forward(self, pack: Pack) -> Tensor:
        """Return what `read` does, as a tensor through which gradients flow."""
        ids, places = (torch.from_numpy(one).to(self._device) for one in (pack.ids, pack.places))
        states = self._norm(self._words[ids] + self._places[places]).to(self._dtype)  # (T, d)
        for layer in self.layers:
            states = layer(states, pack)
        pooled = [states[run.tokens].view(run.texts, run.length, -1).float() for run in pack.runs]  # (t, n, d) each
        vectors = [one[:, 0] if self._layout.pooling == "cls" else one.mean(dim=1) for one in pooled]
        return torch.cat(vectors)


class _TensorLayer(nn.Module):
    """One layer over packed states."""

    def __init__(self, layer: Layer, layout: BertLayout) -> None:
        super().__init__()
        self._heads = layout.heads
        self.attention, self.mixed = _linear(layer.attention), _linear(layer.mixed)
        self.up, self.down = _linear(layer.up), _linear(layer.down)
        self.attention_norm = _norm(layer.attention_norm, layout.epsilon)
        self.output_norm = _norm(layer.output_norm, layout.epsilon)

    def forward(self, states: Tensor, pack: Pack) -> Tensor:
        """Return the next states (T, d)."""
        states = self.attention_norm(states + self.mixed(self._attended(self.attention(states), pack)))
        out: Tensor = self.output_norm(states + self.down(functional.gelu(self.up(states))))
        return out

    def _attended(self, projected: Tensor, pack: Pack) -> Tensor:
        """Return what every token (T, d) takes from its own text, given queries, keys and values (T, 3d)."""
        mixed = projected.new_empty(len(projected), projected.shape[1] // 3)
        for run in pack.runs:
            parts = projected[run.tokens].view(run.texts, run.length, 3, self._heads, -1)
            queries, keys, values = parts.permute(2, 0, 3, 1, 4)  # (t, heads, n, width) each
            taken = functional.scaled_dot_product_attention(queries, keys, values)
            mixed[run.tokens] = taken.transpose(1, 2).reshape(-1, mixed.shape[1])
        return mixed


def _linear(affine: Affine) -> nn.Linear:
    made = nn.Linear(affine.weight.shape[1], affine.weight.shape[0], device="meta")
    made.weight, made.bias = _parameter(affine.weight), _parameter(affine.bias)
    return made


def _norm(affine: Affine, epsilon: float) -> nn.LayerNorm:
    made = nn.LayerNorm(affine.weight.shape[0], eps=epsilon, device="meta")
    made.weight, made.bias = _parameter(affine.weight), _parameter(affine.bias)
    return made


def _parameter(values: Floats) -> nn.Parameter:
    return nn.Parameter(_tensor(values), requires_grad=False)


def _tensor(values: Floats) -> Tensor:
    return torch.from_numpy(values)  # the same memory
