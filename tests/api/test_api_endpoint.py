"""Our own server as the endpoint of an index elsewhere: what it embeds for others is what it embeds itself."""

from dataclasses import replace

import numpy as np
import pytest
from api_fakes import AnyEncoder, running
from embedding_server import EmbeddingModel, Refusal, serving_embeddings
from index_fakes import MOOD, PRODUCT, FakeEncoder
from replay_server import forget_endpoints

from retriever import load_encoder
from retriever.api.settings import ServerSettings
from retriever.core.roles import RolePrompts
from retriever.core.types import Document
from retriever.encoders.answers import places
from retriever.encoders.remote.served import PROBES
from retriever.index import encoding
from retriever.workspace import Index

TEXTS = ["a kettle I love", "a toy I hate", "the kettle leaks", "a lamp", "a toy that is dim"]


@pytest.fixture(autouse=True)
def own_process(monkeypatch, tmp_path):
    monkeypatch.setenv("RETRIEVER_CONFIG", str(tmp_path / "config"))
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    forget_endpoints()


def test_vectors_under_instructions_are_those_of_the_server(serve, encoder):
    remote = load_encoder(f"http:{serve().url}/v1#default")
    assert remote.dim == encoder.dim
    for vectors, instruction in zip(remote.encode_many(TEXTS, ["", PRODUCT, MOOD]), ["", PRODUCT, MOOD], strict=True):
        np.testing.assert_allclose(vectors, encoder.encode(TEXTS, instruction=instruction), atol=1e-6)
    queries = remote.encode_queries(["kettle"], instruction=MOOD)
    np.testing.assert_allclose(queries, encoder.encode_queries(["kettle"], instruction=MOOD), atol=1e-6)


def test_an_index_elsewhere_is_searched_under_an_instruction(serve, encoder, tmp_path):
    name = f"http:{serve().url}/v1#default"
    path = tmp_path / "elsewhere"
    with Index(path, encoder=load_encoder(name), plain=FakeEncoder("own")) as index:
        index.add([Document(f"r{row}", text) for row, text in enumerate(TEXTS, 1)], instructions=[PRODUCT])
        hits = index.search("toy", instruction=PRODUCT, mode="dense", k=2).hits
        assert {hit.document.id for hit in hits} == {"r2", "r5"}
    forget_endpoints()
    encoder.forget()
    with Index(path, plain=FakeEncoder("own")) as index:
        assert {hit.document.id for hit in index.search("toy", instruction=PRODUCT, mode="dense", k=2).hits} == {
            "r2",
            "r5",
        }
    assert sorted(text for call in encoder.calls for text in call.texts) == sorted([*PROBES, "toy"])


def test_a_model_that_reads_queries_in_another_way_is_asked_for_them(serve, encoder):
    class Roles(AnyEncoder):
        def encode_queries(self, queries, *, instruction=""):
            return self.encode([f"kettle {query}" for query in queries], instruction=instruction)

    encoder.__class__ = Roles
    encoder.spec = replace(encoder.spec, prompts=RolePrompts(query="kettle "))
    remote = load_encoder(f"http:{serve().url}/v1#default")
    np.testing.assert_allclose(remote.encode_queries(["toy"]), encoder.encode_queries(["toy"]), atol=1e-6)
    np.testing.assert_allclose(remote.encode(["toy"]), encoder.encode(["toy"]), atol=1e-6)
    assert not np.allclose(remote.encode(["toy"]), remote.encode_queries(["toy"]))


def test_a_server_searches_an_index_of_an_endpoint_and_sends_nothing_before_its_host_is_allowed(indexes, monkeypatch):
    model = EmbeddingModel()
    monkeypatch.setattr(places, "is_loopback", lambda host: False)
    monkeypatch.setenv(places.ALLOW_HTTP, "1")
    with serving_embeddings(model) as url:
        host = url.split("/")[2]
        with Index(indexes / "reviews", encoder=load_encoder(f"http:{url}#tiny"), plain="none") as index:
            index.teaching.allow(host)
            index.add([Document(f"r{row}", text) for row, text in enumerate(TEXTS, 1)])
        (indexes / "reviews").rename(indexes / "moved")
        forget_endpoints()
        model.requests.clear()
        with running(ServerSettings(indexes, port=0, read_on=0), encoding.load_described) as server:
            found = server.post("/indexes/moved/search", {"query": "toy"}).json()
            assert (found["mode"], {hit["id"] for hit in found["hits"]}) == ("lexical", {"r2", "r5"})
            assert found["reader_fault"]
            assert model.requests == []
            with Index(indexes / "moved") as index:
                index.teaching.allow(host)
            found = server.post("/indexes/moved/search", {"query": "a toy that is dim"}).json()
            assert (found["mode"], found["hits"][0]["id"], found["reader_fault"]) == ("hybrid", "r5", None)
            assert sorted(model.texts) == sorted([*PROBES, "a toy that is dim"])


def test_a_client_is_told_that_the_endpoint_of_the_encoder_is_away_and_of_no_reader(indexes):
    model = EmbeddingModel()
    with serving_embeddings(model) as url:
        with Index(indexes / "reviews", encoder=load_encoder(f"http:{url}#tiny"), plain="none") as index:
            index.add([Document(f"r{row}", text) for row, text in enumerate(TEXTS, 1)])
        with running(ServerSettings(indexes, port=0, read_on=0), encoding.load_described) as server:
            model.always = lambda reply, _: Refusal(401, "no")
            fault = server.post("/indexes/reviews/search", {"query": "toy"}).json()["reader_fault"]
            error = server.post("/indexes/reviews/search", {"query": "toy", "mode": "dense"}).json()["error"]
    says = "The endpoint of the index's encoder cannot be asked."
    assert fault.startswith(says) and error["message"] == says
    assert "`mode` lexical" in fault and "`mode` lexical" in error["hint"]
    assert "`reader`" not in fault + error["hint"]
