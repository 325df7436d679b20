import pytest
from api_fakes import AnyEncoder, running
from index_fakes import PRODUCT

from retriever.api.settings import ServerLimits, ServerSettings, Tokens
from retriever.core.types import Document
from retriever.serving import pools
from retriever.workspace import Index

TEXTS = ["a kettle I love", "a toy I hate", "the kettle leaks", "a lamp", "a toy that is dim"]


@pytest.fixture
def encoder():
    return AnyEncoder()


@pytest.fixture
def plain():
    return AnyEncoder("plain")


@pytest.fixture
def indexes(tmp_path):
    """Give an empty folder of indexes."""
    folder = tmp_path / "indexes"
    folder.mkdir()
    return folder


@pytest.fixture
def make(indexes, encoder):
    """Make an index of the texts and return its folder."""

    def index(name="reviews", texts=TEXTS):
        with Index(indexes / name, encoder=encoder) as made:
            rows = enumerate(texts, 1)
            documents = [Document(f"r{row}", text, {"stars": row % 5 + 1, "half": row % 2}) for row, text in rows]
            made.add(documents, instructions=[PRODUCT])
        encoder.forget()
        return indexes / name

    return index


@pytest.fixture
def serve(indexes, encoder, plain, monkeypatch):
    """Run servers of the folder until the test ends: limits and tokens are given by name."""
    reader = encoder
    monkeypatch.setattr(pools, "load_encoder", lambda *_: reader)
    monkeypatch.setattr(pools, "load_base", lambda: plain)
    monkeypatch.setattr(pools, "default_identity", lambda: "any")
    open_servers = []

    def begin(*, tokens=None, instructions=None, index=None, encoder="default", read_on=0, **limits):
        settings = ServerSettings(
            index or indexes,
            port=0,
            encoder=encoder,
            tokens=tokens or Tokens(),
            instructions=instructions or {},
            limits=ServerLimits(**{"grace_seconds": 1, **limits}),
            read_on=read_on,
        )
        by_print = {plain.fingerprint: plain}
        open_servers.append(running(settings, lambda described: by_print.get(described["fingerprint"], reader)))
        return open_servers[-1].__enter__()

    yield begin
    reader.go.set()
    for one in open_servers:
        one.__exit__(None, None, None)
