"""Choose the trained part of a backbone: a LoRA adapter or its last layers, and look-ahead embeddings beside them.

The trained parameters are float32 whatever the model runs in; the forward pass casts them down. Llama-type models
have no dropout of their own, so the model stays in evaluation mode, and dropout of attention probabilities and LoRA
inputs is switched on for one pass at a time.
"""

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn
from transformers import LlamaForCausalLM
from transformers.cache_utils import Cache
from transformers.pytorch_utils import Conv1D

from retriever.core.errors import UsageError
from retriever.encoders.behind_prompt import untrained_look_ahead
from retriever.encoders.transformers_backbone import TransformersBackbone
from retriever.training.decoder import PackedDecoder
from retriever.training.footprint import Footprint
from retriever.training.settings import AtLeastOne, Count, Dropout, Settings
from retriever.training.trained import Trained, require_gradients


@contextmanager
def dropout_at(model: nn.Module, rate: float) -> Iterator[None]:
    """Set the share of attention probabilities and LoRA inputs that is zeroed within the block.

    What stays is scaled by 1 / (1 - rate). At 0 the model does what it does at inference.

    Raises:
        UsageError: the model's attention has no dropout to switch on.
    """
    attentions = [module for module in model.modules() if _attention_rate(module) is not None]
    if rate and not attentions:
        raise UsageError(
            f"The attention of {type(model).__name__} has no dropout.", hint="Switch the dropout view off."
        )
    with ExitStack() as stack:
        for module in attentions:
            _set(stack, module, "training", rate > 0)
            name = _attention_rate(module)
            if name == "attention_dropout":
                _set(stack, module, name, rate)
            else:
                _set(stack, getattr(module, str(name)), "p", rate)
        for module in model.modules():
            if isinstance(module, LoraLayer):
                for dropout in module.lora_dropout.values():
                    _set(stack, dropout, "training", rate > 0)
                    _set(stack, dropout, "p", rate)
        yield


def _attention_rate(module: nn.Module) -> str | None:
    """Return the attribute that holds an attention module's dropout, or None for any other module."""
    if isinstance(getattr(module, "attention_dropout", None), float | int):
        return "attention_dropout"  # Llama, Mistral, Qwen
    if isinstance(getattr(module, "attn_dropout", None), nn.Dropout):
        return "attn_dropout"  # GPT-2
    if type(module).__name__.endswith("SelfAttention") and isinstance(getattr(module, "dropout", None), nn.Dropout):
        return "dropout"  # BERT, RoBERTa
    return None


def _set(stack: ExitStack, target: Any, name: str, value: float | bool) -> None:  # noqa: ANN401 - any module
    stack.callback(setattr, target, name, getattr(target, name))
    setattr(target, name, value)


TRAINED_SHARE = 0.25  # of the layers, when whole layers are trained (InstEmb, section 4)


@dataclass(frozen=True, slots=True)
class AdapterSettings(Settings):
    """Settings of which part of the model is trained, and how much of it.

    Attributes:
        kind: low-rank matrices beside frozen weights, or the weights of the last layers themselves.
        rank: r of the low-rank matrices.
        alpha: their outputs are scaled by alpha / r.
        dropout: share of a LoRA matrix's inputs, and of attention probabilities, zeroed in an ordinary training pass.
        projections: names of the linear layers with a LoRA matrix; None for all of them (seven in Llama's layers).
        layers: how many of the last layers are trained; None for all with LoRA and a quarter, rounded up, without.
        look_ahead: number of learned look-ahead embeddings, L; 0 for none.
        train_look_ahead: whether the look-ahead embeddings are trained. They stand at the input, so that gradients go
            back through every layer to reach them; where only the last layers are trained and these are not, the others
            are read without gradients, which is faster.
    """

    kind: Literal["lora", "layers"] = "lora"
    rank: AtLeastOne = 20
    alpha: AtLeastOne = 40
    dropout: Dropout = 0.0
    projections: tuple[str, ...] | None = None
    layers: int | None = None
    look_ahead: Count = 0
    train_look_ahead: bool = True


