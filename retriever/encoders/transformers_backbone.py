"""Models that transformers computes: masked ones, architectures of other families, and whatever is trained."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from transformers import AutoConfig, PreTrainedModel
from transformers.cache_utils import Cache
from transformers.utils import logging

from retriever.core.errors import EncoderError
from retriever.encoders.backbone import MANY_POSITIONS, Backbone, readable
from retriever.encoders.cache import new_cache
from retriever.encoders.device import pick_device, pick_dtype
from retriever.encoders.packing import pack_linear_layers
from retriever.encoders.sources import ModelSource, find_source
from retriever.encoders.tokenize import PieceTokenizer
from retriever.encoders.tokenizer_files import read_tokenizer

_LOCAL: Mapping[str, Any] = {"local_files_only": True, "trust_remote_code": False}


class TransformersBackbone(Backbone):
    """A causal or masked model that transformers computes.

    Args:
        source: the model's files.
        model: the loaded model, head included.
        tokenizer: its tokenizer.
    """

    def __init__(self, source: ModelSource, model: PreTrainedModel, tokenizer: PieceTokenizer) -> None:
        super().__init__(source, tokenizer)
        self.model: Any = model.train(False)

    @classmethod
    def load(cls, source: ModelSource, device: torch.device, dtype: torch.dtype) -> Self:
        """Load a model folder.

        Raises:
            EncoderError: it holds neither a causal nor a masked model.
        """
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        model = _model_class(source.folder).from_pretrained(
            source.folder, dtype=dtype, attn_implementation="sdpa", use_safetensors=True, **_LOCAL
        )
        return cls(source, model.to(device), read_tokenizer(source.folder))

    @property
    def masked(self) -> bool:
        """Whether this is a masked language model (BERT, RoBERTa) rather than a causal one."""
        return not self.model.can_generate()

    @property
    def dim(self) -> int:
        """Hidden size d."""
        return int(self.model.config.hidden_size)

    @property
    def positions(self) -> int:
        """How many tokens the model has positions for; RoBERTa numbers them from behind its padding id."""
        if not self.masked:
            return int(getattr(self.model.config, "max_position_embeddings", MANY_POSITIONS))
        table = dict(self.model.base_model.named_modules()).get("embeddings.position_embeddings")
        if not isinstance(table, nn.Embedding):
            return MANY_POSITIONS
        return table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)

    @property
    def attends_to_all(self) -> bool:
        """Whether all layers attend to everything before a token, and to nothing behind it."""
        config = self.model.config.to_dict()
        kinds = set(config.get("layer_types") or [])
        return not (self.masked or config.get("sliding_window") or kinds - {"full_attention"})

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return torch.device(self.model.device)

    @property
    def dtype(self) -> torch.dtype:
        """The number format of the weights."""
        dtype: torch.dtype = self.model.dtype
        return dtype

    def pack(self) -> None:
        """Lay the weights out for fast inference; they can no longer be trained or read back."""
        with torch.no_grad():
            pack_linear_layers(self.model.base_model)

    def embed(self, ids: Tensor) -> Tensor:
        """Return the input embeddings (B, T, d) of token ids (B, T)."""
        embedded: Tensor = self.model.get_input_embeddings()(ids)
        return embedded

    def new_cache(self, positions: int) -> Cache:
        """Return an empty key-value cache that can be cropped back, with room for that many positions at once."""
        return new_cache(self.model.config, positions)

    def forward(
        self, embeddings: Tensor, *, mask: Tensor | None, positions: Tensor | None, cache: Cache | None = None
    ) -> Tensor:
        """Return the last hidden states (B, T, d) of embeddings (B, T, d); arguments as `Backbone.forward`'s.

        In training the mask may also be (B, 1, T, T), what is added to attention scores.
        """
        extra = {"past_key_values": cache, "use_cache": True} if cache is not None else {}
        if not self.masked:
            extra |= {"position_ids": positions, **({} if cache is not None else {"use_cache": False})}
        output = self.model.base_model(inputs_embeds=embeddings, attention_mask=mask, **extra)
        states: Tensor = output.last_hidden_state
        return states

    def logits(self, states: Tensor) -> Tensor:
        """Return the vocabulary logits (..., V) in float32 of hidden states (..., d)."""
        scores = states.to(self.dtype)
        for part in self._head():
            scores = part(scores)
        return scores.float()

    def _head(self) -> list[nn.Module]:
        """Return what turns states into logits, in order, up to the projection on the vocabulary.

        A transformation before that is a part of the same module (RoBERTa, BERT) or one of its own (ModernBERT).
        """
        projection = self.model.get_output_embeddings()
        parts: list[nn.Module] = []
        for child in self.model.children():
            if child is not self.model.base_model:
                parts.append(child)
            if parts and any(module is projection for module in child.modules()):
                return parts
        raise EncoderError(f"The backbone {self.source.name} has no language-model head.")

    def embedding_table(self) -> Tensor:
        """Return the input embedding matrix E (V, d)."""
        table: Tensor = self.model.get_input_embeddings().weight
        return table

    def weights(self) -> Mapping[str, Tensor]:
        """Return every weight by its published name, to be read or changed in place."""
        return dict(self.model.named_parameters())

    def linear_weights(self) -> Mapping[str, Tensor]:
        """Return the weights (out, in) of the linear layers below the head, by published name."""
        below = {id(module) for module in self.model.base_model.modules() if type(module) is nn.Linear}
        modules = self.model.named_modules()
        return {f"{name}.weight": module.weight for name, module in modules if id(module) in below}

    def pretrained(self) -> PreTrainedModel:
        """Return the model itself."""
        model: PreTrainedModel = self.model
        return model


def load_trainable(name: str, *, device: str = "auto", dtype: str = "auto") -> TransformersBackbone:
    """Load a model as transformers has it, which can be trained; arguments and errors as `load_backbone`'s."""
    source = find_source(name)
    place = pick_device(device)
    with readable(source.folder):
        return TransformersBackbone.load(source, place, pick_dtype(dtype, place))


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
