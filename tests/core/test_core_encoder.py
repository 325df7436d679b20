import numpy as np
import pytest

from retriever.core import contexts
from retriever.core.errors import EncoderError, UsageError
from retriever.core.protocols import TUNED, Encoder, EncoderSpec, Tuning, WrappedEncoder
from retriever.core.types import Encoded


class Counting(Encoder):
    """A text's vector is its number of letters a and b, three times as heavy where the instruction names them."""

    spec = EncoderSpec("counting", 2, name="counter", steps=1, max_text_tokens=2)

    def __init__(self):
        self.passes = []

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        self.passes.append((list(texts), list(instructions), words))
        for text in texts if on_tokens else ():
            on_tokens(min(self.spec.max_text_tokens, 1 + len(text) // 4))
        rows = [
            [[text.count(one) * (3 if one in asked else 1) for one in "ab"] for text in texts] for asked in instructions
        ]
        return [
            Encoded(np.array(one, dtype=np.float32).reshape(-1, 2), [list(text)[:words] for text in texts])
            for one in rows
        ]

    def reconfigured(self, *, steps):
        other = Counting()
        other.spec = EncoderSpec("counting", 2, steps=steps)
        return other

    def tune(self, texts, labels, *, steps, on_step=None):
        return Tuning(b"ab", {"steps": steps, "texts": len(texts)})

    def tuned(self, tuning):
        other = Counting()
        other.spec = EncoderSpec(tuning.fingerprint("counting"), 2)
        return other


TEXTS = ["aab", "b", "", "abababab", "aab"]
PLAIN = [[2, 1], [0, 1], [0, 0], [4, 4], [2, 1]]
ASKED = [[6, 1], [0, 1], [0, 0], [12, 4], [6, 1]]


def test_whoever_writes_the_two_members_has_all_the_others():
    encoder = Counting()
    assert (encoder.dim, encoder.fingerprint) == (2, "counting")
    assert encoder.encode(TEXTS).tolist() == PLAIN
    assert encoder.encode(TEXTS, instruction="a").tolist() == ASKED
    assert [one.tolist() for one in encoder.encode_many(TEXTS, ["a", "", "a"])] == [ASKED, PLAIN, ASKED]
    encoded = encoder.encode_with_words(TEXTS, instruction="a", top=2)
    assert (encoded.embeddings.tolist(), encoded.words[0], encoded.words[2]) == (ASKED, ["a", "a"], [])
    assert len(encoder.encode_with_words(TEXTS).words[3]) == 5
    assert encoder.passes[2] == (TEXTS, ["a", "", "a"], 0)
    assert [words for _, _, words in encoder.passes] == [0, 0, 0, 2, 5]
    assert encoder.count_tokens(["", "abc", "abcdefgh"]) == [1, 1, 3]


def test_an_encoder_without_one_of_the_two_cannot_be_made():
    class NoSpec(Encoder):
        def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
            return []

    class NoVectors(Encoder):
        spec = EncoderSpec("none", 1)

    for kind, missing in ((NoSpec, "spec"), (NoVectors, "encode_views")):
        with pytest.raises(TypeError, match=missing):
            kind()


@pytest.mark.parametrize("size", [1, 2, 3, 99])
def test_a_batch_holds_so_many_texts_of_like_length_and_the_order_is_kept(size):
    encoder = Counting()
    plain, asked = encoder.encode_many(TEXTS, ["", "a"], batch_size=size)
    assert (plain.tolist(), asked.tolist(), plain.dtype) == (PLAIN, ASKED, np.float32)
    assert [len(texts) for texts, _, _ in encoder.passes] == [min(size, 5 - start) for start in range(0, 5, size)]
    read = [text for texts, _, _ in encoder.passes for text in texts]
    assert read == ["abababab", "aab", "aab", "b", ""]
    assert encoder.encode([], batch_size=size).shape == (0, 2)


@pytest.mark.parametrize("size", [0, -1])
def test_a_batch_of_no_texts_is_refused(size):
    with pytest.raises(UsageError, match=f"batch_size is {size}"):
        Counting().encode(TEXTS, batch_size=size)


def test_one_string_is_no_sequence_of_texts_or_instructions():
    encoder = Counting()
    for wrong in (
        lambda: encoder.encode("toy"),
        lambda: encoder.encode_many(["toy"], "mood"),
        lambda: encoder.encode_with_words("toy"),
    ):
        with pytest.raises(UsageError, match="not one string"):
            wrong()
    assert encoder.passes == []


def test_a_bar_counts_the_tokens_that_are_read_and_stands_on_a_terminal_only(monkeypatch, capsys):
    Counting().encode(TEXTS, show_progress=True)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(contexts.sys.stderr, "isatty", lambda: True)
    Counting().encode(TEXTS[:4], show_progress=True)
    assert "5.00/5.00" in capsys.readouterr().err  # 1 + 1 + 1 + 2, the long one cut to two
    Counting().encode(TEXTS)
    assert capsys.readouterr().err == ""


def test_settings_that_an_encoder_has_not_are_refused():
    class Fixed(Counting):
        reconfigured = Encoder.reconfigured

    with pytest.raises(EncoderError, match="counter has no look_ahead to choose"):
        Fixed().reconfigured(look_ahead=3)


def test_a_label_is_the_name_or_the_fingerprints_beginning():
    assert (EncoderSpec("f" * 64, 1, name="mine").label, EncoderSpec("f" * 64, 1).label) == ("mine", "f" * 12)


def test_a_bare_wrapper_is_the_encoder_it_wraps():
    inner = Counting()
    outer = WrappedEncoder(inner)
    assert (outer.spec, outer.dim, outer.count_tokens(["abcdefgh"])) == (inner.spec, 2, [3])
    tokens = []
    encoded = outer.encode_views(TEXTS, ["", "a"], words=1, on_tokens=tokens.append)
    assert [one.embeddings.tolist() for one in encoded] == [PLAIN, ASKED]
    assert (encoded[0].words, sum(tokens)) == ([["a"], ["b"], [], ["a"], ["a"]], 6)
    assert outer.encode(TEXTS, instruction="a").tolist() == ASKED


def test_a_wrapper_stays_when_its_encoder_is_tuned():
    class Named(WrappedEncoder):
        pass

    outer = Named(Counting())
    tuning = outer.tune(["a", "b"], np.array([0, 1]), steps=3)
    assert tuning.description == {"steps": 3, "texts": 2}
    other = outer.tuned(tuning)
    assert isinstance(other, Named)
    assert other.fingerprint == tuning.fingerprint("counting") != outer.fingerprint == "counting"
    assert other.fingerprint.startswith(TUNED)
    assert other.fingerprint.endswith(":counting")
    assert other.fingerprint != Tuning(b"ac", tuning.description).fingerprint("counting")


def test_an_encoder_that_cannot_be_tuned_says_so():
    class Stiff(Counting):
        tune, tuned = Encoder.tune, Encoder.tuned

    with pytest.raises(EncoderError, match="counter cannot be fine-tuned"):
        Stiff().tune(["a"], np.array([0]), steps=1)
    with pytest.raises(EncoderError, match="counter cannot be fine-tuned"):
        Stiff().tuned(Tuning(b"", {}))


def test_a_wrapper_overrides_one_method_and_stays_when_its_encoder_is_reconfigured():
    class Doubled(WrappedEncoder):
        def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
            encoded = super().encode_views(texts, instructions, words=words, on_tokens=on_tokens)
            return [Encoded(2 * one.embeddings, one.words) for one in encoded]

    outer = Doubled(Counting())
    other = outer.reconfigured(steps=7)
    assert (other.spec.steps, outer.spec.steps) == (7, 1)
    for one in (outer, other):
        assert one.encode(["aab"]).tolist() == [[4, 2]]
        assert (
            one.encode_many(["aab"], ["a"])[0].tolist()
            == one.encode_with_words(["aab"], instruction="a").embeddings.tolist()
        )
