"""Every script of examples/clients runs, over indexes and a model that a person can compute."""

import runpy
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "examples" / "clients"
sys.path[:0] = [str(Path(__file__).parents[1] / part) for part in ("api", "index")]

from api_fakes import AnyEncoder, running  # noqa: E402
from index_fakes import PRODUCT  # noqa: E402

from retriever.api.settings import ServerSettings  # noqa: E402
from retriever.core.types import Document  # noqa: E402
from retriever.workspace import Index  # noqa: E402

TEXTS = ["a kettle that leaks", "a toy I love", "a lamp that is loud", "the kettle is slow", "a toy, torn"]


@pytest.fixture
def indexes(tmp_path, monkeypatch):
    """Give a folder with one index, which every encoder of this process reads."""
    from retriever.encoders import catalog

    monkeypatch.setattr(catalog, "load_encoder", lambda *_, **__: AnyEncoder())
    with Index(tmp_path / "demo", encoder=AnyEncoder()) as index:
        documents = [Document(f"r{row}", text, {"stars": row}) for row, text in enumerate(TEXTS, 1)]
        index.add(documents, instructions=[PRODUCT])
    return tmp_path


@pytest.fixture
def url(indexes):
    with running(ServerSettings(indexes, port=0, read_on=0), lambda description: AnyEncoder()) as server:
        yield server.url


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a script by its name and return what it printed, by lines."""

    def script(name, *argv):
        monkeypatch.setattr(sys, "argv", [name, *map(str, argv)])
        runpy.run_path(str(SCRIPTS / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return script


def test_every_script_is_run_here():
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {path.stem for path in SCRIPTS.glob("*.py")} <= tested


def test_openai_client(run, url):
    pytest.importorskip("openai")
    plain, asked = run("openai_client", "--url", f"{url}/v1")
    assert plain == "no instruction: 0.750, 1.000"
    assert asked.startswith("What kind of product is this review about?: ")


def test_httpx_client(run, url):
    lines = run("httpx_client", "--url", url, "--query", "kettle")
    assert [line.partition(":")[0] for line in lines[:2]] == ["first", "settled"]
    assert sum(int(line.split()[0]) for line in lines[2:]) == 5


def test_langchain_retriever(run, indexes):
    pytest.importorskip("langchain_core")
    lines = run("langchain_retriever", "--index", indexes / "demo", "--query", "it leaks")
    assert "Human: Reviews:" in lines[0]
    assert "[r1] a kettle that leaks" in lines
    assert lines[-1].startswith("Without the instruction the first is r")


def test_llama_index_retriever(run, indexes):
    pytest.importorskip("llama_index.core")
    lines = run("llama_index_retriever", "--index", indexes / "demo", "--query", "it leaks", "--where", "stars <= 3")
    assert lines[0] == "1.000  r1  [leaks]  a kettle that leaks"


def test_bertopic_topics(run, tmp_path, indexes, monkeypatch):
    for unused in ("umap", "hdbscan", "numba"):  # the script has others in their places, and they take long to load
        if unused not in sys.modules:
            monkeypatch.setitem(sys.modules, unused, None)
    pytest.importorskip("bertopic")
    import json

    words = ["kettle", "toy", "lamp"]
    rows = [json.dumps({"id": str(n), "text": f"a {words[n % 3]} bought on day {n}"}) for n in range(60)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(rows))
    lines = run("bertopic_topics", "--corpus", tmp_path / "corpus.jsonl", "--topics", 3)
    assert [line.split()[0] for line in lines] == ["20", "20", "20"]
    assert {word for line in lines for word in words if word in line} == set(words)


def test_mcp_client(run, indexes, monkeypatch):
    pytest.importorskip("mcp")
    monkeypatch.setenv("PYTHONPATH", str(SCRIPTS.parents[1]))
    lines = run("mcp_client", "--indexes", indexes, "--query", "leaks")
    assert lines[0] == "Tools: list_indexes, describe, search, fetch, count, cluster, compare, diagnose"
    assert lines[1:] == ["Indexes: demo", "r1  a kettle that leaks"]
