"""Dropout switched on for one pass at a time: on attention probabilities and on the inputs of LoRA matrices.

Llama-type models have no dropout of their own, so everything here is off unless a pass asks for it. The model stays
in evaluation mode; only the modules concerned are told otherwise, and only within the block.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from peft.tuners.lora import LoraLayer
from torch import nn

from retriever.core.errors import UsageError


def use_switchable_dropout(model: nn.Module) -> None:
    """Give every LoRA layer a dropout that can be switched on; PEFT leaves it out where the configured rate is 0."""
    for module in model.modules():
        if isinstance(module, LoraLayer):
            for adapter in list(module.lora_dropout):
                module.lora_dropout[adapter] = nn.Dropout(0.0).train(False)


@contextmanager
def dropout_at(model: nn.Module, rate: float) -> Iterator[None]:
    """Set the share of attention probabilities and LoRA inputs that is zeroed within the block.

    What stays is scaled by 1 / (1 - rate). At 0 the model does what it does at inference.

    Raises:
        UsageError: the rate is out of range, or the model's attention has no dropout to switch on.
    """
    if not 0 <= rate < 1:
        raise UsageError(f"dropout is {rate}; it must be at least 0 and below 1.")
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
