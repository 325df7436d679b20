from dataclasses import replace
from math import e, log

import loss_references as slow
import pytest
import torch
from loss_checks import booleans, check, check_finite, draw

from retriever.training.losses.dicl import DiclEmbeddings, contrast, dicl, improvement
from retriever.training.losses.infonce import Negatives

TERMS = ["improvement", "contrast", "batch", "symmetric", "total"]
MASK = booleans([1, 1], [0, 1], [0, 0])
NONE = booleans([0, 0], [0, 0], [0, 0])


def rows():
    names = ["query", "query_text", "query_instruction", "positive"]
    return {name: draw(3, 4, seed=7 * i) for i, name in enumerate(names)} | {"negatives": draw(3, 2, 4)}


def embeddings(groups=None, mask=MASK, *, negatives, **tensors):
    ids = None if groups is None else torch.tensor(groups)
    return DiclEmbeddings(**tensors, negatives=Negatives(negatives, mask), groups=ids)


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize(
    ("groups", "mask", "margin", "tau"),
    [(None, MASK, 0.2, 0.05), ([5, 1, 5], MASK, 0.9, 0.4), ([2, 2, 2], NONE, 0.9, 0.4)],
    ids=["apart", "two-equal", "one-group-no-negatives"],
)
def test_terms_equal_the_reference(term, mask, groups, margin, tau):
    def reference(**lists):
        found = slow.dicl(**lists, mask=mask.tolist(), groups=groups or [0, 1, 2], margin=margin, tau=tau)
        return sum(found.values()) if term == "total" else found[term]

    def loss(**tensors):
        return getattr(dicl(embeddings(groups, mask, **tensors), margin=margin, temperature=tau), term)

    check(loss, reference, rows())


def test_defaults_are_margin_a_fifth_and_temperature_a_twentieth():
    found = dicl(embeddings(**rows()))
    lists = {name: tensor.tolist() for name, tensor in rows().items()}
    expected = slow.dicl(**lists, mask=MASK.tolist(), groups=[0, 1, 2], margin=0.2, tau=0.05)
    for name, value in expected.items():
        assert getattr(found, name).item() == pytest.approx(value)
        assert value > 0


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
    assert improvement(batch).item() == pytest.approx(0.2 / 2)
    assert contrast(batch).item() == pytest.approx((0.2 + 0) / 2 / 2)
    found = dicl(batch, temperature=1.0)
    assert found.batch.item() == found.symmetric.item() == pytest.approx(-log(e / (e + 1)))


def test_without_negatives_only_the_contrast_is_gone():
    batch = embeddings(**rows())
    bare = dicl(replace(batch, negatives=None))
    assert bare.contrast.item() == 0
    assert bare.total.item() == pytest.approx((dicl(batch).total - dicl(batch).contrast).item())


def test_one_row_has_no_batch_to_contrast_with():
    tensors = {name: tensor[:1] for name, tensor in rows().items()}

    def loss(**tensors):
        found = dicl(embeddings(mask=MASK[:1], **tensors))
        return found.batch + found.symmetric

    check_finite(loss, tensors, 0.0)


def test_equal_positives_cost_as_much_as_guessing():
    tensors = rows() | {"positive": draw(1, 4).expand(3, 4)}
    assert dicl(embeddings(**tensors)).batch.item() == pytest.approx(log(3))


def test_what_stands_in_empty_places_is_never_read():
    clean = rows()
    dirty = clean | {"negatives": clean["negatives"].masked_fill(~MASK[..., None], float("nan"))}
    expected = dicl(embeddings(**clean)).total.item()
    check_finite(lambda **tensors: dicl(embeddings(**tensors)).total, dirty, expected)
