import pytest
import torch

from retriever.encoders import packing
from retriever.encoders.packing import PackedLinear, pack_linear_layers

packs = pytest.mark.skipif(not packing.can_pack(), reason="this CPU has no AVX-512, so nothing is packed on it")


def bfloat16_layer(bias):
    torch.manual_seed(3)
    return torch.nn.Linear(24, 40, bias=bias, dtype=torch.bfloat16).requires_grad_(False)


@packs
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(1, 24), (7, 24), (3, 5, 24)])
def test_packed_layer_equals_the_plain_one(bias, shape):
    layer = bfloat16_layer(bias)
    inputs = torch.randn(shape, dtype=torch.bfloat16)
    torch.testing.assert_close(PackedLinear(layer)(inputs), layer(inputs), rtol=2e-2, atol=2e-2)


@packs
def test_only_bfloat16_linear_layers_are_replaced():
    model = torch.nn.Sequential(
        bfloat16_layer(True), torch.nn.Linear(4, 4), torch.nn.Sequential(torch.nn.LayerNorm(4), bfloat16_layer(False))
    )
    assert pack_linear_layers(model) == 2
    assert [type(child) for child in model] == [PackedLinear, torch.nn.Linear, torch.nn.Sequential]
    assert pack_linear_layers(model) == 0


def test_nothing_is_packed_where_the_cpu_cannot(monkeypatch):
    monkeypatch.setattr(packing, "can_pack", lambda: False)
    layer = torch.nn.Sequential(bfloat16_layer(True))
    assert pack_linear_layers(layer) == 0
    assert layer(torch.ones(1, 24, dtype=torch.bfloat16)).shape == (1, 40)


def test_a_packed_backbone_gives_the_same_embeddings(tiny):
    from retriever.encoders.backbone import load_backbone
    from retriever.encoders.methods import build
    from retriever.encoders.options import EncoderOptions

    texts = ["a short text", "and a somewhat longer one about kettles", ""]
    plain = build("plain", load_backbone(str(tiny("llama")), dtype="bfloat16"), EncoderOptions())
    packed = build("plain", load_backbone(str(tiny("llama")), dtype="bfloat16"), EncoderOptions())
    packed.backbone.pack()
    replaced = any(isinstance(module, PackedLinear) for module in packed.backbone.model.modules())
    assert replaced == packing.can_pack()
    cosines = (plain.encode(texts) * packed.encode(texts)).sum(axis=1)
    assert cosines.min() > 0.999
