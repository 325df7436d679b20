from dataclasses import replace
from functools import partial
from math import e, log

import loss_references as slow
import pytest
import torch
from loss_checks import booleans, check, check_finite, draw

from retriever.training.loss_parts import Negatives
from retriever.training.losses import DiclEmbeddings, dicl, tiered

MASK = booleans([1, 1], [0, 1], [0, 0])
NONE = booleans([0, 0], [0, 0], [0, 0])
EVERY = booleans([1] * 4, [1] * 4, [1] * 4)


def rows():
    names = ["query", "query_text", "query_instruction", "positive"]
    return {name: draw(3, 4, seed=7 * i) for i, name in enumerate(names)} | {"negatives": draw(3, 2, 4)}


def embeddings(groups=None, mask=MASK, *, negatives, **tensors):
    ids = None if groups is None else torch.tensor(groups)
    return DiclEmbeddings(**tensors, negatives=Negatives(negatives, mask), groups=ids)


def agrees(loss, reference, tensors):
    """Compare every term's value, and the gradients of their sum, with a reference on lists."""
    found, expected = loss(**tensors), reference(**{name: tensor.tolist() for name, tensor in tensors.items()})
    assert {name: term.item() for name, term in found.items()} == pytest.approx(expected)
    check(lambda **inputs: sum(loss(**inputs).values()), lambda **lists: sum(reference(**lists).values()), tensors)


@pytest.mark.parametrize(
    ("groups", "mask", "margin", "tau"),
    [(None, MASK, 0.2, 0.05), ([5, 1, 5], MASK, 0.9, 0.4), ([2, 2, 2], NONE, 0.9, 0.4)],
    ids=["apart", "two-equal", "one-group-no-negatives"],
)
def test_terms_equal_the_reference(mask, groups, margin, tau):
    agrees(
        lambda **tensors: dicl(embeddings(groups, mask, **tensors), margin=margin, temperature=tau),
        partial(slow.dicl, mask=mask.tolist(), groups=groups or [0, 1, 2], margin=margin, tau=tau),
        rows(),
    )


def test_by_hand():
    east, north = torch.eye(2)
    wrong = torch.stack([torch.stack([east, -east]), torch.stack([east, north])])  # (2, 2, 2)
    batch = DiclEmbeddings(
        query=torch.stack([east, north]),
        query_text=torch.stack([east, east]),
        query_instruction=torch.stack([north, -north]),
        positive=torch.stack([2 * east, 3 * north]),
        negatives=Negatives(wrong, booleans([1, 1], [1, 0])),
    )
    found = dicl(batch, temperature=1.0)
    assert found["improvement"].item() == pytest.approx(0.2 / 2)
    assert found["contrast"].item() == pytest.approx((0.2 + 0) / 2 / 2)
    assert found["batch"].item() == found["symmetric"].item() == pytest.approx(-log(e / (e + 1)))


def test_without_negatives_only_the_contrast_is_gone():
    batch = embeddings(**rows())
    none = Negatives(batch.negatives.vectors[:, :0], MASK[:, :0])
    assert dicl(replace(batch, negatives=none)) == {**dicl(batch), "contrast": torch.tensor(0.0, dtype=torch.float64)}


def test_what_stands_in_empty_places_is_never_read():
    clean = rows()
    dirty = clean | {"negatives": clean["negatives"].masked_fill(~MASK[..., None], float("nan"))}
    expected = sum(dicl(embeddings(**clean)).values()).item()
    check_finite(lambda **tensors: sum(dicl(embeddings(**tensors)).values()), dirty, expected)


def tiers():
    single = {name: draw(3, 4, seed=7 * i) for i, name in enumerate(["target", "both", "instruction", "query"])}
    several = {name: draw(3, 2, 4, seed=7 * i) for i, name in enumerate(["half_wrong", "wrong", "external"])}
    return single | several


def tiered_terms(groups=None, mask=MASK, taken=EVERY, tau=0.05, *, half_wrong, wrong, **tensors):
    lower = torch.cat([half_wrong, wrong], dim=1).masked_fill(~taken[..., None], float("nan"))
    batch = DiclEmbeddings(
        query=tensors["both"],
        query_text=tensors["query"],
        query_instruction=tensors["instruction"],
        positive=tensors["target"],
        negatives=Negatives(tensors["external"], mask),
        groups=None if groups is None else torch.tensor(groups),
    )
    return tiered(batch, Negatives(lower, taken), temperature=tau)


@pytest.mark.parametrize(
    ("groups", "mask"),
    [(None, MASK), ([5, 1, 5], MASK), ([2, 2, 2], NONE)],
    ids=["apart", "two-equal", "one-group-no-external"],
)
def test_tiers_equal_the_reference(mask, groups):
    agrees(
        partial(tiered_terms, groups, mask, tau=0.3),
        partial(slow.tiered, mask=mask.tolist(), groups=groups or [0, 1, 2], tau=0.3),
        tiers(),
    )


def test_tiers_by_hand():
    east, north, up = torch.eye(3)
    batch = DiclEmbeddings(
        query=east[None],
        query_text=east[None],
        query_instruction=north[None],
        positive=east[None],
        negatives=Negatives.of(torch.stack([north, up, up])[None]),
    )
    found = tiered(batch, Negatives.of(torch.stack([north, north, up, up])[None]), temperature=1.0)
    assert found["first"].item() == pytest.approx(-log(e / (e + e + 1 + 4 + 3)))
    assert found["symmetric"].item() == pytest.approx(-log(e / (e + 3)))
    assert found["instruction"].item() == pytest.approx(-log(1 / (1 + 2 * e + 2 + e + 2)))
    assert found["query"].item() == pytest.approx(-log(e / (e + 4 + 3)))
    assert found["first_over_second"].item() == pytest.approx(-log(e / (e + 1 + e)))


def test_no_external_negatives_are_masked_ones():
    given = tiers()
    bare = tiered_terms(mask=NONE[:, :0], **given | {"external": given["external"][:, :0]})
    assert sum(bare.values()).item() == pytest.approx(sum(tiered_terms(mask=NONE, **given).values()).item())


def test_places_of_the_lower_tiers_may_be_empty():
    taken = booleans([1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 0, 1])

    def reference(half_wrong, wrong, **lists):
        half = [slow.real(row, held) for row, held in zip(half_wrong, taken[:, :2].tolist(), strict=True)]
        alone = [slow.real(row, held) for row, held in zip(wrong, taken[:, 2:].tolist(), strict=True)]
        return slow.tiered(**lists, half_wrong=half, wrong=alone, mask=MASK.tolist(), groups=[0, 1, 2], tau=0.3)

    agrees(partial(tiered_terms, taken=taken, tau=0.3), reference, tiers())


def test_what_stands_in_empty_places_of_tier_five_is_never_read():
    clean = tiers()
    dirty = clean | {"external": clean["external"].masked_fill(~MASK[..., None], float("nan"))}
    expected = sum(tiered_terms(**clean).values()).item()
    check_finite(lambda **tensors: sum(tiered_terms(**tensors).values()), dirty, expected)
