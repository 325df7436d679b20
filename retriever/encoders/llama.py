"""Models of the Llama family for inference: the decoder alone, without what training and other architectures need.

RMSNorm, rotary positions, grouped-query attention and SwiGLU as published (Touvron et al. 2023; Su et al. 2021;
Ainslie et al. 2023; Shazeer 2020). Which files a model has and which tokenizer is other modules' business.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import cast

import torch
from safetensors import safe_open
from torch import Tensor, nn

from retriever.encoders.llama_config import LlamaConfig

HEADROOM = 64  # positions kept free behind a prompt: an instruction, or look-ahead, soft or generated tokens
QUERY_BLOCK = 64  # queries that attend at a time on a CPU, whose caches hold the scores of so many


class KeyValues:
    """Keys and values of all layers of one batch, at the front of memory that is taken from the system in one piece.

    What is forgotten is overwritten by what is read next, so reading one more token copies nothing that came before.

    Args:
        positions: how many the first block will have, all its parts together.
    """

    def __init__(self, positions: int) -> None:
        self.length = 0
        self._room = positions + HEADROOM
        self._memory: Tensor | None = None  # (layers, 2, B, groups, room, width)

    def reserve(self, config: LlamaConfig, like: Tensor, more: int) -> None:
        """Make room for more positions of a batch like (B, S, d)."""
        needed, memory = self.length + more, self._memory
        if memory is not None and memory.shape[4] >= needed:
            return
        self._room = max(self._room, needed + HEADROOM if memory is not None else needed)
        self._memory = like.new_empty((config.layers, 2, like.shape[0], config.groups, self._room, config.width))
        if memory is not None:
            self._memory[..., : self.length, :] = memory[..., : self.length, :]

    def append(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put a layer's new keys and values (B, groups, S, width) behind its others; return all (B, groups, T, width).

        `length` is moved once all layers have theirs.
        """
        if self._memory is None:
            raise RuntimeError("no room was reserved")
        last = self.length + keys.shape[2]
        kept, read = self._memory[layer, 0], self._memory[layer, 1]
        kept[:, :, self.length : last] = keys
        read[:, :, self.length : last] = values
        return kept[:, :, :last], read[:, :, :last]

    def crop(self, tokens: int, /) -> None:
        """Forget the last positions, as many as the negative number says."""
        self.length += tokens


