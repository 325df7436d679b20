from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from objective_checks import BATCH, EVERY, ONE_BY_ONE, ROWS, agree, learner, prompt, row

from retriever.training.loss_parts import Negatives, mean_similarity_error
from retriever.training.losses import refinement, stepwise
from retriever.training.objectives import reading
from retriever.training.objectives.base import positive_sets
from retriever.training.objectives.gircse import GircseObjective, GircseSettings, own_text_negatives
from retriever.training.pairs import gircse_examples
from retriever.training.passes import soft_token_states

SETTINGS = GircseSettings(steps=3, temperature=0.2, weight=0.7, negatives=2)


def states(one, text, instruction):
    return soft_token_states(one.adapted, prompt(one, text, instruction), steps=SETTINGS.steps)[0]  # (K, d)


def reference(one, rows=ROWS, settings=SETTINGS, groups=None, mined=None):
    """Every prompt read by itself as often as it is needed, and the loss taken once.

    A row's text under the batch's other questions is a negative.
    """
    examples = gircse_examples(rows, seed=one.seed, negatives=settings.negatives, mined=mined)
    widest = settings.negatives + max(Counter(each.text for each in rows).values()) - 1
    queries, documents, negatives, mask = [], [], [], []
    for each in examples:
        under = each.instruction if each.symmetric else ""
        queries.append(states(one, each.text, each.instruction))
        documents.append(states(one, each.positive, under))
        read = [states(one, text, under) for text in each.negatives]
        own = [other for other in rows if other.text == each.text and other.group != each.same[0]]
        read += [states(one, other.text, other.instruction) for other in own]
        missing = widest - len(read)
        mask.append([True] * len(read) + [False] * missing)
        negatives.append(torch.stack([*read, *[torch.full((3, 32), float("nan"))] * missing]))
    found = stepwise(
        torch.stack(queries, dim=1),
        torch.stack(documents, dim=1),
        groups=torch.tensor(groups),
        negatives=Negatives(torch.stack(negatives).permute(2, 0, 1, 3), torch.tensor(mask)),
        temperature=settings.temperature,
    )
    return found.sum() + settings.weight * refinement(found)


# "toy" is asked twice, and "love" is the answer to "mood" twice.
GROUPS = [0, 1, 0, 2, 3, 4, 3, 5, 6]


def objective(one, batch=BATCH, rows=ROWS, settings=SETTINGS, mined=None):
    return GircseObjective(one, rows, settings, batch, mined=mined)


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_losses_and_gradients_are_those_of_prompts_read_alone_cached_or_not(tiny, monkeypatch, name):
    monkeypatch.setattr(reading, "PIECE_TOKENS", 200)
    one = learner(tiny(name))
    losses = agree(
        one,
        lambda: reference(one, groups=GROUPS),
        lambda: objective(one).backward([*EVERY]),
        lambda: objective(one, ONE_BY_ONE).backward([*EVERY]),
    )
    assert losses["loss"] == pytest.approx(losses["contrast"] + 0.7 * losses["refinement"], rel=1e-5)


class Letters:
    """Counts of a few letters, which differ with the instruction: vectors that a person can check."""

    dim = 5

    def encode(self, texts, *, instruction=""):
        asked = instruction.count("o")
        return np.array([[text.count(letter) + asked + 0.1 for letter in "aeoty"] for text in texts], dtype=np.float32)


def test_a_teacher_s_similarities_are_learned_at_every_step(tiny, monkeypatch):
    monkeypatch.setattr(reading, "PIECE_TOKENS", 200)
    one = learner(tiny("llama"))
    settings = replace(SETTINGS, teacher="letters", teacher_weight=0.3)
    asked = {}
    for each in gircse_examples(ROWS, seed=one.seed, negatives=settings.negatives):
        under = each.instruction if each.symmetric else ""
        read = [(each.text, each.instruction), *((text, under) for text in (each.positive, *each.negatives))]
        asked |= dict.fromkeys(read)
    taught = torch.tensor(np.stack([Letters().encode([text], instruction=under)[0] for text, under in asked]))

    def wanted():
        students = torch.stack([states(one, text, under) for text, under in asked], dim=1)  # (K, N, d)
        return reference(one, groups=GROUPS) + 0.3 * mean_similarity_error(students, taught)

    def trained(batch):
        return GircseObjective(one, ROWS, settings, batch, teacher=Letters()).backward([*EVERY])

    losses = agree(one, wanted, lambda: trained(BATCH), lambda: trained(ONE_BY_ONE))
    assert losses["loss"] == pytest.approx(
        losses["contrast"] + 0.7 * losses["refinement"] + 0.3 * losses["taught"], rel=1e-5
    )


def test_equal_prompts_are_read_once(tiny, monkeypatch):
    seen = []

    def spy(adapted, prompts, **options):
        seen.extend(map(tuple, prompts.rows))
        return soft_token_states(adapted, prompts, **options)

    monkeypatch.setattr(reading, "soft_token_states", spy)
    objective(learner(tiny("llama"))).backward([*EVERY])
    assert len(seen) == len(set(seen)) < 3 * len(ROWS)


def test_a_text_under_another_question_is_a_negative_unless_both_look_for_one_answer():
    examples = [
        gircse_examples([row("x", "mood", "no")], seed=0)[0],
        gircse_examples([row("x", "loud", "no")], seed=0)[0],
        gircse_examples([row("x", "old", "yes")], seed=0)[0],
        gircse_examples([row("y", "mood", "no")], seed=0)[0],
        gircse_examples([row("x", "which mood", "yes", "mood")], seed=0)[0],
    ]
    assert own_text_negatives(examples, positive_sets(examples)) == [[2], [2, 4], [0, 1], [], [1]]
    symmetric = [replace(one, symmetric=True, positive=f"text {n}") for n, one in enumerate(examples)]
    assert own_text_negatives(symmetric, positive_sets(symmetric)) == [[1, 2], [0, 2, 4], [0, 1, 4], [], [1, 2]]


def test_mined_negatives_are_used(tiny):
    one = learner(tiny("llama"))
    mined = [("a dull lamp",)] * 3
    agree(
        one,
        lambda: reference(one, ROWS[:3], groups=GROUPS[:3], mined=mined),
        lambda: objective(one, rows=ROWS[:3], mined=mined).backward([0, 1, 2]),
    )


def test_rows_of_one_positive_are_not_each_other_s_negatives():
    examples = gircse_examples(ROWS, seed=3)
    assert positive_sets(examples) == GROUPS
    lone = replace(examples[7], positive="Toy.", symmetric=False)
    same_word = [lone, replace(lone, positive="toy", same=("use", "toy")), examples[1], lone]
    assert positive_sets(same_word) == [0, 0, 2, 0]
    asked = replace(lone, instruction="mood", symmetric=True, same=("use", "toy"))
    assert positive_sets([lone, asked]) == [0, 1]  # read under a question it is another vector
    chain = [replace(lone, positive=text, same=("q", same)) for text, same in ["ax", "bx", "by", "cy", "cz"]]
    assert positive_sets(chain) == [0] * 5
