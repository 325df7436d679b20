"""What loading and asking the question reader imports, in processes of their own."""

import subprocess
import sys

import pytest
from tiny_checkpoints import save_trained

LEFT_OUT = "transformers peft accelerate sklearn scipy pandas sentence_transformers pydantic faiss".split()
CODE = """
import sys
from retriever.encoders.catalog import load_encoder
encoder = load_encoder({name!r}, device="cpu", dtype="float32")
encoder.encode_views(["the toy broke", "x"], ["mood", "kind of product"], words=2)
print(type(encoder.backbone).__name__, sorted(set(sys.argv[1:]) & set(sys.modules)))
"""


def imported(name):
    command = [sys.executable, "-c", CODE.format(name=str(name)), *LEFT_OUT]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("method", ["instemb", "gircse", "inbedder", "plain"])
def test_a_checkpoint_over_a_llama_is_read_without_model_libraries(tiny, tmp_path, method):
    save_trained(tmp_path / "saved", tiny("llama"), method=method)
    assert imported(tmp_path / "saved") == "LlamaBackbone []"


def test_another_family_is_read_with_transformers(tiny):
    name, _, found = imported(f"plain:{tiny('mistral')}").partition(" ")
    assert name == "TransformersBackbone"
    assert "'transformers'" in found


@pytest.mark.model
def test_the_default_is_read_without_model_libraries():
    assert imported("default") == "LlamaBackbone []"
