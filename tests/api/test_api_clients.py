"""The server as real clients see it."""

import numpy as np
import pytest
from api_fakes import READER, TOKENS
from index_fakes import MOOD

openai = pytest.importorskip("openai")

TEXTS = ["a kettle, so calm love", "a lamp I hate"]


@pytest.fixture
def server(serve):
    return serve(tokens=TOKENS, instructions={"mood": MOOD})


def rows(answer):
    return np.array([one.embedding for one in answer.data], dtype=np.float32)


def client_of(server, key=READER, **options):
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0, **options)


def test_openai_embeds_under_an_instruction_or_by_a_models_name(server, encoder):
    client = client_of(server)
    answer = client.embeddings.create(model="default", input=TEXTS, extra_body={"instruction": MOOD})
    np.testing.assert_array_equal(rows(answer), encoder.vectors(TEXTS, MOOD))
    assert answer.usage.total_tokens > 0
    named = client.embeddings.create(model="default@mood", input=TEXTS, encoding_format="float")
    np.testing.assert_array_equal(rows(named), encoder.vectors(TEXTS, MOOD))
    assert [one.id for one in client.models.list()] == ["default", "default@mood", "minilm"]
    assert client.models.retrieve("default@mood").instruction == MOOD


def test_openai_prints_our_words(server):
    client = client_of(server)
    with pytest.raises(openai.BadRequestError, match="the vectors of default have 16"):
        client.embeddings.create(model="default", input="a", dimensions=3)
    with pytest.raises(openai.NotFoundError, match="no model 'gpt'"):
        client.embeddings.create(model="gpt", input="a")
    with pytest.raises(openai.AuthenticationError, match="The token is wrong"):
        client_of(server, "wrong").embeddings.create(model="default", input="a")


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
