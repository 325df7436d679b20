import numpy as np
import pytest
from index_fakes import FAULT, MOOD, FakeEncoder, Products
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


def scaled(part):
    centred = part - part.mean(axis=0)
    return centred / np.sqrt(np.square(centred).sum(axis=1).mean())


def test_what_is_predicted_is_what_ridge_regression_on_all_parts_together_predicts(read):
    plain, similarities = read
    other = np.random.default_rng(1).normal(size=(40, 7)).astype(np.float32)
    together = np.concatenate([scaled(plain), scaled(other)], axis=1)
    plainly = Ridge(alpha=REGULARISATION).fit(together, similarities).predict(together)
    found = directions([plain, other], similarities)
    predicted = sum(part @ rows.T for part, rows in zip([plain, other], found, strict=True))
    np.testing.assert_allclose(predicted - predicted.mean(axis=0), plainly - plainly.mean(axis=0), atol=1e-4)


def test_what_is_common_to_all_similarities_teaches_nothing(read):
    plain, similarities = read
    (first,), (second,) = directions([plain], similarities + 5), directions([plain], similarities)
    np.testing.assert_allclose(first, second, atol=1e-5)


def test_few_texts_teach_nothing(read):
    plain, similarities = read
    assert not directions([plain[: FEWEST - 1]], similarities[: FEWEST - 1])[0].any()


def test_texts_that_are_all_alike_teach_nothing(read):
    _, similarities = read
    np.testing.assert_allclose(directions([np.ones((40, 3), np.float32)], similarities)[0], 0, atol=1e-6)


def test_what_was_read_draws_texts_the_query_would_not(tmp_path):
    # Sad are the rugs and tents alone, which the query says nothing of; of the texts it names none is.
    products = ["kettle", "lamp", "knife", "drone", "cable", "rug", "tent"]
    moods = {"rug": "sad", "tent": "sad"}
    texts = [f"{one} {moods.get(one, 'calm')} {row}" for one in products for row in range(60)]
    corpus = [Document(f"d{row:03}", text) for row, text in enumerate(texts)]
    question, plain = FakeEncoder("question"), Products("plain")
    options = SearchOptions(rounds=1, token_budget=1200, prompt_tokens=10, candidates=40)
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


def test_a_view_of_another_instruction_that_has_every_text_teaches_too(tmp_path):
    # Of the mood the product says nothing and the fault everything.
    products = ["kettle", "lamp", "knife", "drone", "cable", "rug", "tent"]
    faults = {"sad": "leaks", "calm": "quiet"}
    moods = ["sad", *["calm"] * 5]
    texts = [f"{one} {moods[row % 6]} {faults[moods[row % 6]]} {row}" for one in products for row in range(60)]
    corpus = [Document(f"d{row:03}", text) for row, text in enumerate(texts)]
    options = SearchOptions(rounds=1, token_budget=1200, prompt_tokens=10, candidates=40)
    shares = []
    for name, asked in (("none", []), ("a part", []), ("all", [FAULT])):
        question, plain = FakeEncoder("question"), Products("plain")
        with Index(tmp_path / name, encoder=question, plain=plain, search_options=options) as index:
            index.add(corpus, instructions=asked)
            if name == "a part":
                index.search("kettle leaks", instruction=FAULT, mode="dense")
            question.forget()
            index.search("kettle sad", instruction=MOOD, mode="dense")
            _, second = (call.texts for call in question.passes)
            shares.append(sum("sad" in text for text in second) / len(second))
    assert shares[0] == shares[1] < 0.4 < 0.9 < shares[2]
