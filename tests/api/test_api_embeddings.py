import base64
import json
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import numpy as np
import pytest
from api_fakes import WAIT, refused
from index_fakes import FAULT, MOOD, PRODUCT

from retriever.core.errors import UsageError

TEXTS = ["a kettle, so calm love", "a lamp I hate"]


def vectors(response):
    assert response.status_code == 200, response.text
    return np.array([one["embedding"] for one in response.json()["data"]], dtype=np.float32)


def embed(server, input, **fields):
    return server.post("/v1/embeddings", {"input": input, **fields})


def test_texts_are_embedded_under_their_instruction(serve, encoder):
    server = serve()
    found = embed(server, TEXTS, model="default", instruction=MOOD)
    np.testing.assert_array_equal(vectors(found), encoder.vectors(TEXTS, MOOD))
    document = found.json()
    assert (document["object"], document["model"]) == ("list", "default")
    assert [one["index"] for one in document["data"]] == [0, 1]
    assert document["usage"]["prompt_tokens"] == document["usage"]["total_tokens"] == sum(encoder.count_tokens(TEXTS))
    np.testing.assert_array_equal(vectors(embed(server, TEXTS[0])), encoder.vectors(TEXTS[:1]))
    np.testing.assert_array_equal(vectors(embed(server, TEXTS, prompt=MOOD)), encoder.vectors(TEXTS, MOOD))
    assert not np.array_equal(encoder.vectors(TEXTS, MOOD), encoder.vectors(TEXTS))


@pytest.mark.parametrize(
    "body",
    [
        {"model": "default", "input": TEXTS, "encoding_format": None},
        {"model": None, "input": TEXTS[0], "instruction": None, "prompt": None, "dimensions": None, "user": None},
    ],
    ids=["one null", "every null"],
)
def test_a_body_with_null_for_what_is_left_out_is_answered_with_numbers(serve, encoder, body):
    found = vectors(serve().post("/v1/embeddings", body))
    np.testing.assert_array_equal(found, encoder.vectors(TEXTS[: len(found)]))


def test_base64_holds_the_same_numbers(serve, encoder):
    rows = embed(serve(), TEXTS, encoding_format="base64", instruction=MOOD).json()["data"]
    found = [np.frombuffer(base64.b64decode(one["embedding"]), dtype="<f4") for one in rows]
    np.testing.assert_array_equal(np.array(found), encoder.vectors(TEXTS, MOOD))


def test_a_model_name_carries_a_saved_instruction(serve, encoder):
    server = serve(instructions={"mood": MOOD, "fault": FAULT})
    np.testing.assert_array_equal(vectors(embed(server, TEXTS, model="default@mood")), encoder.vectors(TEXTS, MOOD))
    assert refused(
        embed(server, TEXTS, model="default@mood", instruction=PRODUCT), 400, "invalid_request", "'default@mood'"
    )
    assert refused(embed(server, TEXTS, model="default@other"), 404, "not_found", "default@other", "default@fault")
    assert refused(embed(server, TEXTS, model="text-embedding-3-small"), 404, "not_found", "Known: default")


def test_another_encoder_is_served_by_its_own_name_and_meant_where_none_is_named(serve, encoder):
    name = "build/my@model-2"
    server = serve(encoder=name, instructions={"mood": MOOD})
    answer = embed(server, TEXTS)
    np.testing.assert_array_equal(vectors(answer), encoder.vectors(TEXTS))
    assert answer.json()["model"] == name
    np.testing.assert_array_equal(vectors(embed(server, TEXTS, model=f"{name}@mood")), encoder.vectors(TEXTS, MOOD))
    found = server.get(f"/v1/models/{quote(name, safe='')}").json()
    assert (found["id"], found["instruction"]) == (name, None)
    assert refused(embed(server, TEXTS, model="default"), 404, "not_found", f"Known: {name}, {name}@mood, minilm")


def test_the_plain_reader_alone_takes_no_saved_instructions(serve, plain):
    server = serve(encoder="minilm")
    assert [one["id"] for one in server.get("/v1/models").json()["data"]] == ["minilm"]
    assert refused(embed(server, TEXTS, instruction=MOOD), 400, "invalid_request", "takes no instruction")
    with pytest.raises(UsageError, match="takes no instruction"):
        serve(encoder="minilm", instructions={"mood": MOOD})


