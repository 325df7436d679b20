"""A model that ignores the question cannot lower the loss: this holds for every method that compares rows.

Free vectors stand in for the model: one for each text, whatever it is asked, or one for each text under each question.
"""

from dataclasses import replace
from itertools import product

import pytest
import torch
from objective_checks import learner, row

from retriever.core.registry import resolve
from retriever.training import passes
from retriever.training.methods import METHODS
from retriever.training.objectives import reading
from retriever.training.objectives.base import BatchSettings
from retriever.training.prompt_batches import TailStates

ASKED = {
    "which colour is it": "red blue",
    "is it old": "yes no",
    "is it loud": "yes no",
}
"""Two of the questions share their answers."""
ROWS = [
    row(f"a thing with the number {bits[0]}{bits[1]}{bits[2]}", question, answers.split()[bit])
    for bits in product((0, 1), repeat=3)
    for bit, (question, answers) in zip(bits, ASKED.items(), strict=True)
]
ANSWERS = sorted({each.answer for each in ROWS})
OBJECTIVES = {
    "instemb": {"distillation": (), "views": (), "form": "inside"},
    "instemb with answers": {"distillation": (), "views": ("answer",), "compared": "daap", "form": "inside"},
    "instemb, every positive": {"distillation": (), "views": (), "form": "outside"},
    "gircse": {"steps": 2, "negatives": 0, "weight": 0.0},
    "dicl": {"negatives": 1},
}
ALIKE = {"instemb, every positive": 3}
"""Positives of a row, to which no vector can be nearer than to each other."""
DIM, STEPS, RATE = 16, 60, 0.2


class FreeVectors:
    """A vector for every prompt, learned as such."""

    def __init__(self, one, *, sees_questions):
        self._names = {}
        prompts = [(text, asked) for text in {each.text for each in ROWS} | {"", *ANSWERS} for asked in ["", *ASKED]]
        for text, asked in prompts:
            (ids,) = one.tokeniser.separate([text], [asked]).rows
            self._names[tuple(ids)] = (text, asked) if sees_questions else text
        for answer, ids in zip(ANSWERS, one.tokeniser.answers(ANSWERS), strict=True):
            self._names[(*one.adapted.backbone.tokenizer.start, *ids)] = f"{answer} alone"
        numbers = {name: number for number, name in enumerate(dict.fromkeys(self._names.values()))}
        self._places = {ids: numbers[name] for ids, name in self._names.items()}
        self.vectors = torch.randn(len(numbers), DIM, generator=torch.Generator().manual_seed(1)).requires_grad_()

    def states(self, adapted, prompts, **options):
        shared = getattr(prompts, "groups", ())
        rows = [[*group.trunk, *branch] for group in shared for branch in group.branches] or prompts.rows
        found = self.vectors[[self._places[tuple(ids)] for ids in rows]]
        return TailStates(found, found.new_zeros(len(rows), 0, DIM))

    def soft(self, adapted, prompts, *, steps, dropout=None):
        return self.states(adapted, prompts).last.unsqueeze(1).expand(-1, steps, -1)


def lowest(name, one, monkeypatch, *, sees_questions):
    """The loss that free vectors reach."""
    method = METHODS[name.partition(",")[0].partition(" ")[0]]
    settings = replace(resolve(method.settings)(), **OBJECTIVES[name])
    batch = BatchSettings(texts=8, questions=3)
    objective = method.make_objective(one, ROWS, settings, batch)
    free = FreeVectors(one, sees_questions=sees_questions)
    for module in (passes, reading):
        monkeypatch.setattr(module, "student_states", free.states)
    monkeypatch.setattr(reading, "soft_token_states", free.soft)
    (rows,) = objective.batches(0)
    assert sorted(rows) == list(range(len(ROWS)))
    optimizer = torch.optim.Adam([free.vectors], lr=RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = objective.backward(rows)["loss"]
        optimizer.step()
    return loss


def test_every_method_that_compares_rows_is_held_to_it():
    assert {name.partition(",")[0].partition(" ")[0] for name in OBJECTIVES} == METHODS.keys() - {
        "inbedder",
        "instructor",
    }


@pytest.mark.parametrize("name", OBJECTIVES)
def test_ignoring_the_question_loses_and_following_it_wins(tiny, monkeypatch, name):
    one = learner(tiny("llama"))
    follows, ignores = (lowest(name, one, monkeypatch, sees_questions=sees) for sees in (True, False))
    least = float(torch.tensor(ALIKE.get(name, 1.0)).log())
    assert follows < least + 0.05
    assert ignores > least + 0.5