class TrainableBackbone(TransformersBackbone):
    """A backbone with float32 parameters among its own: what meets them is cast to the model's number format.

    While LoRA layers are merged, ``packed`` reads sequences without padding, for a model that it can read.
    """

    packed: PackedDecoder | None = None

    def forward(
        self, embeddings: Tensor, *, mask: Tensor | None, positions: Tensor | None, cache: Cache | None = None
    ) -> Tensor:
        """Return the last hidden states (B, T, d) of embeddings (B, T, d), as `TransformersBackbone.forward` does."""
        mixed = self.dtype != torch.float32
        with torch.autocast(self.device.type, dtype=self.dtype if mixed else torch.bfloat16, enabled=mixed):
            return super().forward(embeddings, mask=mask, positions=positions, cache=cache)


class Adapted(Trained):
    """A backbone with what is trained of it, made by `attach`.

    With an adapter there is a PEFT model around the backbone and no unfrozen weights, with whole layers it is the other
    way round; ``original`` are the values that these had before. The look-ahead embeddings are (L, d), None for none.
    """

    def __init__(
        self,
        backbone: TrainableBackbone,
        settings: AdapterSettings,
        peft: PeftModel | None,
        original: Mapping[str, Tensor],
        look_ahead: nn.Parameter | None,
    ) -> None:
        self.backbone = backbone
        self.settings = settings
        self.peft = peft
        self.look_ahead = look_ahead
        self._original = original

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        """The trained parameters by name, all float32, in an order that does not change."""
        trained: dict[str, nn.Parameter] = {name: self.backbone.model.get_parameter(name) for name in self._original}
        if self.peft is not None:
            trained |= {name: weight for name, weight in self.peft.named_parameters() if weight.requires_grad}
        return trained | {name: values for name, values in self.learned.items() if values.requires_grad}

    @property
    def learned(self) -> dict[str, nn.Parameter]:
        """The tensors that the encoder reads beside the weights, by name, trained or not."""
        return {} if self.look_ahead is None else {"look_ahead": self.look_ahead}

    @property
    def look_ahead_length(self) -> int:
        """The number of learned look-ahead embeddings, L."""
        return 0 if self.look_ahead is None else len(self.look_ahead)

    @property
    def layers(self) -> dict[str, Tensor]:
        """The unfrozen layers' weights under the names they have in the model; empty with a LoRA adapter."""
        return {name: parameter.detach() for name, parameter in self.parameters.items() if name in self._original}

    @contextmanager
    def base(self) -> Iterator[None]:
        """Within the block the model is the untrained one, without dropout: InstEmb's teacher needs no second copy."""
        untrained = self.holding(self._original) if self.peft is None else self.peft.disable_adapter()
        with dropout_at(self.backbone.model, 0.0), untrained:
            yield

    @property
    def footprint(self) -> Footprint | None:
        """The memory that training takes; None where transformers reads the model, which keeps several times more."""
        model, linear = self.backbone.model, _linear_layers(self.backbone)
        if not isinstance(model, LlamaForCausalLM) or self.peft is None or self.settings.dropout:
            return None
        heads = int(model.config.num_attention_heads) * int(model.config.num_hidden_layers)
        return Footprint.of(
            [model.get_parameter(f"{name}.weight").shape for name in linear if ".lora_" not in name],
            weights=sum(weight.nbytes for weight in model.parameters()),
            trained=sum(parameter.numel() for parameter in self.parameters.values()),
            heads=heads,
            size=self.backbone.dtype.itemsize,
        )

    def dropout(self, rate: float | None = None) -> AbstractContextManager[None]:
        """Within the block a share of attention probabilities and LoRA inputs is zeroed; 0 is as at inference.

        The share is ``rate``, or the settings' own.
        """
        return dropout_at(self.backbone.model, self.settings.dropout if rate is None else rate)


