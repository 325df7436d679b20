"""Models of the Llama family for inference, without transformers.

RMSNorm, rotary positions, grouped-query attention and SwiGLU as published (Touvron et al. 2023; Su et al. 2021;
Ainslie et al. 2023; Shazeer 2020). `read_config` says which models are computed here.

Why our own: a first query under an instruction takes a new process 2.7 times as long with transformers, whose import is
most of it, and a text has one vector in whatever batch it is read. Reading many texts is no quicker (1.05 times).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import torch
from safetensors import safe_open
from torch import Tensor, nn

from retriever.encoders.backbone import Backbone
from retriever.encoders.kernels import Attention, KeyValues, RowLinear, attention, pack_linear_layers, row_linear
from retriever.encoders.sources import ModelSource
from retriever.encoders.tokenize import PieceTokenizer, read_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel


ARCHITECTURE = "LlamaForCausalLM"

_COMPUTED = {
    "model_type": "llama",
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "pretraining_tp": 1,
    "rope_scaling": None,
    "rope_interleaved": False,
}
"""Settings with the one value that is computed here."""
_READ = {
    *("architectures", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "head_dim", "max_position_embeddings", "rms_norm_eps", "rope_theta", "rope_parameters"),
    "tie_word_embeddings",
}
_WITHOUT_EFFECT = {
    *("_name_or_path", "_model_name_or_path", "transformers_version", "dtype", "torch_dtype", "use_cache"),
    *("attention_dropout", "initializer_range", "bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id"),
    *("is_llama_config", "transformers.js_config"),
}
"""Settings of training, of generation and of other programs."""


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """The shape of a model.

    Attributes:
        inner: width of the feed-forward layers.
        groups: heads of keys and values; each serves ``heads / groups`` heads of queries.
        epsilon: added to a mean square before its root.
        theta: base of the rotary wavelengths.
        tied: whether the head is the embedding table.
    """

    vocabulary: int
    dim: int
    inner: int
    layers: int
    heads: int
    groups: int
    width: int
    positions: int
    epsilon: float
    theta: float
    tied: bool


def read_config(folder: Path) -> LlamaConfig | None:
    """Read a model folder's config.json; None where it says anything that is not computed here, or not known."""
    stored: Any = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if not isinstance(stored, dict) or stored.get("architectures") != [ARCHITECTURE]:
        return None
    rope = stored.get("rope_parameters") or {}
    if (
        not isinstance(rope, dict)
        or stored.keys() - _READ - _WITHOUT_EFFECT - _COMPUTED.keys()
        or any(stored.get(name, value) != value for name, value in _COMPUTED.items())
        or rope.keys() - {"rope_type", "rope_theta"}
        or rope.get("rope_type", "default") != "default"
    ):
        return None
    heads = stored["num_attention_heads"]
    return LlamaConfig(
        vocabulary=stored["vocab_size"],
        dim=stored["hidden_size"],
        inner=stored["intermediate_size"],
        layers=stored["num_hidden_layers"],
        heads=heads,
        groups=stored.get("num_key_value_heads") or heads,
        width=stored.get("head_dim") or stored["hidden_size"] // heads,
        positions=stored.get("max_position_embeddings", 2048),
        epsilon=stored.get("rms_norm_eps", 1e-6),
        theta=float(rope.get("rope_theta") or stored.get("rope_theta") or 10_000.0),
        tied=stored.get("tie_word_embeddings", False),
    )


