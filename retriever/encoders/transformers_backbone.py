"""Models that transformers computes: masked ones, architectures of other families, and whatever is trained."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from transformers import AutoConfig, PreTrainedModel
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer
from transformers.utils import logging

from retriever.core.errors import EncoderError
from retriever.encoders.backbone import MANY_POSITIONS, Backbone, readable
from retriever.encoders.device import pick_device, pick_dtype
from retriever.encoders.kernels import pack_linear_layers
from retriever.encoders.sources import ModelSource, find_source
from retriever.encoders.tokenize import PieceTokenizer, read_tokenizer

_LOCAL: Mapping[str, Any] = {"local_files_only": True, "trust_remote_code": False}


class TransformersBackbone(Backbone):
    """A causal or masked model that transformers computes."""

    def __init__(self, source: ModelSource, model: PreTrainedModel, tokenizer: PieceTokenizer) -> None:
        super().__init__(source, tokenizer)
        self.model: Any = model.train(False)
        self.masked = not self.model.can_generate()
        self.dim, self.positions = int(self.model.config.hidden_size), _positions(self.model, self.masked)
        self.device, self.dtype = torch.device(self.model.device), self.model.dtype

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
    def attends_to_all(self) -> bool:
        """Whether all layers attend to everything before a token, and to nothing behind it."""
        config = self.model.config.to_dict()
        kinds = set(config.get("layer_types") or [])
        return not (self.masked or config.get("sliding_window") or kinds - {"full_attention"})

    def pack(self) -> None:
        """Lay the weights out for fast inference; they can no longer be trained or read back."""
        with torch.no_grad():
            pack_linear_layers(self.model.base_model)

    def embed(self, ids: Tensor) -> Tensor:
        """Return the input embeddings (B, T, d) of token ids (B, T)."""
        embedded: Tensor = self.model.get_input_embeddings()(ids)
        return embedded

    def new_cache(self, positions: int) -> Cache:
        """Return an empty key-value cache that can be cropped back; it takes room as it grows."""
        cache: Any = DynamicCache(config=self.model.config)
        if any(type(layer) is not DynamicLayer for layer in cache.layers):  # a sliding window forgets by itself
            cache.activate_past_recording()
        return cast("Cache", cache)

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


def _positions(model: Any, masked: bool) -> int:  # noqa: ANN401 - a PreTrainedModel
    """Return how many tokens a model has positions for; RoBERTa numbers them from behind its padding id."""
    if not masked:
        return int(getattr(model.config, "max_position_embeddings", MANY_POSITIONS))
    table = dict(model.base_model.named_modules()).get("embeddings.position_embeddings")
    if not isinstance(table, nn.Embedding):
        return MANY_POSITIONS
    return table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)


def _model_class(folder: Path) -> Any:  # noqa: ANN401 - a class of transformers's
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_MASKED_LM_MAPPING

    config = AutoConfig.from_pretrained(folder, **_LOCAL)
    wanted = (config.architectures or [""])[0]
    for mapping in (MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_MASKED_LM_MAPPING):
        kind = mapping.get(type(config), None)
        if isinstance(kind, type) and kind.__name__ == wanted:
            return kind
    raise EncoderError(
        f"{folder} holds a {wanted or type(config).__name__}, neither a causal nor a masked language model.",
        hint="For an embedding model use st:NAME.",
    )
