"""A model of the Llama family as a backbone, without transformers."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor, nn

from retriever.encoders.backbone import Backbone
from retriever.encoders.llama import KeyValues, Llama
from retriever.encoders.llama_config import LlamaConfig
from retriever.encoders.packing import pack_linear_layers
from retriever.encoders.sources import ModelSource
from retriever.encoders.tokenize import PieceTokenizer
from retriever.encoders.tokenizer_files import read_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class LlamaBackbone(Backbone):
    """A causal model that `Llama` computes.

    Args:
        source: the model's files.
        model: the decoder, its weights loaded.
        tokenizer: its tokenizer.
    """

    masked = False

    def __init__(self, source: ModelSource, model: Llama, tokenizer: PieceTokenizer) -> None:
        super().__init__(source, tokenizer)
        self.model = model

    @classmethod
    def load(cls, source: ModelSource, config: LlamaConfig, device: torch.device, dtype: torch.dtype) -> Self:
        """Load a model folder; errors as `Llama.load`'s and `read_tokenizer`'s."""
        model = Llama(config, device, dtype)
        model.load(source.folder)
        return cls(source, model, read_tokenizer(source.folder))

    @property
    def dim(self) -> int:
        """Hidden size d."""
        return self.model.config.dim

    @property
    def positions(self) -> int:
        """How many tokens the model was trained with at most."""
        return self.model.config.positions

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return self.model.table.device

    @property
    def dtype(self) -> torch.dtype:
        """The number format of embeddings, states and cache."""
        return self.model.table.dtype

    def pack(self) -> None:
        """Lay the weights out for fast inference; they can no longer be read back."""
        pack_linear_layers(self.model)

    def embed(self, ids: Tensor) -> Tensor:
        """Return the input embeddings (B, T, d) of token ids (B, T)."""
        return nn.functional.embedding(ids, self.model.table)

    def new_cache(self, positions: int) -> KeyValues:
        """Return an empty key-value cache that can be cropped back, with room for that many positions at once."""
        return KeyValues(positions)

    def forward(
        self, embeddings: Tensor, *, mask: Tensor | None, positions: Tensor | None, cache: KeyValues | None = None
    ) -> Tensor:
        """Return the last hidden states (B, T, d) of embeddings (B, T, d); arguments as `Backbone.forward`'s."""
        states: Tensor = self.model(embeddings, mask=mask, positions=positions, cache=cache)
        return states

    def logits(self, states: Tensor) -> Tensor:
        """Return the vocabulary logits (..., V) in float32 of hidden states (..., d)."""
        return nn.functional.linear(states.to(self.dtype), self.model.head).float()

    def embedding_table(self) -> Tensor:
        """Return the input embedding matrix E (V, d)."""
        return self.model.table

    def weights(self) -> Mapping[str, Tensor]:
        """Return every weight by its published name, to be read or changed in place."""
        return self.model.weights()

    def linear_weights(self) -> Mapping[str, Tensor]:
        """Return the weights (out, in) of the projections by published name."""
        return {name: weight for name, weight in self.model.weights().items() if name.endswith("_proj.weight")}

    def pretrained(self) -> "PreTrainedModel":
        """Return the model as transformers has it, with the weights of this one."""
        from retriever.encoders.transformers_backbone import TransformersBackbone

        theirs = TransformersBackbone.load(self.source, self.device, self.dtype)
        own = self.weights()
        with torch.no_grad():
            for name, weight in theirs.weights().items():
                weight.copy_(own[name])
        return theirs.pretrained()