class LlamaBackbone(Backbone, nn.Module):
    """A decoder with its tokenizer. Its weights are not set: `load` fills them."""

    masked = False

    def __init__(
        self,
        source: ModelSource,
        tokenizer: PieceTokenizer,
        config: LlamaConfig,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        nn.Module.__init__(self)
        Backbone.__init__(self, source, tokenizer)
        self.config, self.dim, self.positions = config, config.dim, config.positions

        def empty(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, device=device, dtype=dtype), requires_grad=False)

        self.table = empty(config.vocabulary, config.dim)
        self.head = self.table if config.tied else empty(config.vocabulary, config.dim)
        self.norm = empty(config.dim)
        self.layers = nn.ModuleList(LlamaLayer(config, empty) for _ in range(config.layers))
        half = torch.arange(0, config.width, 2, dtype=torch.float32, device=device)
        self._frequencies: Tensor = 1.0 / torch.pow(config.theta, half / config.width)  # (width / 2,)
        self.device, self.dtype = self.table.device, dtype

    @classmethod
    @torch.no_grad()
    def load(cls, source: ModelSource, config: LlamaConfig, device: torch.device, dtype: torch.dtype) -> Self:
        """Load a model folder; errors as `read_tokenizer`'s, and these.

        Raises:
            LookupError: a weight is missing.
            ValueError: one has another shape.
        """
        made = cls(source, read_tokenizer(source.folder), config, device, dtype)
        missing = made.weights()
        for file in _weight_files(source.folder):
            with safe_open(file, framework="pt") as stored:
                for name in missing.keys() & set(stored.keys()):
                    weight, values = missing.pop(name), stored.get_tensor(name)
                    if values.shape != weight.shape:
                        raise ValueError(f"{name} is {tuple(values.shape)}, not {tuple(weight.shape)}")
                    weight.copy_(values)
        if missing:
            raise LookupError(f"no weight {min(missing)}")
        return made

    def pack(self) -> None:
        """Lay the weights out for fast inference; they can no longer be read back."""
        pack_linear_layers(self)

    def embed(self, ids: Tensor) -> Tensor:
        """Return the input embeddings (B, T, d) of token ids (B, T)."""
        return nn.functional.embedding(ids, self.table)

    def new_cache(self, positions: int) -> KeyValues:
        """Return an empty key-value cache that can be cropped back, with room for that many positions at once."""
        shape = self.config
        return KeyValues(positions, layers=shape.layers, groups=shape.groups, width=shape.width)

    def forward(
        self, embeddings: Tensor, *, mask: Tensor | None, positions: Tensor | None, cache: KeyValues | None = None
    ) -> Tensor:
        """Return the last hidden states (B, S, d) of embeddings (B, S, d); arguments as `Backbone.forward`'s."""
        read = 0 if cache is None else cache.length
        new = embeddings.shape[1]
        if cache is not None:
            cache.reserve(embeddings, new)
        if positions is None:
            positions = torch.arange(read, read + new, device=embeddings.device).unsqueeze(0)
        rotation = self._rotation(positions, embeddings.dtype)
        attend = attention(mask, read, new, embeddings)
        states = embeddings.float()  # (B, S, d) what layers add up; their products are of the weights' number format
        for i, layer in enumerate(self.layers):
            states = layer(states, rotation, attend, None if cache is None else (cache, i))
        if cache is not None:
            cache.length += new
        return _normed(states, self.norm, self.config)

    def _rotation(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return cosines and signed sines (B or 1, S, 1, width) of positions (B or 1, S)."""
        angles = (positions[..., None].float() * self._frequencies).unsqueeze(2)  # (B, S, 1, width / 2)
        cosines, sines = angles.cos(), angles.sin()
        return torch.cat([cosines, cosines], dim=-1).to(dtype), torch.cat([-sines, sines], dim=-1).to(dtype)

    def logits(self, states: Tensor) -> Tensor:
        """Return the vocabulary logits (..., V) in float32 of hidden states (..., d)."""
        return row_linear(states.to(self.dtype), self.head).float()

    def embedding_table(self) -> Tensor:
        """Return the input embedding matrix E (V, d)."""
        return self.table

    def weights(self) -> dict[str, Tensor]:
        """Return every weight by its published name; those that are read as one matrix are rows of it.

        Raises:
            AttributeError: the matrices have been packed.
        """
        weights: dict[str, Tensor] = {"model.embed_tokens.weight": self.table, "model.norm.weight": self.norm}
        if not self.config.tied:
            weights["lm_head.weight"] = self.head
        for i, layer in enumerate(cast("Iterable[LlamaLayer]", self.layers)):
            weights |= {f"model.layers.{i}.{name}.weight": weight for name, weight in layer.weights()}
        return weights

    def linear_weights(self) -> Mapping[str, Tensor]:
        """Return the weights (out, in) of the projections by published name."""
        return {name: weight for name, weight in self.weights().items() if name.endswith("_proj.weight")}

    def pretrained(self) -> "PreTrainedModel":
        """Return the model as transformers has it, with the weights of this one."""
        from retriever.encoders.transformers_backbone import TransformersBackbone

        theirs = TransformersBackbone.load(self.source, self.device, self.dtype)
        own = self.weights()
        with torch.no_grad():
            for name, weight in theirs.weights().items():
                weight.copy_(own[name])
        return theirs.pretrained()


class LlamaLayer(nn.Module):
    """One layer of a decoder."""

    def __init__(self, config: LlamaConfig, empty: Callable[..., nn.Parameter]) -> None:
        super().__init__()
        self.config = config
        queries, shared = config.heads * config.width, config.groups * config.width
        self._parts = [queries, shared, shared]
        self.before_attention, self.before_feed = empty(config.dim), empty(config.dim)
        self.qkv = RowLinear(empty(queries + 2 * shared, config.dim))
        self.out = RowLinear(empty(config.dim, queries))
        self.gate_up = RowLinear(empty(2 * config.inner, config.dim))
        self.down = RowLinear(empty(config.dim, config.inner))

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        """Yield published name and weight, those of one matrix as rows of it."""
        yield "input_layernorm", self.before_attention
        yield "post_attention_layernorm", self.before_feed
        yield "self_attn.o_proj", self.out.weight
        yield "mlp.down_proj", self.down.weight
        for part, weight in zip("qkv", torch.split(self.qkv.weight, self._parts), strict=True):
            yield f"self_attn.{part}_proj", weight
        yield from zip(("mlp.gate_proj", "mlp.up_proj"), self.gate_up.weight.chunk(2), strict=True)

    def forward(
        self,
        states: Tensor,
        rotation: tuple[Tensor, Tensor],
        attend: "Attention",
        cached: tuple[KeyValues, int] | None,
    ) -> Tensor:
        """Return the states (B, S, d) behind the layer, in float32 as they were given."""
        shape, dtype = self.config, rotation[0].dtype
        norm = _normed(states, self.before_attention, shape).to(dtype)
        heads = self.qkv(norm).unflatten(-1, (-1, shape.width))  # (B, S, heads + 2 groups, width)
        turned, values = torch.split(heads, [shape.heads + shape.groups, shape.groups], dim=2)
        turned = _rotated(turned, rotation)
        queries, keys = torch.split(turned, [shape.heads, shape.groups], dim=2)
        keys, values = keys.transpose(1, 2), values.transpose(1, 2)  # (B, groups, S, width)
        if cached is not None:
            cache, layer = cached
            keys, values = cache.append(layer, keys, values)
        states = states + self.out(attend(queries, keys, values))
        norm = _normed(states, self.before_feed, shape).to(dtype)
        gate, up = self.gate_up(norm).chunk(2, dim=-1)
        states = states + self.down(nn.functional.silu(gate).mul_(up))
        return states


def _normed(states: Tensor, weight: Tensor, config: LlamaConfig) -> Tensor:
    """Return float32 states (..., d) over their root mean square, times a weight (d,)."""
    return nn.functional.rms_norm(states, (config.dim,), weight.float(), config.epsilon)


def _rotated(heads: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Turn each head's two halves (B, S, H, width) against each other, by angles that grow with the position."""
    cosines, sines = rotation
    first, second = heads.chunk(2, dim=-1)
    return (heads * cosines).addcmul_(torch.cat([second, first], dim=-1), sines)


def _weight_files(folder: Path) -> list[Path]:
    """Return the files that hold a model's weights."""
    if (whole := folder / "model.safetensors").exists():
        return [whole]
    listed: Mapping[str, str] = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    return [folder / name for name in sorted(set(listed.values()))]
