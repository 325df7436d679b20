import subprocess
import sys
from pathlib import Path

import pytest

from retriever import load_encoder, open_index
from retriever.core import words
from retriever.core.types import Document

HEAVY = "torch", "transformers", "faiss", "sentence_transformers", "peft", "pyarrow", "pymilvus"
SERVERS = "fastapi", "starlette", "uvicorn", "mcp", "prometheus_client", "langchain_core", "llama_index"


@pytest.mark.parametrize(
    "code",
    [
        "import retriever; retriever.load_encoder; retriever.open_index",
        "import retriever.core.similarity, retriever.core.prompts, retriever.core.protocols, retriever.core.paths",
        "from retriever.encoders.catalog import CATALOG, resolve_name; resolve_name('default')",
    ],
    ids=["retriever", "core", "catalog"],
)
def test_importing_loads_neither_torch_nor_faiss(code):
    report = f"{code}\nimport sys\nprint([name for name in {HEAVY + SERVERS!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert done.stderr == ""


def test_core_loads_nothing_but_numpy_platformdirs_and_the_standard_library():
    modules = sorted(path.stem for path in Path(words.__file__).parent.glob("[!_]*.py"))
    assert len(modules) > 9
    code = (
        "import importlib, sys\n"
        f"for name in {modules!r}:\n"
        "    importlib.import_module('retriever.core.' + name)\n"
        "mine = {name.partition('.')[0] for name in sys.modules if getattr(sys.modules[name], '__file__', None)\n"
        "        and 'site-packages' in sys.modules[name].__file__}\n"
        "print(sorted(name for name in mine if not name.startswith(('numpy', 'platformdirs', '_', 'sitecustom'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


NEVER = {*HEAVY, *SERVERS, "sklearn", "scipy", "pandas"} - {"faiss"}


def loaded_by(code):
    """Names of those modules that a fresh process has after some lines."""
    report = f"{code}\nimport sys\nprint(sorted({NEVER!r} & set(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    return done.stderr.strip().splitlines()[-1]


def test_a_sentence_encoder_reads_a_query_without_a_model_library(tiny):
    name = f"st:{tiny('sentence')}"
    code = f"from retriever import load_encoder; print(load_encoder({name!r}).encode_queries(['the toy broke']).shape)"
    assert loaded_by(code) == "[]"


def test_a_search_of_what_a_sentence_encoder_filled_loads_no_model_library(tiny, tmp_path):
    with open_index(tmp_path / "index", encoder=load_encoder(f"st:{tiny('sentence')}")) as index:
        index.add(Document(str(n), f"{word} number {n}") for n, word in enumerate(["kettle", "lamp", "toy"] * 20))
    argv = ["search", "the toy broke", "--index", str(tmp_path / "index")]
    assert loaded_by(f"from retriever.cli.main import main; assert main({argv!r}) == 0") == "[]"