def attach(backbone: TransformersBackbone, settings: AdapterSettings, *, peft: PeftModel | None = None) -> Adapted:
    """Freeze a backbone in float32 or bfloat16 and add what is trained. It must not have been packed, and is changed.

    LoRA matrices start at random from torch's generator, look-ahead embeddings from those of a phrase that announces an
    answer, whole layers from themselves. An adapter ``peft`` that already sits in the backbone is trained on; the
    settings then say nothing about it.

    Raises:
        UsageError: the model runs in float16, or has no such projections or not as many layers.
    """
    require_gradients(backbone.dtype)
    if backbone.device.type == "cpu":
        # The fused kernel's backward pass takes 3 to 10 times as long on short prompts in bfloat16.
        backbone.model.set_attn_implementation("eager")
    original: dict[str, Tensor] = {}
    if settings.kind == "layers":
        original = _unfreeze(backbone, settings)
    elif peft is None:
        peft = _add_lora(backbone, settings)
    if peft is not None:
        _prepare_lora(backbone.model)
        backbone.model.name_or_path = backbone.source.name  # what PEFT records; else a path on this machine
    trainable = TrainableBackbone(backbone.source, backbone.model, backbone.tokenizer)
    look_ahead = None
    if settings.look_ahead:
        started = untrained_look_ahead(trainable, settings.look_ahead).float()
        look_ahead = nn.Parameter(started, requires_grad=settings.train_look_ahead)
    return Adapted(trainable, settings, peft, original, look_ahead)


def _add_lora(backbone: TransformersBackbone, settings: AdapterSettings) -> PeftModel:
    linear = _linear_layers(backbone)
    known = {name.rpartition(".")[2] for name in linear}
    wanted = set(known if settings.projections is None else settings.projections)
    if unknown := wanted - known:
        raise UsageError(
            f"{backbone.source.name} has no projection {', '.join(sorted(unknown))}.",
            hint=f"Known: {', '.join(sorted(known))}.",
        )
    config = LoraConfig(
        task_type=None if backbone.masked else "CAUSAL_LM",
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=0.0,  # switched on by `Adapted.dropout`, pass by pass
        target_modules=sorted(wanted),
        layers_to_transform=[int(name.rpartition(".")[2]) for name in _last_layers(backbone, settings.layers)],
        fan_in_fan_out=any(isinstance(layer, Conv1D) for layer in linear.values()),
    )
    with warnings.catch_warnings():  # PEFT asks transformers for an attribute it has renamed
        warnings.simplefilter("ignore", FutureWarning)
        return get_peft_model(backbone.model, config, autocast_adapter_dtype=True)


def _prepare_lora(model: nn.Module) -> None:
    """Give every LoRA layer a dropout that can be switched on, which PEFT leaves out where the configured rate is 0.

    And keep the layers from turning every input to float32 just for autocast to turn it back.
    """
    for module in model.modules():
        if isinstance(module, LoraLayer):
            module.cast_input_dtype_enabled = False
            for adapter in list(module.lora_dropout):
                module.lora_dropout[adapter] = nn.Dropout(0.0).train(False)


def _unfreeze(backbone: TransformersBackbone, settings: AdapterSettings) -> dict[str, Tensor]:
    """Make the last layers' weights float32 parameters to be trained; return the values they had."""
    model: nn.Module = backbone.model
    model.requires_grad_(False)
    original: dict[str, Tensor] = {}
    quarter = math.ceil(len(layer_names(backbone)) * TRAINED_SHARE)
    for layer in _last_layers(backbone, quarter if settings.layers is None else settings.layers):
        for name, weight in model.get_submodule(layer).named_parameters(prefix=layer):
            original[name] = weight.data
            weight.data = weight.detach().clone().float()
            weight.requires_grad_()
    return original


def _linear_layers(backbone: TransformersBackbone) -> dict[str, nn.Module]:
    """Return the projections inside the model's layers by name; the head and the embeddings are none of them."""
    layers = tuple(f"{name}." for name in layer_names(backbone))
    return {
        name: module
        for name, module in backbone.model.named_modules()
        if isinstance(module, nn.Linear | Conv1D) and name.startswith(layers)
    }


def _last_layers(backbone: TransformersBackbone, count: int | None) -> list[str]:
    """Return the names of the last ``count`` layers, or of all."""
    names = layer_names(backbone)
    if count is None:
        return names
    if not 1 <= count <= len(names):
        raise UsageError(f"layers is {count}; {backbone.source.name} has {len(names)}.")
    return names[-count:]


def layer_names(backbone: TransformersBackbone) -> list[str]:
    """Return the names of the model's transformer layers, in order."""
    depth = int(backbone.model.config.num_hidden_layers)
    for name, module in backbone.model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == depth:
            return [f"{name}.{i}" for i in range(depth)]
    raise UsageError(f"{backbone.source.name} has no list of {depth} layers.", hint="Train another kind of model.")
