import numpy as np
import pytest
from index_fakes import DIM, FAULT, KEYWORDS, MOOD, PRODUCT, FakeEncoder, RichEncoder

from retriever.core.protocols import Encoder


@pytest.mark.parametrize("encoder", [FakeEncoder(), RichEncoder()])
def test_the_cosine_is_one_less_an_eighth_for_every_keyword_only_one_text_holds(encoder):
    assert isinstance(encoder, Encoder)
    assert all(len(set(words)) == DIM for words in KEYWORDS.values())
    texts = ["love this kettle", "hate this kettle", "love my toy lamp"]
    assert (encoder.vectors(texts) @ encoder.vectors(texts).T).tolist() == [
        [1, 1, 1 - 3 / 8],
        [1, 1, 1 - 3 / 8],
        [1 - 3 / 8, 1 - 3 / 8, 1],
    ]
    mood = encoder.encode_many(texts, [FAULT, MOOD])[1]
    assert (mood @ mood[0]).tolist() == [1, 1 - 2 / 8, 1]
    assert np.array_equal(mood, mood.astype(np.float16))


def test_calls_are_counted_by_what_they_read():
    encoder = FakeEncoder()
    encoder.encode(["a toy"])
    words = encoder.encode_with_words(["a toy lamp", "kettle"], instruction=PRODUCT, top=1).words
    assert words == [["toy"], ["kettle"]]
    assert (encoder.queries, encoder.read) == (["a toy"], [("a toy lamp", PRODUCT), ("kettle", PRODUCT)])


def test_steps_are_the_keywords_known():
    encoder = RichEncoder()
    known = encoder.reconfigured(steps=2).encode(["kettle toy lamp"])
    assert (known[0] > 0).nonzero()[0].tolist() == [0, 1]
    assert (encoder.encode(["kettle toy lamp"])[0] > 0).sum() == 3
    assert len(encoder.calls) == 2
