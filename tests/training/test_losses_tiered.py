from dataclasses import replace
from math import e, log

import loss_references as slow
import pytest
import torch
from loss_checks import booleans, check, check_finite, draw

from retriever.training.losses.infonce import Negatives
from retriever.training.losses.tiered import TieredEmbeddings, tiered

TERMS = ["first", "symmetric", "instruction", "query", "first_over_second"]
MASK = booleans([1, 1], [0, 1], [0, 0])
NONE = booleans([0, 0], [0, 0], [0, 0])


def rows():
    single = {name: draw(3, 4, seed=7 * i) for i, name in enumerate(["target", "both", "instruction", "query"])}
    several = {name: draw(3, 2, 4, seed=7 * i) for i, name in enumerate(["half_wrong", "wrong", "external"])}
    return single | several


def embeddings(groups=None, mask=MASK, *, external, **tensors):
    ids = None if groups is None else torch.tensor(groups)
    return TieredEmbeddings(**tensors, external=Negatives(external, mask), groups=ids)


@pytest.mark.parametrize("term", [*TERMS, "total"])
@pytest.mark.parametrize(
    ("groups", "mask"),
    [(None, MASK), ([5, 1, 5], MASK), ([2, 2, 2], NONE)],
    ids=["apart", "two-equal", "one-group-no-external"],
)
def test_terms_equal_the_reference(term, mask, groups):
    def reference(**lists):
        found = slow.tiered(**lists, mask=mask.tolist(), groups=groups or [0, 1, 2], tau=0.3)
        return sum(found.values()) if term == "total" else found[term]

    def loss(**tensors):
        return getattr(tiered(embeddings(groups, mask, **tensors), temperature=0.3), term)

    check(loss, reference, rows())


def test_the_default_temperature_is_a_twentieth():
    lists = {name: tensor.tolist() for name, tensor in rows().items()}
    expected = slow.tiered(**lists, mask=MASK.tolist(), groups=[0, 1, 2], tau=0.05)
    found = tiered(embeddings(**rows()))
    assert [getattr(found, term).item() for term in TERMS] == pytest.approx([expected[term] for term in TERMS])


def test_by_hand():
    east, north, up = torch.eye(3)
    batch = TieredEmbeddings(
        target=east[None],
        both=east[None],
        instruction=north[None],
        query=east[None],
        half_wrong=torch.stack([north, north])[None],
        wrong=torch.stack([up, up])[None],
        external=Negatives.of(torch.stack([north, up, up])[None]),
    )
    found = tiered(batch, temperature=1.0)
    assert found.first.item() == pytest.approx(-log(e / (e + e + 1 + 4 + 3)))
    assert found.symmetric.item() == pytest.approx(-log(e / (e + 3)))
    assert found.instruction.item() == pytest.approx(-log(1 / (1 + 2 * e + 2 + e + 2)))
    assert found.query.item() == pytest.approx(-log(e / (e + 4 + 3)))
    assert found.first_over_second.item() == pytest.approx(-log(e / (e + 1 + e)))


def test_no_external_negatives_are_masked_ones():
    batch = embeddings(mask=NONE, **rows())
    assert tiered(replace(batch, external=None)).total.item() == pytest.approx(tiered(batch).total.item())


@pytest.mark.parametrize("term", [*TERMS, "total"])
def test_places_of_the_lower_tiers_may_be_empty(term):
    taken = booleans([1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 0, 1])

    def reference(half_wrong, wrong, **lists):
        half = [slow.real(row, held) for row, held in zip(half_wrong, taken[:, :2].tolist(), strict=True)]
        alone = [slow.real(row, held) for row, held in zip(wrong, taken[:, 2:].tolist(), strict=True)]
        found = slow.tiered(**lists, half_wrong=half, wrong=alone, mask=MASK.tolist(), groups=[0, 1, 2], tau=0.3)
        return sum(found.values()) if term == "total" else found[term]

    def loss(half_wrong, wrong, **tensors):
        lower = torch.cat([half_wrong, wrong], dim=1).masked_fill(~taken[..., None], float("nan"))
        batch = embeddings(half_wrong=lower[:, :2], wrong=lower[:, 2:], **tensors)
        return getattr(tiered(replace(batch, taken=taken), temperature=0.3), term)

    check(loss, reference, rows())


def test_one_row_is_its_own_tiers_alone():
    tensors = {name: tensor[:1] for name, tensor in rows().items()}
    check_finite(lambda **inputs: tiered(embeddings(mask=NONE[:1], **inputs)).symmetric, tensors, 0.0)
    assert tiered(embeddings(mask=NONE[:1], **tensors)).first.item() > 0


def test_what_stands_in_empty_places_is_never_read():
    clean = rows()
    dirty = clean | {"external": clean["external"].masked_fill(~MASK[..., None], float("nan"))}
    expected = tiered(embeddings(**clean)).total.item()
    check_finite(lambda **tensors: tiered(embeddings(**tensors)).total, dirty, expected)
