"""The server as real clients see it."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from api_fakes import READER, TOKENS, WAIT, WRITER
from index_fakes import MOOD, PRODUCT

openai = pytest.importorskip("openai")

TEXTS = ["a kettle, so calm love", "a lamp I hate"]


@pytest.fixture
def server(serve):
    return serve(tokens=TOKENS, instructions={"mood": MOOD})


def rows(answer):
    return np.array([one.embedding for one in answer.data], dtype=np.float32)


def client_of(server, key=READER, **options):
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0, **options)


@pytest.mark.parametrize("form", [{}, {"encoding_format": "float"}, {"encoding_format": "base64"}], ids=str)
def test_openai_embeds_under_an_instruction(server, encoder, form):
    client = client_of(server)
    answer = client.embeddings.create(model="default", input=TEXTS, extra_body={"instruction": MOOD}, **form)
    if form.get("encoding_format") == "base64":
        import base64

        decoded = [np.frombuffer(base64.b64decode(one.embedding), "<f4") for one in answer.data]
        np.testing.assert_array_equal(decoded, encoder.vectors(TEXTS, MOOD))
    else:
        np.testing.assert_array_equal(rows(answer), encoder.vectors(TEXTS, MOOD))
    assert answer.usage.total_tokens > 0


def test_openai_takes_an_instruction_by_the_models_name_and_lists_it(server, encoder):
    client = client_of(server)
    np.testing.assert_array_equal(
        rows(client.embeddings.create(model="default@mood", input=TEXTS)), encoder.vectors(TEXTS, MOOD)
    )
    assert [one.id for one in client.models.list()] == ["default", "default@mood", "minilm"]
    assert client.models.retrieve("default@mood").instruction == MOOD


def test_openai_asynchronously_many_at_once(server, encoder):
    async def ask():
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=READER) as client:
            return await asyncio.gather(
                *(client.embeddings.create(model="default@mood", input=[text]) for text in TEXTS * 10)
            )

    np.testing.assert_array_equal(
        np.concatenate([rows(one) for one in asyncio.run(ask())]), encoder.vectors(TEXTS * 10, MOOD)
    )


def test_openai_prints_our_words(server):
    client = client_of(server)
    with pytest.raises(openai.BadRequestError, match="the vectors of default have 16"):
        client.embeddings.create(model="default", input="a", dimensions=3)
    with pytest.raises(openai.BadRequestError, match="Unknown field 'truncate'"):
        client.embeddings.create(model="default", input="a", extra_body={"truncate": True})
    with pytest.raises(openai.BadRequestError, match="check_embedding_ctx_length=False"):
        client.embeddings.create(model="default", input=[1, 2])
    with pytest.raises(openai.NotFoundError, match="no model 'gpt'"):
        client.embeddings.create(model="gpt", input="a")
    with pytest.raises(openai.AuthenticationError, match="The token is wrong"):
        client_of(server, "wrong").embeddings.create(model="default", input="a")


def test_openai_waits_and_asks_again_when_too_much_is_going_on(serve, encoder):
    server = serve(waiting_texts=1)
    patient = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=8)
    patient.embeddings.create(model="default", input="loaded")
    encoder.go.clear()
    encoder.began.clear()
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(patient.embeddings.create, model="default", input="a")
        assert encoder.began.wait(WAIT)
        threading.Timer(1.0, encoder.go.set).start()
        assert len(threads.submit(patient.embeddings.create, model="default", input="b").result().data) == 1
        first.result()


def test_langchain_with_and_without_its_tokeniser(server, encoder, monkeypatch):
    langchain_openai = pytest.importorskip("langchain_openai")
    settings = {"base_url": f"{server.url}/v1", "api_key": READER, "model": "default@mood"}
    texts = langchain_openai.OpenAIEmbeddings(**settings, check_embedding_ctx_length=False)
    np.testing.assert_array_equal(np.array(texts.embed_documents(TEXTS), np.float32), encoder.vectors(TEXTS, MOOD))
    np.testing.assert_array_equal(np.array(texts.embed_query(TEXTS[0]), np.float32), encoder.vectors(TEXTS, MOOD)[0])

    class Words:
        """Stands for tiktoken's tables, which come from the network."""

        def encode_ordinary(self, text):
            return [ord(sign) for sign in text]

        encode = encode_ordinary

    import tiktoken

    monkeypatch.setattr(tiktoken, "encoding_for_model", lambda *_: Words())
    monkeypatch.setattr(tiktoken, "get_encoding", lambda *_: Words())
    ids = langchain_openai.OpenAIEmbeddings(**settings)
    with pytest.raises(openai.BadRequestError, match="check_embedding_ctx_length=False"):
        ids.embed_documents(TEXTS)


def test_litellm_by_its_several_ways(server, encoder, monkeypatch):
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    litellm = pytest.importorskip("litellm")
    where = {"api_base": f"{server.url}/v1", "api_key": READER, "input": TEXTS}
    passed = litellm.embedding(model="openai/default", instruction=MOOD, **where)
    named = [litellm.embedding(model=f"{prefix}/default@mood", **where) for prefix in ("openai", "hosted_vllm")]
    for answer in (passed, *named):
        found = np.array([one["embedding"] for one in answer.data], np.float32)
        np.testing.assert_array_equal(found, encoder.vectors(TEXTS, MOOD))


def test_a_program_adds_searches_and_follows_a_stream(server, make):
    make()
    added = server.post(
        "/indexes/reviews/documents",
        {"documents": [{"id": "new", "text": "a bike"}]},
        token=WRITER,
        params={"wait": 60},
    )
    assert added.json()["status"] == "done"
    body = {"query": "bike", "instruction": PRODUCT, "stream": True, "mode": "dense"}
    headers = {"Authorization": f"Bearer {READER}"}
    with server.http.stream("POST", "/indexes/reviews/search", json=body, headers=headers) as response:
        data = [line.removeprefix("data: ") for line in response.iter_lines() if line.startswith("data: ")]
    assert json.loads(data[-1])["hits"][0]["id"] == "new"
