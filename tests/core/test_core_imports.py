import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import retriever
from retriever import load_encoder, open_index
from retriever.core import errors, words
from retriever.core.environment import own_version
from retriever.core.errors import UsageError
from retriever.core.types import Document

HEAVY = "torch", "transformers", "faiss", "sentence_transformers", "peft", "pyarrow", "pymilvus"
SERVERS = "fastapi", "starlette", "uvicorn", "mcp", "prometheus_client", "langchain_core", "llama_index"


@pytest.mark.parametrize(
    "code",
    [
        "import retriever; retriever.load_encoder; retriever.open_index",
        "from retriever import *; Document('a', 'b'); SearchRequest('x'); __version__; Index; read_documents",
        "import retriever.core.similarity, retriever.core.prompts, retriever.core.protocols, retriever.core.paths",
        "from retriever.encoders.catalog import CATALOG, resolve_name; resolve_name('default')",
    ],
    ids=["retriever", "names", "core", "catalog"],
)
def test_importing_loads_neither_torch_nor_faiss(code):
    unwanted = (*HEAVY, *SERVERS, "pydantic", "pandas")
    report = f"{code}\nimport sys\nprint([name for name in {unwanted!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert done.stderr == ""


def test_the_package_names_what_callers_need_and_nothing_that_is_not_there():
    assert set(retriever.__all__) <= set(dir(retriever))
    assert retriever.Document is Document and retriever.__version__ == own_version()
    public = {name for name, kind in vars(errors).items() if isinstance(kind, type) and name.endswith("Error")}
    # A damaged checkpoint is an EncoderError, a server that is full a BusyError.
    assert public - {"CheckpointError", "OverloadedError"} <= set(retriever.__all__)
    assert all(
        issubclass(getattr(retriever, name), retriever.RetrieverError) for name in public & set(retriever.__all__)
    )
    with pytest.raises(AttributeError, match="module 'retriever' has no attribute 'Documents'"):
        retriever.Documents  # noqa: B018


def test_editors_are_shown_the_options_of_a_search():
    shown = inspect.signature(retriever.Index.search)
    assert list(shown.parameters)[:4] == ["self", "query", "instruction", "k"]
    assert (shown.parameters["k"].annotation, shown.parameters["k"].default) == (int, 10)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda index: index.search(5), "query is 5, of type int. Give a string or None."),
        (lambda index: index.search("lid", k="3"), "k is '3', of type str. Give a whole number."),
        (lambda index: index.search("lid", k=True), "k is True, of type bool. Give a whole number."),
        (lambda index: index.search("lid", where=["a"]), "where is ['a'], of type list. Give a string or None."),
        (lambda index: index.search("lid", mode=1), "mode is 1, of type int. Give 'auto' or"),
        (
            lambda index: index.search_many(["lid"]),
            "requests is ['lid'], of type list. Give a list, each item a Search",
        ),
        (
            lambda index: index.cluster("Why?", by="stars"),
            "by is 'stars', of type str. Give a list, each",
        ),
        (lambda index: index.cluster("Why?", into="refund"), "into is 'refund', of type str. Give a list, each item a"),
        (lambda index: index.cluster("Why?", k=2.5), "k is 2.5, of type float. Give a whole number or None."),
        (lambda index: index.delete("r-1"), "ids is 'r-1', of type str. Give a list, each item a string."),
        (lambda index: index.get("r-1"), "ids is 'r-1', of type str."),
        (lambda index: index.upkeep.complete("Why?"), "instructions is 'Why?', of type str."),
        (lambda index: index.clusterings.each("Why?"), "instructions is 'Why?', of type str."),
        (lambda index: open_index(5), "path is 5, of type int. Give a path."),
        (lambda index: open_index("a", max_texts="5"), "max_texts is '5', of type str. Give a whole number or None."),
        (lambda index: load_encoder(5), "name_or_path is 5, of type int. Give a string or a path."),
        (lambda index: load_encoder("minilm", steps="2"), "steps is '2', of type str. Give a whole number or None."),
    ],
)
def test_an_argument_of_another_type_is_an_error_that_names_it(tmp_path, call, said):
    with open_index(tmp_path / "index") as index, pytest.raises(UsageError) as raised:
        call(index)
    assert said in str(raised.value)


def test_numbers_of_numpy_are_numbers():
    request = retriever.SearchRequest("lid", k=np.int64(3))
    assert (request.k, type(request.k)) == (3, int)


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
