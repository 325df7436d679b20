"""An embedding model behind an endpoint as an encoder: what is sent, what is taken of replies, what is refused."""

import threading

import numpy as np
import pytest
from embedding_server import DIM, vector
from model_server import Refusal
from replay_server import forget_endpoints

from retriever import load_encoder
from retriever.core.errors import EncoderError, EncoderMismatchError, EndpointError, UsageError
from retriever.encoders.answers import patience
from retriever.encoders.answers.answerer import Waiting
from retriever.encoders.remote import calls
from retriever.encoders.remote.served import CALLS_AT_ONCE, PROBES, TEXTS_A_CALL
from retriever.index.encoding import describe, load_described

KEY = "sk-very-secret-key"
TEXTS = [f"text number {n} of the kettle" for n in range(100)]


@pytest.fixture
def model(embedding_model):
    return embedding_model


@pytest.fixture
def load(model):
    """Load the encoder of a model's name, as a process that has met no endpoint."""

    def load(name="tiny"):
        forget_endpoints()
        return load_encoder(f"http:{model.url}#{name}")

    return load


def expected(texts, before=""):
    rows = np.array([vector(before + text) for text in texts], dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def corpus_texts(model):
    return [text for text in model.texts if text not in PROBES]


def test_texts_come_back_in_their_order_whatever_the_order_of_the_calls(model, load):
    model.then.extend([None, 0.2, 0.1])
    np.testing.assert_allclose(load().encode(TEXTS), expected(TEXTS), atol=1e-6)
    sizes = [len(request["input"]) for request in model.requests]
    assert sizes[0] == len(PROBES)
    assert max(sizes) <= TEXTS_A_CALL and sum(sizes) == len(PROBES) + len(TEXTS)


def test_equal_texts_are_sent_once_and_nothing_is_sent_for_no_text(model, load):
    encoder = load()
    assert len(encoder.encode(["same"] * 5)) == 5
    assert corpus_texts(model) == ["same"]
    before = len(model.requests)
    assert encoder.encode([]).shape == (0, DIM)
    assert encoder.encode_queries([]).shape == (0, DIM)
    assert len(model.requests) == before


def test_loading_sends_nothing_and_the_probes_are_asked_once_a_process(model, load):
    encoder = load()
    assert (model.requests, model.asked_about) == ([], [])
    assert (encoder.dim, len(encoder.fingerprint)) == (DIM, 64)
    for _ in range(2):
        load_encoder(f"http:{model.url}#tiny").encode_queries(["it broke"])
    assert model.texts == [*PROBES, "it broke", "it broke"]


def test_a_call_holds_no_more_characters_than_a_limit(model, load, monkeypatch):
    monkeypatch.setattr(calls, "CHARACTERS_A_CALL", 100)
    load().encode(TEXTS)
    assert all(sum(map(len, request["input"])) <= 100 for request in model.requests[1:])


def test_several_calls_are_in_flight_and_no_more_than_eight(model, load):
    full = threading.Event()

    def wait(reply, request):
        if model.in_flight >= CALLS_AT_ONCE:
            full.set()
        assert len(request["input"]) == len(PROBES) or full.wait(60)
        return reply

    model.always = wait
    load().encode([f"{n} toys" for n in range(TEXTS_A_CALL * 12)])
    assert model.most_in_flight == CALLS_AT_ONCE


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (lambda reply, _: {**reply, "data": reply["data"][1:]}, "sent 2 vectors for 3 texts"),
        (lambda reply, _: {**reply, "data": reply["data"][::-1]}, "sent vectors in another order"),
        (lambda reply, _: with_vector(reply, [float("nan")] * DIM), r"something that is no number \(NaN\)"),
        (lambda reply, _: with_vector(reply, [0.0] * DIM), "a vector of zeros"),
        (lambda reply, _: with_vector(reply, [1.0] * (DIM - 1)), "not equally long"),
        (lambda reply, _: with_vector(reply, "AAAA"), "no lists of numbers"),
        (lambda reply, _: {**reply, "data": [{**row, "embedding": [1.0, 2.0]} for row in reply["data"]]}, "not of 512"),
        (lambda reply, _: {"object": "list"}, "sent no embeddings"),
        (Refusal(401, f"Incorrect API key: {KEY}"), "refused access with status 401"),
        (Refusal(404, "no such model"), "there is no embeddings endpoint"),
    ],
)
def test_a_wrong_reply_is_an_error_that_names_host_and_model(model, load, fault, says):
    encoder = load()
    assert encoder.dim == DIM
    model.then.append(fault)
    with pytest.raises(EndpointError, match=says) as raised:
        encoder.encode(["a", "b", "c"])
    assert model.url.split("/")[2] in str(raised.value) and "tiny" in str(raised.value)
    assert raised.value.hint


