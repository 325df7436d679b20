import pytest
import torch

from retriever import load_encoder
from retriever.core.errors import EncoderError, UsageError
from retriever.core.protocols import Encoder
from retriever.encoders import catalog
from retriever.encoders.catalog import CATALOG, resolve_name
from retriever.encoders.device import pick_device, pick_dtype
from retriever.encoders.gircse import GircseEncoder
from retriever.encoders.inbedder import InBedderEncoder
from retriever.encoders.masked import MaskedInBedderEncoder
from retriever.encoders.methods import METHODS, build
from retriever.encoders.options import EncoderOptions
from retriever.encoders.sources import WHEELS


@pytest.mark.parametrize(
    ("name", "suggestion"), [("instembb", "instemb"), ("girce", "gircse"), ("defualt", "default"), ("mini", "minilm")]
)
def test_an_unknown_name_suggests_the_nearest(name, suggestion):
    with pytest.raises(EncoderError, match=f"Unknown encoder '{name}'") as caught:
        load_encoder(name)
    assert caught.value.hint.startswith(f"Did you mean '{suggestion}'?")


@pytest.mark.parametrize("name", ["zzz", "zzz:llama", "gircse:", ":x", ""])
def test_a_name_near_nothing_lists_what_there_is(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EncoderError) as caught:
        resolve_name(name)
    assert "METHOD:" in caught.value.hint


def test_names_of_the_table_resolve_to_a_method_and_a_backbone(monkeypatch, tmp_path):
    monkeypatch.setattr(catalog, "SHIPPED_FOLDER", tmp_path)
    for name, entry in CATALOG.items():
        method, _, backbone = resolve_name(name).partition(":")
        assert resolve_name(name) == entry.spec
        assert method in {*METHODS, "st"}
        assert backbone in WHEELS
        assert resolve_name(entry.spec) == entry.spec
    assert ":" in resolve_name("default")


def test_a_folder_that_is_no_checkpoint_says_how_to_load_a_bare_model(tiny):
    with pytest.raises(EncoderError, match="is not a retriever checkpoint") as caught:
        load_encoder(str(tiny("llama")))
    assert f"METHOD:{tiny('llama')}" in caught.value.hint


@pytest.mark.parametrize(
    ("spec", "kind"),
    [("gircse:llama", GircseEncoder), ("inbedder:mistral", InBedderEncoder), ("inbedder:bert", MaskedInBedderEncoder)],
)
def test_method_and_backbone_load_by_name(tiny, spec, kind):
    method, name = spec.split(":")
    spec = f"{method}:{tiny(name)}"
    encoder = load_encoder(spec, device="cpu", dtype="float32", steps=2 if method == "gircse" else None)
    assert type(encoder) is kind
    assert isinstance(encoder, Encoder)
    assert (encoder.spec.name, encoder.dim, encoder.spec.dtype) == (spec, 32, "float32")
    if method == "gircse":
        assert encoder.steps == 2


@pytest.mark.parametrize("method", ["gircse", "instemb", "plain"])
def test_a_masked_model_is_refused_by_methods_that_need_a_causal_one(tiny, method):
    with pytest.raises(EncoderError, match=f"{method} needs a causal model") as caught:
        load_encoder(f"{method}:{tiny('bert')}", device="cpu")
    assert caught.value.hint == "Use inbedder."


def test_every_method_builds_and_names_itself(backbone):
    for method in METHODS:
        assert build(method, backbone("llama"), EncoderOptions()).method == method
    assert build("inbedder", backbone("roberta"), EncoderOptions()).method == "inbedder"


def test_an_unknown_template_is_refused(tiny):
    with pytest.raises(UsageError, match="Unknown template 'chat'") as caught:
        load_encoder(f"plain:{tiny('llama')}", device="cpu", template="chat")
    assert caught.value.hint == "Known: input-first, instruct-query."


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_number_formats_by_name(tiny, name):
    assert pick_dtype(name, torch.device("cpu")) is getattr(torch, name)
    encoder = load_encoder(f"plain:{tiny('llama')}", device="cpu", dtype=name)
    assert encoder.spec.dtype == name
    assert {weight.dtype for weight in encoder.backbone.model.parameters()} == {getattr(torch, name)}


@pytest.mark.parametrize(("flags", "dtype"), [({"amx_bf16": True}, "bfloat16"), ({"avx2": True}, "float32")])
def test_auto_takes_bfloat16_where_the_processor_multiplies_it(monkeypatch, flags, dtype):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: flags)
    assert pick_dtype("auto", torch.device("cpu")) is getattr(torch, dtype)


def test_an_unknown_number_format_or_device_is_refused():
    with pytest.raises(UsageError, match="Unknown dtype 'int8'") as caught:
        pick_dtype("int8", torch.device("cpu"))
    assert "bfloat16, float32, float16" in caught.value.hint
    with pytest.raises(UsageError, match="Unknown device 'gpu'"):
        pick_device("gpu")


@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_cuda_where_there_is_none_says_what_to_use(monkeypatch, name):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match="No CUDA device is available") as caught:
        pick_device(name)
    assert caught.value.hint == "Use --device cpu or auto."
    assert pick_device() == pick_device("cpu") == torch.device("cpu")


def test_auto_takes_cuda_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert pick_device("auto") == torch.device("cuda")
