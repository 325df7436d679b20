"""Tiny models in training, with an adapter that already does something."""

import torch

from retriever.core.prompts import get_template
from retriever.encoders.transformers_backbone import load_trainable
from retriever.training.adapters import AdapterSettings, attach
from retriever.training.passes import student_states
from retriever.training.prompt_batches import PromptTokeniser

TEXTS = ["the toy broke", "kettle boils water fast, love it", "x", "a wonderful knife for the kitchen and the child"]
INSTRUCTIONS = ["what kind of product", "mood", "which material is it", "what kind of product"]
ANSWERS = ["toy", "a terrible kettle that broke", "red", "love"]


def model(folder, *, dtype="float32", moved=True, seed=6, **settings):
    torch.manual_seed(seed)
    backbone = load_trainable(str(folder), device="cpu", dtype=dtype)
    adapted = attach(backbone, AdapterSettings(**{"rank": 2, "alpha": 8, **settings}))
    if moved:
        move(adapted, seed)
    return adapted


def move(adapted, seed=6):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in adapted.parameters.values():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)


def tokeniser(adapted, template="input-first"):
    return PromptTokeniser(adapted.backbone.tokenizer, get_template(template))


def gradients(adapted):
    found = {name: parameter.grad for name, parameter in adapted.parameters.items()}
    for parameter in adapted.parameters.values():
        parameter.grad = None
    return found


def last_states(adapted, prompts, *, dropout=None):
    """The states (B, d) of prompts without anything behind them."""
    return student_states(adapted, prompts, look_ahead=0, dropout=dropout).last
