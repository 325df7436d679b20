"""Clients have hits reranked by what the index knows, and by nothing else."""

import pytest
from api_fakes import READER, TOKENS, WRITER, refused
from index_fakes import PRODUCT
from test_api_mcp import answer, failed

from retriever.encoders.answers import places
from retriever.workspace import Index

LONGEST = "r5"  # "a toy that is dim"


@pytest.fixture
def server(make, serve, encoder, scorer):
    with Index(make(), encoder=encoder) as index:
        index.search("lamp", rerank=scorer.name)
    scorer.requests.clear()
    return serve(tokens=TOKENS)


def search(server, token=READER, **options):
    return server.post("/indexes/reviews/search", {"query": "toy", "k": 2, **options}, token=token)


@pytest.mark.parametrize("instruction", [None, PRODUCT])
def test_a_client_names_a_reranker_that_the_index_knows(server, scorer, instruction):
    found = search(server, rerank=scorer.name, instruction=instruction).json()
    assert (found["reranked_by"], found["rerank_fault"]) == (scorer.name, None)
    assert (len(found["hits"]), found["hits"][0]["id"], found["hits"][0]["rerank_score"]) == (2, LONGEST, 17)
    again = search(server, rerank=scorer.name, instruction=instruction, stream=True)
    assert f'"reranked_by":"{scorer.name}"' in again.text
    assert len(scorer.requests) == 1
    agents = answer(server, "search", token=READER, query="toy", instruction=instruction or "", rerank=scorer.name)
    assert (agents["reranked_by"], agents["hits"][0]["id"]) == (scorer.name, LONGEST)
    assert len(scorer.requests) == 1
    assert search(server).json()["reranked_by"] is None


@pytest.mark.parametrize("named", ["http:http://127.0.0.1:9/v1#m", "http:https://collector.example/v1#m", "st:/etc"])
def test_no_client_can_name_an_address_or_a_folder(server, scorer, named):
    says = (f"reviews has no reranker {named!r}", scorer.name)
    for token in (READER, WRITER):
        assert refused(search(server, token=token, rerank=named), 400, "invalid_request", *says)
    body = {"query": "toy", "instructions": [PRODUCT, "What mood?"], "rerank": named}
    assert refused(server.post("/indexes/reviews/compare", body, token=READER), 400, "invalid_request", *says)
    assert failed(server, "search", *says, token=READER, query="toy", rerank=named)
    assert refused(search(server, rerank="bge"), 400, "invalid_request", "no name of a reranker")


def test_a_reranker_that_fails_is_told_in_words_for_clients(server, scorer, monkeypatch, caplog):
    scorer.dies = True
    found = search(server, rerank=scorer.name).json()
    assert found["reranked_by"] is None
    assert [hit["id"] for hit in found["hits"]] == [hit["id"] for hit in search(server).json()["hits"]]
    assert "127.0.0.1" not in found["rerank_fault"]
    assert "reader" not in found["rerank_fault"]
    assert "127.0.0.1" in caplog.text
    monkeypatch.setattr(places, "is_loopback", lambda host: False)
    monkeypatch.setenv("RETRIEVER_ALLOW_HTTP", "1")
    refusal = search(server, query="dim", rerank=scorer.name).json()["rerank_fault"]
    assert "would be sent to" in refusal
    assert "--yes" not in refusal
