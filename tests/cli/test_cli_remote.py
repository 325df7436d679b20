"""Encoders behind an endpoint, from the command line: permission, limits, and what is said where one is away."""

import pytest
from model_server import Refusal
from replay_server import forget_endpoints

from retriever.encoders import catalog
from retriever.encoders.answers import places
from retriever.encoders.remote.served import PROBES
from retriever.encoders.self_check import TRIPLES

EXAMPLES = [text for triple in TRIPLES for text in (triple.anchor, triple.near, triple.far)]
load = catalog.load_encoder


@pytest.fixture
def model(embedding_model):
    return embedding_model


@pytest.fixture
def remote(run, fake, reviews, model, monkeypatch, write):
    """Run commands, each as a process of its own, on files of the five reviews; other encoders are the keyword one."""
    keywords = catalog.load_encoder
    monkeypatch.setattr(
        catalog,
        "load_encoder",
        lambda name="default", **options: load(name) if name.startswith("http") else keywords(name, **options),
    )
    write((reviews / "corpus.jsonl").read_bytes())

    def command(*argv):
        forget_endpoints()
        return run(*argv)

    return command


@pytest.fixture
def elsewhere(model, monkeypatch):
    monkeypatch.setattr(places, "is_loopback", lambda host: False)
    return model


def test_an_index_takes_an_endpoint_as_its_base_encoder(remote, model):
    ran = remote("index", "corpus.jsonl", "--base", model.name)
    assert ran.code == 0, ran.err
    assert "5 added" in ran.out
    assert f"{model.name}: no prompts are known" in ran.err
    assert "Sent 5 texts to the encoder's endpoint: about" in ran.err
    assert f"base encoder {model.name}, fingerprint " in remote("status").out
    model.requests.clear()
    ran = remote("search", "kettle", "-k", "1")
    assert "kettle" in ran.out
    assert sorted(model.texts) == sorted([*PROBES, "kettle"])
    assert "Sent 9 texts to the encoder's endpoint" in ran.err
    model.requests.clear()
    assert "kettle" in remote("search", "kettle", "--mode", "lexical").out
    assert remote("index", "corpus.jsonl").out.startswith("Documents: 5 unchanged")
    assert model.requests == []


def test_a_model_that_ranks_nothing_is_named_when_an_index_takes_it_and_a_good_one_is_not(remote, model):
    ran = remote("index", "corpus.jsonl", "--base", f"{model.name},query=ask: ,document=text: ")
    assert f"ranks 3 of {len(TRIPLES)} plain English examples wrongly: its prompts (http:URL#MODEL,query=" in ran.err
    asked = [f"ask: {triple.anchor}" for triple in TRIPLES]
    told = [f"text: {text}" for triple in TRIPLES for text in (triple.near, triple.far)]
    assert {*asked, *told} <= set(model.texts)
    model.requests.clear()
    remote("search", "kettle")
    assert not {*asked, *told} & set(model.texts)
    meaning = {text: place for place, triple in enumerate(TRIPLES) for text in (triple.anchor, triple.near)}
    model.vector = lambda text: [float(place == meaning.get(text.strip(), 3)) for place in range(4)]
    ran = remote("models", "show", model.name)
    assert "wrongly" not in ran.err and model.name in ran.out
    assert set(EXAMPLES) <= set(model.texts)


def test_a_host_is_allowed_by_yes_and_by_nothing_else(remote, elsewhere, tmp_path, monkeypatch):
    model = elsewhere
    asked = ("index", "corpus.jsonl", "--base", model.name)
    assert remote(*asked).failed_with(1, "unencrypted connection", "--allow-http")
    assert remote(*asked, "--allow-http").failed_with(2, f"would be sent to {model.host}", "--yes")
    assert (model.requests, model.asked_about) == ([], [])
    assert not (tmp_path / "indexes").exists()
    assert remote(*asked, "--allow-http", "--yes").code == 0
    assert remote("search", "kettle", "-k", "1", "--allow-http").code == 0
    (tmp_path / "indexes/default").rename(tmp_path / "indexes/taken")
    model.requests.clear()
    ran = remote("search", "kettle", "--index", "indexes/taken", "--allow-http")
    assert "r1" in ran.out
    assert "Searched by words alone: Texts of this index would be sent to" in ran.err
    assert model.requests == []
    monkeypatch.setenv(places.ALLOW_HTTP, "1")
    assert remote("verify", "--deep", "--index", "indexes/taken").failed_with(2, "would be sent to", "--yes")
    assert model.requests == []
    assert remote("search", "kettle", "--index", "indexes/taken", "--allow-http", "--yes").err.count("alone") == 0
    assert model.requests


def test_another_endpoint_is_asked_for_like_the_first(remote, elsewhere, fake):
    assert remote("index", "corpus.jsonl").code == 0
    asked = ("reembed", "--base", elsewhere.name, "--allow-http")
    assert remote(*asked).failed_with(2, "would be sent to")
    assert elsewhere.requests == []
    ran = remote(*asked, "--yes", "--json").document
    assert (ran["plain"], ran["embedded"]) == (elsewhere.name, 5)


def test_an_endpoint_that_is_away_ends_indexing_with_the_next_step_and_leaves_searches_the_words(remote, model, write):
    assert remote("index", "corpus.jsonl", "--base", model.name).code == 0
    model.always = lambda reply, _: Refusal(401, "who are you")
    ran = remote("search", "kettle", "-k", "1")
    assert "r1" in ran.out
    assert "Searched by words alone: " in ran.err and "401" in ran.err
    document = remote("search", "kettle", "-k", "1", "--json").document
    assert "401" in document["reader_fault"] and document["mode"] == "lexical"
    assert remote("search", "kettle", "--mode", "dense").failed_with(
        1, model.host, "(tiny) refused access", "OPENAI_API_KEY"
    )
    more = write([{"id": "n1", "text": "A new kettle."}], "more.jsonl")
    ran = remote("index", more)
    assert ran.failed_with(1, model.host, "tiny")
    model.always = None
    assert "1 added" in remote("index", more).out


def test_a_limit_of_a_run_is_wrong_usage_that_keeps_what_is_stored(remote, model, write):
    rows = [{"id": f"n{row}", "text": f"Toy number {row}."} for row in range(100)]
    corpus = write(rows, "rows.jsonl")
    ran = remote("index", corpus, "--base", model.name, "--max-texts", "40")
    assert ran.failed_with(2, "The limit of 40 texts of a reading is reached", "--max-texts")
    stored = len(model.answered) - len(PROBES) - len(EXAMPLES)
    assert 0 < stored <= 40
    ran = remote("index", corpus)
    assert f"{100 - stored} added, {stored} unchanged" in ran.out
    paid = [text for text in model.answered if text not in {*PROBES, *EXAMPLES}]
    assert len(set(paid)) == len(paid) == 100


def test_texts_are_embedded_by_an_endpoint_without_an_index(remote, model, write):
    write(b"a kettle\na lamp\n", "texts.txt")
    ran = remote("embed", "texts.txt", "--encoder", model.name, "-o", "vectors.npy", "--json")
    assert ran.document["texts"] == 2
    assert set(model.texts) == {*PROBES, "a kettle", "a lamp"}
