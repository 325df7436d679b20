import subprocess
import sys

import pytest
import torch
from tiny_checkpoints import save_trained

from retriever import load_encoder
from retriever.core.errors import EncoderError, UsageError
from retriever.encoders import catalog, device
from retriever.encoders.catalog import CATALOG, resolve_name
from retriever.encoders.device import pick_device, pick_dtype
from retriever.encoders.methods import METHODS
from retriever.encoders.wheels import WHEELS
from retriever.index.encoding import describe, load_described, view_key

LEFT_OUT = "transformers peft accelerate sklearn scipy pandas sentence_transformers pydantic faiss".split()
CODE = """
import sys
from retriever.encoders.catalog import load_encoder
for name in {names!r}:
    encoder = load_encoder(name, device="cpu", dtype="float32")
    encoder.encode_views(["the toy broke", "x"], ["mood", "kind of product"], words=2)
    print(type(encoder).__name__, sorted(set(sys.argv[1:]) & set(sys.modules)))
"""


def imported(*names):
    """Return a line for each encoder: its backbone, and what was imported until it had answered."""
    command = [sys.executable, "-c", CODE.format(names=list(map(str, names))), *LEFT_OUT]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_checkpoint_over_a_llama_is_read_without_model_libraries(tiny, tmp_path):
    methods = ["instemb", "gircse", "inbedder", "plain"]
    for method in methods:
        save_trained(tmp_path / method, tiny("llama"), method=method)
    kinds = ["InstEmbEncoder", "GircseEncoder", "InBedderEncoder", "PlainEncoder"]
    assert imported(*(tmp_path / method for method in methods)) == [f"{kind} []" for kind in kinds]


def test_another_family_is_read_with_transformers(tiny):
    name, _, found = imported(f"plain:{tiny('mistral')}")[0].partition(" ")
    assert name == "PlainEncoder"
    assert "'transformers'" in found


@pytest.mark.model
def test_the_default_is_read_without_model_libraries():
    assert imported("default", "instemb") == ["InstructorEncoder []", "InstEmbEncoder []"]


@pytest.mark.model
def test_queries_are_read_by_the_default_without_torch():
    code = "import sys; from retriever import load_encoder; load_encoder().encode_queries(['toy'], instruction='mood')"
    command = [sys.executable, "-c", f"{code}; print('torch' in sys.modules)"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"


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


def test_a_folder_that_is_no_checkpoint_says_how_to_load_a_bare_model(tiny):
    with pytest.raises(EncoderError, match="is not a retriever checkpoint") as caught:
        load_encoder(str(tiny("llama")))
    assert f"METHOD:{tiny('llama')}" in caught.value.hint


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_number_formats_by_name(tiny, name):
    assert pick_dtype(name, torch.device("cpu")) is getattr(torch, name)
    encoder = load_encoder(f"plain:{tiny('llama')}", device="cpu", dtype=name)
    assert encoder.spec.dtype == name
    assert {weight.dtype for weight in encoder.backbone.parameters()} == {getattr(torch, name)}


@pytest.mark.parametrize(("flags", "dtype"), [({"amx_bf16": True}, "bfloat16"), ({"avx2": True}, "float32")])
def test_auto_takes_bfloat16_where_the_processor_multiplies_it_and_says_so_elsewhere(monkeypatch, caplog, flags, dtype):
    device._say_float32.cache_clear()
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: flags)
    for _ in range(2):
        assert pick_dtype("auto", torch.device("cpu")) is getattr(torch, dtype)
    assert caplog.messages == [
        "This device does not multiply bfloat16: models compute in float32, which takes longer."
    ] * (dtype == "float32")


@pytest.mark.parametrize(
    ("limit", "dtype"),
    [
        ("AVX2", "float32"),
        ("avx512_core", "float32"),
        ("AVX512_CORE_VNNI", "float32"),
        ("AVX512_CORE_BF16", "bfloat16"),
        ("AVX512_CORE_AMX", "bfloat16"),
        ("DEFAULT", "bfloat16"),
        ("", "bfloat16"),
    ],
)
def test_auto_goes_by_the_instructions_that_the_library_may_use(monkeypatch, limit, dtype):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    assert pick_dtype("auto", torch.device("cpu")) is getattr(torch, dtype)


def test_an_index_made_in_bfloat16_is_read_in_float32_where_the_processor_does_not_multiply_it(tiny, monkeypatch):
    made = load_encoder(f"plain:{tiny('llama')}", device="cpu", dtype="bfloat16")
    assert load_described(describe(made), device="cpu").spec == made.spec
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True})
    opened = load_described(describe(made), device="cpu")
    assert view_key(opened, "what broke") == view_key(made, "what broke")
    assert {weight.dtype for weight in opened._encoder.backbone.parameters()} == {torch.float32}
    texts = ["the toy broke", "love the lamp"]
    assert (opened.encode(texts) * made.encode(texts)).sum(axis=1).min() > 0.999


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