SENSELESS = [
    ({"input": [1, 2, 3]}, ["token ids", "check_embedding_ctx_length=False"]),
    ({"input": [[1, 2], [3]]}, ["token ids"]),
    ({"input": "x", "truncate": True}, ["Unknown field 'truncate'"]),
    ({"input": "x", "task": 1, "inputs": 2}, ["Unknown fields 'task', 'inputs'"]),
    ({}, ["'input' is missing"]),
    ({"input": []}, ["input is empty"]),
    ({"input": ["x", "  "]}, ["input[1] is an empty text"]),
    ({"input": [{"text": "x"}]}, ["input"]),
    ({"input": "x", "instruction": "a", "prompt": "b"}, ["the same field"]),
    ({"input": "x", "encoding_format": "int8"}, ["encoding_format", "'float' or 'base64'"]),
    ({"input": "x", "dimensions": 8}, ["dimensions is 8", "have 16"]),
    ({"input": "x", "dimensions": "16"}, ["dimensions", "integer"]),
    ({"input": "x\ud800"}, ["UTF-8"]),
    ({"input": ["x"] * 7}, ["holds 7 texts", "5 at most"]),
    ({"input": "x" * 101}, ["101 characters", "100"]),
    ({"input": "x", "instruction": "y" * 51}, ["instruction has 51 characters", "50"]),
]
NO_OBJECTS = [
    b'{"input": "\xff"}',
    b"{",
    b"",
    b"[]",
    b"null",
    b'{"input": ' + b"[" * 9000,
    b'{"k": ' + b"1" * 9000 + b"}",
]


def test_what_makes_no_sense_is_said(serve):
    server = serve(texts=5, text_characters=100, instruction_characters=50)
    bodies = [(json.dumps(fields).encode(), parts) for fields, parts in SENSELESS]  # httpx writes no lone surrogate
    for body, parts in [*bodies, *((body, ()) for body in NO_OBJECTS)]:
        response = server.http.post("/v1/embeddings", content=body, headers={"Content-Type": "application/json"})
        assert refused(response, 400, "invalid_request", *parts)
    assert server.lives()


def test_clients_that_ask_at_once_are_read_together(serve, encoder):
    server = serve()
    texts = [f"{word} {n}" for n, word in enumerate("kettle toy lamp knife drone cable".split() * 10)]
    embed(server, "loaded")
    encoder.forget()
    encoder.go.clear()
    encoder.began.clear()
    with ThreadPoolExecutor(len(texts) + 1) as threads:
        first = threads.submit(embed, server, "first")
        assert encoder.began.wait(WAIT)
        asked = [threads.submit(embed, server, text, instruction=MOOD) for text in texts]
        while server.service.queue.waiting <= len(texts):
            time.sleep(0.01)
        encoder.go.set()
        assert first.result().status_code == 200
        found = np.concatenate([vectors(one.result()) for one in asked])
    np.testing.assert_array_equal(found, encoder.vectors(texts, MOOD))
    assert [len(call.texts) for call in encoder.calls] == [1, len(texts)]
    counted = server.get("/metrics").text
    assert "retriever_model_pass_requests_total 62.0" in counted
    assert 'retriever_requests_total{method="POST",route="/v1/embeddings",status="200"} 62.0' in counted


def test_beyond_the_queue_requests_are_told_to_come_again(serve, encoder):
    server = serve(waiting_texts=3)
    embed(server, "loaded")
    encoder.go.clear()
    encoder.began.clear()
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(embed, server, ["a", "b", "c"])
        assert encoder.began.wait(WAIT)
        busy = embed(server, "d")
        assert refused(busy, 429, "busy", "3 texts wait")
        assert busy.headers["Retry-After"] == "1"
        assert server.lives()
        encoder.go.set()
        assert first.result().status_code == 200
    assert embed(server, "d").status_code == 200


def test_an_answer_that_does_not_come_is_given_up(serve, encoder):
    server = serve(seconds=1.5)
    embed(server, "loaded")
    encoder.go.clear()
    assert refused(embed(server, "a"), 504, "took_too_long", "1.5 seconds")
    encoder.go.set()
    assert embed(server, "a").status_code == 200


def test_a_model_that_cannot_be_loaded_is_said_and_tried_anew(serve, encoder, monkeypatch):
    from retriever.core.errors import EncoderError
    from retriever.serving import pools

    server = serve()

    def missing(*_):
        raise EncoderError("The backbone is missing.", hint="pip install it.")

    with monkeypatch.context() as patch:
        patch.setattr(pools, "load_encoder", missing)
        assert refused(embed(server, "a"), 503, "model_unavailable", "cannot be loaded")
    assert embed(server, "a").status_code == 200


def test_an_error_of_the_model_is_told_by_its_kind_alone(serve, encoder, monkeypatch):
    server = serve()

    def broken(*_, **__):
        raise RuntimeError("secret/path")

    with monkeypatch.context() as patch:
        patch.setattr(encoder, "vectors", broken)
        failed = embed(server, "a")
    assert refused(failed, 500, "unexpected", "RuntimeError")
    assert "secret" not in failed.text
    assert embed(server, "a").status_code == 200


def test_the_plain_reader_is_a_model_without_instructions(serve, plain):
    server = serve()
    np.testing.assert_array_equal(vectors(embed(server, TEXTS, model="minilm")), plain.vectors(TEXTS))
    assert refused(embed(server, TEXTS, model="minilm", instruction=MOOD), 400, "invalid_request", "no instruction")
