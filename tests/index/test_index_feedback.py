import numpy as np
import pytest
from index_fakes import MOOD, FakeEncoder
from sklearn.linear_model import Ridge

from retriever.core.requests import SearchOptions
from retriever.core.types import Document
from retriever.index.search.feedback import FEWEST, REGULARISATION, directions
from retriever.workspace import Index


@pytest.fixture
def read():
    rng = np.random.default_rng(0)
    plain = rng.normal(size=(40, 12)).astype(np.float32)
    plain /= np.linalg.norm(plain, axis=1, keepdims=True)
    return plain, rng.normal(size=(40, 2)).astype(np.float32)


def test_the_direction_is_that_of_ridge_regression(read):
    plain, similarities = read
    plainly = Ridge(alpha=REGULARISATION).fit(plain, similarities).coef_
    expected = plainly / np.linalg.norm(plainly, axis=1, keepdims=True)
    np.testing.assert_allclose(directions(plain, similarities), expected, atol=1e-5)


def test_what_is_common_to_all_similarities_teaches_nothing(read):
    plain, similarities = read
    np.testing.assert_allclose(directions(plain, similarities + 5), directions(plain, similarities), atol=1e-5)


def test_few_texts_teach_nothing(read):
    plain, similarities = read
    assert not directions(plain[: FEWEST - 1], similarities[: FEWEST - 1]).any()


class Products(FakeEncoder):
    """A plain reader that tells products apart and has never heard of moods."""


def test_what_was_read_draws_texts_the_query_would_not(tmp_path):
    # Sad are the rugs and tents alone, which the query says nothing of; of the texts it names none is.
    products = ["kettle", "lamp", "knife", "drone", "cable", "rug", "tent"]
    moods = {"rug": "sad", "tent": "sad"}
    texts = [f"{one} {moods.get(one, 'calm')} {row}" for one in products for row in range(60)]
    corpus = [Document(f"d{row:03}", text) for row, text in enumerate(texts)]
    question, plain = FakeEncoder("question"), Products("plain")
    options = SearchOptions(token_budget=1200, prompt_tokens=10, candidates=40)
    with Index(tmp_path / "two", encoder=question, plain=plain, search_options=options) as index:
        index.add(corpus)
        index.search("kettle sad", instruction=MOOD, mode="dense")
        reads = [call.texts for call in question.passes]
        assert len(reads) == 2
        sad = [sum("sad" in text for text in texts) / len(texts) for texts in reads]
        assert sad[1] > 0.9 > 0.5 > sad[0] > 0
    alone = FakeEncoder("question")
    with Index(tmp_path / "one", encoder=alone, search_options=options) as index:
        index.add(corpus)
        alone.forget()
        index.search("kettle sad", instruction=MOOD, mode="dense")
        assert len(alone.passes) == 1
