"""A server with the real models, as its clients see it."""

import numpy as np
import pytest
from api_fakes import running

from retriever import load_encoder, open_index
from retriever.api.settings import ServerSettings
from retriever.core.types import Document
from retriever.index import encoding
from retriever.index.sources.encoders import load_base

openai = pytest.importorskip("openai")
pytestmark = pytest.mark.model

PRODUCT, MOOD = "What kind of product is this review about?", "How does the customer feel about it?"
REVIEWS = [
    "The kettle leaks from the bottom after a week. I want my money back.",
    "This kettle boils fast and looks lovely. Very happy with it.",
    "My son plays with the toy train every day, he loves it.",
    "The toy train fell apart when he pushed it once. Very disappointed.",
]


@pytest.fixture(scope="module")
def encoder():
    return load_encoder()


@pytest.fixture(scope="module")
def server(encoder, tmp_path_factory):
    """A server of one index whose instruction nobody has asked for yet."""
    folder = tmp_path_factory.mktemp("indexes")
    with open_index(folder / "reviews", encoder=encoder, plain=load_base()) as index:
        index.add([Document(f"r{row}", text) for row, text in enumerate(REVIEWS, 1)])
    settings = ServerSettings(folder, port=0, instructions={"mood": MOOD}, read_on=0)
    with running(settings, encoding.load_described) as served:
        yield served


def rows(answer):
    return np.array([one.embedding for one in answer.data], dtype=np.float32)


def test_openais_client_gets_the_models_vectors_under_an_instruction(server, encoder):
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", timeout=300)
    found = {}
    for instruction in ("", PRODUCT, MOOD):
        answer = client.embeddings.create(model="default", input=REVIEWS, extra_body={"instruction": instruction})
        found[instruction] = rows(answer)
        expected = encoder.encode(REVIEWS, instruction=instruction)
        assert (found[instruction] * expected).sum(axis=1).min() > 0.999
        assert answer.usage.total_tokens == sum(encoder.count_tokens(REVIEWS))
    saved = rows(client.embeddings.create(model="default@mood", input=REVIEWS))
    np.testing.assert_allclose(saved, found[MOOD], atol=1e-6)
    # By product the two kettles are alike, by mood the two who are unhappy.
    product, mood = (vectors @ vectors.T for vectors in (found[PRODUCT], found[MOOD]))
    assert product[0, 1] - product[0, 3] > mood[0, 1] - mood[0, 3]


def test_the_plain_reader_is_served_beside_it(server):
    plain = load_base()
    answer = server.post("/v1/embeddings", {"input": REVIEWS, "model": "minilm"}, timeout=300).json()
    found = np.array([one["embedding"] for one in answer["data"]], dtype=np.float32)
    assert (found * plain.encode(REVIEWS)).sum(axis=1).min() > 0.999
