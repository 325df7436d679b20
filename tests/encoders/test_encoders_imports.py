"""What loading and asking the question reader imports, in processes of their own."""

import subprocess
import sys

import pytest
from tiny_checkpoints import save_trained

LEFT_OUT = "transformers peft accelerate sklearn scipy pandas sentence_transformers pydantic faiss".split()
CODE = """
import sys
from retriever.encoders.catalog import load_encoder
for name in {names!r}:
    encoder = load_encoder(name, device="cpu", dtype="float32")
    encoder.encode_views(["the toy broke", "x"], ["mood", "kind of product"], words=2)
    print(type(encoder.backbone).__name__, sorted(set(sys.argv[1:]) & set(sys.modules)))
"""


def imported(*names):
    """Return a line for each encoder: its backbone, and what was imported until it had answered."""
    command = [sys.executable, "-c", CODE.format(names=list(map(str, names))), *LEFT_OUT]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_checkpoint_over_a_llama_is_read_without_model_libraries(tiny, tmp_path):
    methods = ["instemb", "gircse", "inbedder", "plain"]
    for method in methods:
        save_trained(tmp_path / method, tiny("llama"), method=method)
    assert imported(*(tmp_path / method for method in methods)) == ["LlamaBackbone []"] * 4


def test_another_family_is_read_with_transformers(tiny):
    name, _, found = imported(f"plain:{tiny('mistral')}")[0].partition(" ")
    assert name == "TransformersBackbone"
    assert "'transformers'" in found


@pytest.mark.model
def test_the_default_is_read_without_model_libraries():
    assert imported("default") == ["LlamaBackbone []"]