def with_vector(reply, embedding):
    return {**reply, "data": [*reply["data"][:-1], {**reply["data"][-1], "embedding": embedding}]}


def test_a_vector_may_lack_its_index(model, load):
    model.always = lambda reply, _: {"data": [{"embedding": row["embedding"]} for row in reply["data"]]}
    np.testing.assert_allclose(load().encode(TEXTS[:3]), expected(TEXTS[:3]), atol=1e-6)


def test_an_endpoint_that_is_busy_is_asked_again_when_it_says(model, load, monkeypatch):
    said = []
    monkeypatch.setattr(Waiting, "on_wait", said.append)
    model.then.extend([None, Refusal(429, "slow down", {"retry-after": "0.05"}), Refusal(503, "starting")])
    np.testing.assert_allclose(load().encode(TEXTS[:3]), expected(TEXTS[:3]), atol=1e-6)
    assert len(model.requests) == 4
    assert any("is asked again" in sentence for sentence in said)


def test_an_endpoint_that_is_late_or_not_there_is_named_with_the_next_step(model, load, monkeypatch):
    encoder = load()
    assert encoder.dim == DIM
    monkeypatch.setattr(patience, "SECONDS", 0.2)
    model.then.append(2.0)
    with pytest.raises(EndpointError, match="took longer than 0 s") as raised:
        encoder.encode(["a"])
    assert "RETRIEVER_CALL_SECONDS" in raised.value.hint
    with pytest.raises(EndpointError, match="cannot be reached") as raised:
        load_encoder("http:http://127.0.0.1:9/v1#tiny").encode(["a"])
    assert "the same command goes on from there" in raised.value.hint


def test_a_server_that_takes_fewer_texts_gets_fewer(model, load):
    model.most_texts = 8
    encoder = load()
    np.testing.assert_allclose(encoder.encode(TEXTS), expected(TEXTS), atol=1e-6)
    assert sorted(model.answered) == sorted([*PROBES, *TEXTS])
    model.requests.clear()
    encoder.encode(TEXTS)
    assert {len(request["input"]) for request in model.requests} == {8, len(TEXTS) % 8}


def test_a_text_that_is_too_long_for_the_model_is_read_to_where_it_goes(model, load):
    model.most_characters = 400
    long = "kettle " * 200
    encoder = load()
    np.testing.assert_allclose(encoder.encode([long, "short"]), expected([long[:350], "short"]), atol=1e-6)


def test_a_call_that_is_refused_at_any_size_ends(model, load):
    encoder = load()
    assert encoder.dim == DIM
    model.requests.clear()
    model.always = lambda reply, request: Refusal(400, "no")
    with pytest.raises(EndpointError, match="failed with status 400"):
        encoder.encode(TEXTS[:8])
    assert [len(request["input"]) for request in model.requests] == [8, 4, 2, 1]


def test_dimensions_are_asked_for_and_the_server_has_to_give_them(model, load):
    encoder = load("tiny,dim=8")
    assert encoder.dim == 8 and encoder.encode(["a kettle"]).shape == (1, 8)
    assert [request["dimensions"] for request in model.requests] == [8, 8]
    model.always = lambda reply, _: {"data": [{"embedding": vector("x")} for _ in reply["data"]]}
    with pytest.raises(EndpointError, match="vectors of 512 numbers, not of 8"):
        load("tiny,dim=8").encode(["a"])


@pytest.mark.parametrize(
    ("name", "query", "document"),
    [
        ("intfloat/multilingual-e5-small", "query: ", "passage: "),
        ("BAAI/bge-small-en-v1.5", "Represent this sentence for searching relevant passages: ", ""),
        ("text-embedding-nomic-embed-text-v1.5", "search_query: ", "search_document: "),
        ("embeddinggemma:300m", "task: search result | query: ", "title: none | text: "),
        ("snowflake-arctic-embed2", "query: ", ""),
        ("mxbai-embed-large:335m", "Represent this sentence for searching relevant passages: ", ""),
        ("bge-m3", "", ""),
        ("tiny,query=find: ,document=text: ", "find: ", "text: "),
    ],
)
def test_families_are_known_by_name_and_get_their_prompts_by_role(model, load, name, query, document):
    encoder = load(name)
    encoder.encode_queries(["it broke"])
    encoder.encode(["a kettle"])
    assert model.texts == [*PROBES, f"{query}it broke", f"{document}a kettle"]


