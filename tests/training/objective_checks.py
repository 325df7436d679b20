"""Rows for the objectives, and a comparison with a reference that reads every prompt by itself."""

import pytest
import torch
from training_models import gradients, model, tokeniser

from retriever.encoders.readout import daap
from retriever.training.objectives.base import BatchSettings, Learner
from retriever.training.passes import soft_token_states, student_states
from retriever.training.rows import TrainingRow

BATCH = BatchSettings(texts=4, questions=2)
ONE_BY_ONE = BatchSettings(texts=4, questions=2, held_tokens=1)


def row(text, question, answer, group="", **more):
    return TrainingRow(text, question, answer, group=group or question, file="a.jsonl", **more)


ROWS = [
    row("the toy broke", "what kind of product", "toy", "kind"),
    row("the toy broke", "mood", "terrible"),
    row("a dull toy for the dog, the child, and the red lamp", "which product is it", "Toy.", "kind"),
    row("kettle boils water fast, love it", "what kind of product", "the wonderful kettle", "kind"),
    row("kettle boils water fast, love it", "mood", "love"),
    row("x", "which material is it", "red battery plug and cable", "material"),
    row("light knife, sharp", "mood", "love"),
    row("light knife, sharp", "", "a knife", "about"),
    row("the plug is blue", "product", "a plug", "kind"),
]
EVERY = range(len(ROWS))
GRID = [
    row(text, question, answer)
    for text, answers in {"the toy broke": "no no", "x": "no yes", "light knife": "yes no", "dog": "yes yes"}.items()
    for question, answer in zip(("is it sharp", "mood"), answers.split(), strict=True)
]
"""Four texts under two questions with the same answers."""


_LOADED = {}


def learner(folder, template="input-first", *, fresh=False, **settings):
    """A tiny model to learn with; a test that changes its weights asks for a fresh one."""
    key = (folder, *sorted(settings.items()))
    if fresh or key not in _LOADED:
        one = model(folder, **settings)
        if not fresh:
            _LOADED[key] = one
    else:
        one = _LOADED[key]
        gradients(one)
    return Learner(one, tokeniser(one, template), seed=3)


def prompt(one, text, instruction):
    return one.tokeniser.separate([text], [instruction])


def vector(one, text, instruction="", steps=None):
    """The vector (d,) that inference pools of one prompt."""
    if steps:
        return soft_token_states(one.adapted, prompt(one, text, instruction), steps=steps)[0, -1]
    read = student_states(one.adapted, prompt(one, text, instruction))
    return (daap(read.last, read.tail) if read.tail.shape[1] else read.last)[0]


def agree(one, reference, *backwards):
    """Compare losses and gradients of one or more ways to a reference's scalar; return the losses of the last."""
    expected = reference()
    expected.backward()
    slopes = gradients(one.adapted)
    losses = {}
    for backward in backwards:
        losses = backward()
        assert losses["loss"] == pytest.approx(expected.item(), rel=1e-4, abs=1e-5)
        for name, gradient in gradients(one.adapted).items():
            assert slopes[name].abs().max() > 1e-6, name
            atol = 1e-5 * max(1.0, float(slopes[name].abs().max()))
            assert torch.allclose(gradient, slopes[name], atol=atol, rtol=2e-3), name
    return losses


def falls(one, objective, batch=EVERY, steps=6):
    """Whether the loss of a batch falls when the parameters follow its gradients."""
    optimizer = torch.optim.Adam(one.adapted.parameters.values(), lr=0.005)
    values = []
    for _ in range(steps):
        optimizer.zero_grad()
        values.append(objective.backward(list(batch))["loss"])
        optimizer.step()
    return values[-1] < 0.9 * values[0]