class Llama(nn.Module):
    """A decoder: embeddings in, last hidden states out. The head is `head`, which whoever wants logits multiplies by.

    Args:
        config: its shape.
        device: where it runs.
        dtype: number format of the weights, which are not set: `load` fills them.
    """

    def __init__(self, config: LlamaConfig, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__()
        self.config = config

        def empty(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, device=device, dtype=dtype), requires_grad=False)

        self.table = empty(config.vocabulary, config.dim)
        self.head = self.table if config.tied else empty(config.vocabulary, config.dim)
        self.norm = empty(config.dim)
        self.layers = nn.ModuleList(LlamaLayer(config, empty) for _ in range(config.layers))
        half = torch.arange(0, config.width, 2, dtype=torch.float32, device=device)
        self._frequencies: Tensor = 1.0 / torch.pow(config.theta, half / config.width)  # (width / 2,)

    def weights(self) -> dict[str, Tensor]:
        """Return every weight by its published name; those that are read as one matrix are rows of it.

        Raises:
            AttributeError: the matrices have been packed.
        """
        found: dict[str, Tensor] = {"model.embed_tokens.weight": self.table, "model.norm.weight": self.norm}
        if not self.config.tied:
            found["lm_head.weight"] = self.head
        for i, layer in enumerate(cast("Iterable[LlamaLayer]", self.layers)):
            found |= {f"model.layers.{i}.{name}.weight": weight for name, weight in layer.weights()}
        return found

    @torch.no_grad()
    def load(self, folder: Path) -> None:
        """Fill the weights from a folder's safetensors.

        Raises:
            LookupError: one is missing.
            ValueError: one has another shape.
        """
        missing = self.weights()
        for file in _weight_files(folder):
            with safe_open(file, framework="pt") as stored:
                for name in missing.keys() & set(stored.keys()):
                    weight, values = missing.pop(name), stored.get_tensor(name)
                    if values.shape != weight.shape:
                        raise ValueError(f"{name} is {tuple(values.shape)}, not {tuple(weight.shape)}")
                    weight.copy_(values)
        if missing:
            raise LookupError(f"no weight {min(missing)}")

    def forward(
        self, states: Tensor, *, mask: Tensor | None, positions: Tensor | None, cache: KeyValues | None
    ) -> Tensor:
        """Return the last hidden states (B, S, d) of embeddings (B, S, d); arguments as `Backbone.forward`'s."""
        read = 0 if cache is None else cache.length
        new = states.shape[1]
        if cache is not None:
            cache.reserve(self.config, states, new)
        if positions is None:
            positions = torch.arange(read, read + new, device=states.device).unsqueeze(0)
        rotation = self._rotation(positions, states.dtype)
        hidden = _hidden(mask, read, new, states.device)
        for i, layer in enumerate(self.layers):
            states = layer(states, rotation, hidden, None if cache is None else (cache, i))
        if cache is not None:
            cache.length += new
        return nn.functional.rms_norm(states, (self.config.dim,), self.norm, self.config.epsilon)

    def _rotation(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return cosines and signed sines (B or 1, S, 1, width) of positions (B or 1, S)."""
        angles = (positions[..., None].float() * self._frequencies).unsqueeze(2)  # (B, S, 1, width / 2)
        cosines, sines = angles.cos(), angles.sin()
        return torch.cat([cosines, cosines], dim=-1).to(dtype), torch.cat([-sines, sines], dim=-1).to(dtype)


class LlamaLayer(nn.Module):
    """One layer of a decoder.

    Args:
        config: the decoder's.
        empty: makes a weight of a shape.
    """

    def __init__(self, config: LlamaConfig, empty: Callable[..., nn.Parameter]) -> None:
        super().__init__()
        self.config = config
        queries, shared = config.heads * config.width, config.groups * config.width
        self._parts = {"qkv": [queries, shared, shared], "gate_up": [config.inner, config.inner]}
        self.before_attention, self.before_feed = empty(config.dim), empty(config.dim)
        self.qkv = _linear(empty(queries + 2 * shared, config.dim))
        self.out = _linear(empty(config.dim, queries))
        self.gate_up = _linear(empty(2 * config.inner, config.dim))
        self.down = _linear(empty(config.dim, config.inner))

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        """Yield published name and weight, those of one matrix as rows of it."""
        yield "input_layernorm", self.before_attention
        yield "post_attention_layernorm", self.before_feed
        yield "self_attn.o_proj", self.out.weight
        yield "mlp.down_proj", self.down.weight
        names = {"qkv": [f"self_attn.{one}_proj" for one in "qkv"], "gate_up": ["mlp.gate_proj", "mlp.up_proj"]}
        for matrix, weight in (("qkv", self.qkv.weight), ("gate_up", self.gate_up.weight)):
            yield from zip(names[matrix], torch.split(weight, self._parts[matrix]), strict=True)

    def forward(
        self,
        states: Tensor,
        rotation: tuple[Tensor, Tensor],
        hidden: Tensor | None,
        cached: tuple[KeyValues, int] | None,
    ) -> Tensor:
        """Return the states (B, S, d) behind the layer; ``hidden`` is added to attention scores."""
        shape = self.config
        norm = nn.functional.rms_norm(states, (shape.dim,), self.before_attention, shape.epsilon)
        heads = self.qkv(norm).unflatten(-1, (-1, shape.width))  # (B, S, heads + 2 groups, width)
        turned, values = torch.split(heads, [shape.heads + shape.groups, shape.groups], dim=2)
        turned = _rotated(turned, rotation)
        queries, keys = torch.split(turned, [shape.heads, shape.groups], dim=2)
        keys, values = keys.transpose(1, 2), values.transpose(1, 2)  # (B, groups, S, width)
        if cached is not None:
            cache, layer = cached
            keys, values = cache.append(layer, keys, values)
        attend = _attended_in_blocks if states.device.type == "cpu" else _attended
        states = states + self.out(attend(queries, keys, values, hidden))
        norm = nn.functional.rms_norm(states, (shape.dim,), self.before_feed, shape.epsilon)
        gate, up = self.gate_up(norm).chunk(2, dim=-1)
        states = states + self.down(nn.functional.silu(gate).mul_(up))
        return states


def _linear(weight: nn.Parameter) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
    layer.weight = weight
    return layer


def _rotated(heads: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Turn each head's two halves (B, S, H, width) against each other, by angles that grow with the position."""
    cosines, sines = rotation
    one, other = heads.chunk(2, dim=-1)
    return (heads * cosines).addcmul_(torch.cat([other, one], dim=-1), sines)


def _hidden(mask: Tensor | None, read: int, new: int, device: torch.device) -> Tensor | None:
    """Return (B or 1, S, T) float32: 0 where a new position sees an earlier one, else so low that its weight is 0.

    Args:
        mask: (B, T) ones for real tokens, or None.
        read: positions in the cache.
        new: S, positions behind them; T is both.
        device: where to make it.
    """
    if new == 1 and mask is None:
        return None
    columns = torch.arange(read + new, device=device)
    later = (columns > columns[read:, None]).unsqueeze(0)  # (1, S, T)
    if mask is not None:
        later = later | ~mask.bool().unsqueeze(1)  # (B, S, T); padding sees all alike, and nobody looks at it
    lowest = torch.finfo(torch.float32).min
    return torch.zeros(later.shape, device=device).masked_fill_(later, lowest)


def _attended(queries: Tensor, keys: Tensor, values: Tensor, hidden: Tensor | None) -> Tensor:
    """Return what queries (B, S, heads, width) find (B, S, heads * width) in (B, groups, T, width)."""
    share = queries.shape[2] // keys.shape[1]
    keys, values = (each.repeat_interleave(share, dim=1) for each in (keys, values))
    added = None if hidden is None else hidden.clamp(min=torch.finfo(queries.dtype).min).to(queries.dtype).unsqueeze(1)
    found = nn.functional.scaled_dot_product_attention(queries.transpose(1, 2), keys, values, attn_mask=added)
    return found.transpose(1, 2).flatten(2)


def _attended_in_blocks(queries: Tensor, keys: Tensor, values: Tensor, hidden: Tensor | None) -> Tensor:
    """Return what `_attended` does; on a CPU this way takes a little more than half as long as the fused kernel.

    Scores are float32 as in that kernel. A block of queries goes no further than the last key that it sees.
    """
    rows, new, heads, width = queries.shape
    groups, seen = keys.shape[1], keys.shape[2]
    split = (queries.float() * width**-0.5).unflatten(2, (groups, -1)).permute(0, 2, 3, 1, 4)  # (B, g, s, S, width)
    found = queries.new_empty(rows, new, groups, heads // groups, width)
    turned = keys.float().flatten(0, 1).transpose(1, 2)  # (B g, width, T)
    values = values.flatten(0, 1)
    for first in range(0, new, QUERY_BLOCK):
        last = min(first + QUERY_BLOCK, new)
        end = seen - new + last
        block = split[:, :, :, first:last].reshape(rows * groups, -1, width)
        scores = torch.bmm(block, turned[:, :, :end]).view(rows, heads, last - first, end)
        if hidden is not None:
            scores += hidden[:, None, first:last, :end]
        weights = scores.softmax(dim=-1).to(values.dtype).view(rows * groups, -1, end)
        mixed = torch.bmm(weights, values[:, :end])  # (B g, s S, width)
        found[:, first:last] = mixed.view(rows, groups, heads // groups, -1, width).permute(0, 3, 1, 2, 4)
    return found.flatten(2)


def _weight_files(folder: Path) -> list[Path]:
    """Return the files that hold a model's weights."""
    if (whole := folder / "model.safetensors").exists():
        return [whole]
    listed: Mapping[str, str] = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    return [folder / name for name in sorted(set(listed.values()))]
