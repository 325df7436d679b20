import math

import numpy as np
import pytest
import torch

from retriever.encoders import kernels
from retriever.encoders.bert.arrays import gelu, plan_packs
from retriever.encoders.kernels import PackedLinear, pack_linear_layers

packs = pytest.mark.skipif(not kernels.can_pack(), reason="this PyTorch has no such operators")
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
PACKED = [torch.float32, torch.bfloat16] if kernels.multiplies_bfloat16() else [torch.float32]


def layer_of(dtype, bias=True):
    torch.manual_seed(3)
    return torch.nn.Linear(24, 40, bias=bias, dtype=dtype).requires_grad_(False)


@packs
@pytest.mark.parametrize("dtype", PACKED)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(1, 24), (7, 24), (3, 5, 24)])
def test_packed_layer_equals_the_plain_one_with_gelu_behind_it_too(dtype, bias, shape):
    layer = layer_of(dtype, bias)
    packed, inputs = PackedLinear(layer), torch.randn(shape, dtype=dtype)
    near = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    torch.testing.assert_close(packed(inputs), layer(inputs), **near)
    torch.testing.assert_close(packed.gelu(inputs), torch.nn.functional.gelu(layer(inputs)), **near)


@packs
@pytest.mark.parametrize("dtype", PACKED)
def test_a_row_of_a_packed_layer_is_the_same_whatever_is_read_with_it(dtype):
    packed, inputs = PackedLinear(layer_of(dtype)), torch.randn(200, 24, dtype=dtype)
    for product in (packed, packed.gelu):
        assert all(torch.equal(product(inputs[:rows]), product(inputs)[:rows]) for rows in (1, 7, 8, 9, 64, 199))


@packs
def test_linear_layers_are_replaced_in_the_number_formats_that_the_processor_multiplies(monkeypatch):
    def kinds(*, single):
        inner = torch.nn.Sequential(torch.nn.LayerNorm(24), layer_of(torch.float32, bias=False))
        model = torch.nn.Sequential(layer_of(torch.bfloat16), layer_of(torch.float64), inner)
        pack_linear_layers(model, single=single)
        return [type(model[0]), type(model[1]), type(inner[1])]

    monkeypatch.setattr(kernels, "multiplies_bfloat16", lambda: True)
    assert kinds(single=True) == [PackedLinear, torch.nn.Linear, PackedLinear]
    assert kinds(single=False) == [PackedLinear, torch.nn.Linear, torch.nn.Linear]
    monkeypatch.setattr(kernels, "multiplies_bfloat16", lambda: False)
    assert kinds(single=True) == [torch.nn.Linear, torch.nn.Linear, PackedLinear]


def test_nothing_is_packed_where_pytorch_cannot(monkeypatch):
    monkeypatch.setattr(kernels, "can_pack", lambda: False)
    layer = torch.nn.Sequential(layer_of(torch.float32))
    pack_linear_layers(layer, single=True)
    assert type(layer[0]) is torch.nn.Linear
    assert layer(torch.ones(1, 24)).shape == (1, 40)


def test_a_packed_backbone_gives_the_same_embeddings(tiny):
    from retriever.encoders.backbone import load_backbone
    from retriever.encoders.methods import EncoderOptions, build

    texts = ["a short text", "and a somewhat longer one about kettles", ""]
    plain = build("plain", load_backbone(str(tiny("llama")), dtype="bfloat16"), EncoderOptions())
    packed = build("plain", load_backbone(str(tiny("llama")), dtype="bfloat16"), EncoderOptions())
    packed.backbone.pack()
    replaced = any(isinstance(module, PackedLinear) for module in packed.backbone.modules())
    assert replaced == kernels.multiplies_bfloat16()
    cosines = (plain.encode(texts) * packed.encode(texts)).sum(axis=1)
    assert cosines.min() > 0.999


@pytest.mark.parametrize("budget", [1, 7, 10, 1000])
def test_packs_hold_every_text_once_longest_first_without_padding(budget):
    texts = [[1], [2, 3], [4, 5, 6, 7, 8, 9, 10, 11], [12, 13], [14], [15, 16, 17]]
    packs = list(plan_packs(texts, budget))
    assert sorted(row for pack in packs for row in pack.rows) == list(range(6))
    assert [row for pack in packs for row in pack.rows] == [2, 5, 1, 3, 0, 4]
    for pack in packs:
        assert len(pack.ids) <= budget or len(pack.rows) == 1
        assert pack.ids.tolist() == [token for row in pack.rows for token in texts[row]]
        assert pack.places.tolist() == [place for row in pack.rows for place in range(len(texts[row]))]
        lengths = [len(texts[row]) for row in pack.rows]
        assert [run.length for run in pack.runs for _ in range(run.texts)] == lengths
        assert [run.start for run in pack.runs] == [sum(lengths[: lengths.index(run.length)]) for run in pack.runs]
    assert len(packs) == {1: 6, 7: 3, 10: 2, 1000: 1}[budget]
    assert list(plan_packs([], budget)) == []


def test_gelu_is_the_exact_one():
    values = np.concatenate([np.linspace(-9, 9, 4001), [-1e4, 1e4, 0]]).astype(np.float32)
    exact = [0.5 * x * (1 + math.erf(x / math.sqrt(2))) for x in values.tolist()]
    assert (abs(gelu(values) - exact) / np.maximum(1, values)).max() < 3e-7