def test_a_model_that_follows_instructions_gets_them_in_queries_alone(model, load):
    encoder = load("qwen3-embedding:0.6b")
    assert encoder.spec.prompts.instructed
    encoder.encode_queries(["it broke"], instruction="Find causes.")
    encoder.encode_queries(["it broke"])
    encoder.encode(["a kettle"])
    default = encoder.spec.default_instruction
    assert corpus_texts(model) == [
        "Instruct: Find causes.\nQuery:it broke",
        f"Instruct: {default}\nQuery:it broke",
        "a kettle",
    ]


def test_a_server_of_ours_gets_the_instruction_beside_the_texts(model, load):
    model.own = True
    encoder = load("multilingual-e5-small")
    encoder.encode(["a kettle"], instruction="Which product?")
    encoder.encode_queries(["it broke"])
    assert [request.get("instruction") for request in model.requests] == [None, "Which product?", None]
    assert [request.get("input_type") for request in model.requests] == [None, None, "query"]
    assert corpus_texts(model) == ["a kettle", "it broke"]
    assert model.asked_about == ["/v1/models/multilingual-e5-small"]


def test_the_key_goes_to_its_own_address_alone_and_is_shown_nowhere(model, load, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    load().encode(["a"])
    assert not any(KEY in str(headers) for headers in model.headers)
    monkeypatch.setenv("OPENAI_BASE_URL", model.url)
    encoder = load()
    encoder.encode(["a"])
    assert model.headers[-1]["Authorization"] == f"Bearer {KEY}"
    model.then.append(Refusal(403, f"no access with {KEY}"))
    with pytest.raises(EndpointError) as raised:
        encoder.encode(["b"])
    shown = f"{raised.value}{raised.value!r}{raised.value.__cause__!r}{vars(encoder)}{encoder.spec}{describe(encoder)}"
    assert KEY not in shown and "***" in str(raised.value)


def test_an_encoder_that_was_described_asks_nothing_before_its_first_text_and_then_keeps_to_the_probes(model, load):
    made = load()
    description = describe(made)
    model.requests.clear()
    forget_endpoints()
    opened = load_described(description)
    assert (opened.spec, model.requests) == (made.spec, [])
    model.vector = lambda text: [number + 0.001 for number in vector(text)]
    assert opened.encode(["a kettle"]).shape == (1, DIM)
    assert sorted(model.texts) == sorted([*PROBES, "a kettle"])
    forget_endpoints()
    model.vector = lambda text: vector(text)[::-1]
    with pytest.raises(EncoderMismatchError, match=r"has a cosine of -?0\.\d+ with the one that the index") as raised:
        load_described(description).encode_queries(["a kettle"])
    assert "reembed" in raised.value.hint
    forget_endpoints()
    model.vector = lambda text: vector(text, 256)
    with pytest.raises(EncoderMismatchError, match="256 numbers now, and had 512"):
        load_described(description).encode_queries(["a kettle"])


def test_a_fingerprint_is_of_model_prompts_and_vectors(model, load):
    one = load().fingerprint
    model.vector = lambda text: [number + 1e-7 for number in vector(text)]
    assert load().fingerprint == one
    assert load("tiny,query=q: ").fingerprint != one
    model.vector = lambda text: vector(text)[::-1]
    assert load().fingerprint != one


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("http:http://models.example/v1#tiny", EncoderError, "unencrypted"),
        ("http:https://user:pass@models.example/v1#tiny", EncoderError, "holds more than host and path"),
        ("http:https://models.example/v1", EncoderError, "names no model"),
        ("http:tiny", EncoderError, "No endpoint is named"),
        ("http:https://models.example/v1#tiny,dim=many", UsageError, "no number of dimensions"),
    ],
)
def test_a_name_that_no_endpoint_can_have_is_refused(name, error, says, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(error, match=says) as raised:
        load_encoder(name)
    assert "pass@" not in str(raised.value)


def test_an_address_alone_names_an_encoder(model, load):
    assert load_encoder(f"{model.url}#tiny").spec.name == f"http:{model.url}#tiny"


def test_who_is_told_can_end_the_work_while_a_call_is_waited_for(model, load):
    encoder, release = load(), threading.Event()
    assert encoder.dim == DIM

    def wait(reply, _):
        release.wait(60)
        return reply

    def stop(tokens):
        raise KeyboardInterrupt

    model.then.append(wait)
    with pytest.raises(KeyboardInterrupt):
        encoder.encode_views(["a"], [""], on_tokens=stop)
    assert not release.is_set()
    release.set()
