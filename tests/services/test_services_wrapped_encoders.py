import numpy as np
import pytest
from services_fakes import MOOD, PRODUCT, FakeEncoder, RichEncoder

from retriever.core.protocols import Encoder
from retriever.services.encoding import encode_views, view_key, with_steps
from retriever.services.wrapped_encoders import WithoutInstruction, WrappedEncoder

TEXTS = ["love my toy", "hate the lamp", "love my toy"]


def test_a_bare_wrapper_is_the_encoder_it_wraps():
    inner = RichEncoder()
    outer = WrappedEncoder(inner)
    assert isinstance(outer, Encoder)
    assert (outer.dim, outer.fingerprint, outer.steps) == (inner.dim, inner.fingerprint, inner.steps)
    assert view_key(outer, MOOD) == view_key(inner, MOOD)
    np.testing.assert_array_equal(outer.encode(TEXTS, instruction=MOOD), inner.encode(TEXTS, instruction=MOOD))
    for mine, theirs in zip(outer.encode_many(TEXTS, [MOOD, ""]), inner.encode_many(TEXTS, [MOOD, ""]), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert outer.encode_with_words(TEXTS, instruction=MOOD).words == inner.encode_with_words(
        TEXTS, instruction=MOOD
    ).words  # fmt: skip
    assert with_steps(outer, 2).steps == 2
    with pytest.raises(AttributeError):
        outer.no_such_thing  # noqa: B018


def test_a_wrapper_without_its_encoder_does_not_look_for_it_in_itself():
    with pytest.raises(AttributeError):
        WrappedEncoder.__new__(WrappedEncoder)._encoder  # noqa: B018


def test_an_encoder_without_instruction_reads_a_text_once_whatever_is_asked():
    inner = FakeEncoder()
    outer = WithoutInstruction(inner)
    plain = inner.encode(TEXTS)
    inner.calls.clear()
    found = outer.encode_many(TEXTS, [MOOD, PRODUCT, ""])
    assert len(inner.calls) == 1
    for rows in (*found, outer.encode(TEXTS, instruction=MOOD)):
        np.testing.assert_array_equal(rows, plain)
    assert np.abs(inner.encode(TEXTS, instruction=MOOD) - plain).max() > 0.1


def test_an_encoder_without_instruction_is_another_encoder_and_has_no_words():
    inner = RichEncoder()
    outer = WithoutInstruction(inner)
    assert outer.fingerprint not in ("", inner.fingerprint)
    assert outer.fingerprint == WithoutInstruction(RichEncoder()).fingerprint
    assert outer.spec == " without instruction"
    assert outer.encode_with_words(TEXTS, instruction=MOOD).words == [[], [], []]
    tokens = []
    encoded = encode_views(outer, TEXTS, [MOOD, ""], tokens.append)
    assert [one.words for one in encoded] == [[[], [], []]] * 2
    np.testing.assert_array_equal(encoded[0].embeddings, encoded[1].embeddings)
    assert tokens == [9]
