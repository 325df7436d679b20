import json
import shutil

import numpy as np
import pytest
from transformers.utils import logging

from retriever import load_encoder
from retriever.core.errors import UsageError
from retriever.encoders.sentence_encoder import character_vectors

TEXTS = ["the toy broke", "kettle boils water fast, and it is heavy", "x", "a sharp knife " * 9]


@pytest.fixture(scope="module")
def encoder(tiny):
    return load_encoder(f"st:{tiny('sentence')}", device="cpu")


def test_an_instruction_stands_in_front_of_the_text(encoder):
    expected = encoder.encode([f"what product {text}" for text in TEXTS])
    np.testing.assert_allclose(encoder.encode(TEXTS, instruction="  what product "), expected, atol=1e-6)
    many = encoder.encode_many(TEXTS, ["", "what product"])
    np.testing.assert_allclose(many[0], encoder.encode(TEXTS), atol=1e-6)
    np.testing.assert_allclose(many[1], expected, atol=1e-6)
    assert abs(many[0] - many[1]).max() > 1e-3


def test_fingerprint_covers_the_modules_behind_the_transformer(tiny, tmp_path, encoder):
    copy = shutil.copytree(tiny("sentence"), tmp_path / "copy")
    assert load_encoder(f"st:{copy}", device="cpu").fingerprint == encoder.fingerprint
    config = copy / "1_Pooling" / "config.json"
    changed = json.loads(config.read_text())
    assert changed["pooling_mode"] == "mean"
    config.write_text(json.dumps(changed | {"pooling_mode": "cls"}))
    other = load_encoder(f"st:{copy}", device="cpu")
    assert abs(other.encode(TEXTS) - encoder.encode(TEXTS)).max() > 1e-3
    assert other.fingerprint != encoder.fingerprint


@pytest.mark.parametrize("options", [{"pooling": "mean"}, {"steps": 3}, {"template": "input-first"}])
def test_what_such_a_model_cannot_do_is_refused(tiny, options):
    with pytest.raises(UsageError, match=f"no {next(iter(options))} to choose"):
        load_encoder(f"st:{tiny('sentence')}", device="cpu", **options)


def test_no_bar_of_another_library_is_shown(tiny, capfd):
    logging.enable_progress_bar()
    encoder = load_encoder(f"st:{tiny('sentence')}", device="cpu")
    encoder.encode(["toy", "lamp"], show_progress=True)  # to a file here: a bar would fill it with its every state
    assert capfd.readouterr().err == ""


DIM = 384
KNOWN = ["", "thumbs up", "ok", "!", "5", "ключ", "👍 good", "the kettle broke"]
UNKNOWN = ["👍", "👎", "👍👍", "🎁 🎉", "❤\ufe0f", "x" * 300]


def test_texts_are_alike_as_far_as_they_share_characters():
    vectors = character_vectors(["👍", "👎", "👍 👍", "👍\ufe0f", "👍🏽"], DIM)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    up, down, twice, selected, toned = vectors @ vectors[0]
    assert up == pytest.approx(1, abs=1e-5)
    assert abs(down) < 0.25
    assert selected == pytest.approx(1, abs=1e-5)
    assert twice > 0.5
    assert toned > 0.4


def test_vectors_are_the_same_whatever_they_are_made_with():
    np.testing.assert_array_equal(character_vectors(["👍", "👎"], DIM)[1], character_vectors(["👎"], DIM)[0])
    assert character_vectors([], DIM).shape == (0, DIM)


@pytest.fixture(scope="module")
def minilm():
    return load_encoder("minilm", device="cpu")


def test_an_encoder_says_of_which_texts_it_knows_nothing(minilm):
    assert minilm.knows([*KNOWN, *UNKNOWN]) == [True] * len(KNOWN) + [False] * len(UNKNOWN)
    assert minilm.knows([]) == []


@pytest.mark.parametrize("instruction", ["", "How does the customer feel?"])
def test_texts_of_which_it_knows_nothing_go_by_their_characters(minilm, instruction):
    vectors = minilm.encode([*KNOWN, *UNKNOWN], instruction=instruction)
    np.testing.assert_allclose(vectors[len(KNOWN) :], character_vectors(UNKNOWN, minilm.dim), atol=1e-6)
    queries = minilm.encode_queries([*KNOWN, *UNKNOWN], instruction=instruction)
    assert (queries * vectors).sum(axis=1).min() > 0.999
    cosines = vectors @ vectors.T
    up, down = len(KNOWN), len(KNOWN) + 1
    assert cosines[up, down] < 0.3
    assert np.abs(cosines[: len(KNOWN), len(KNOWN) :]).max() < 0.3


def test_known_texts_are_read_as_they_were(minilm):
    alone = minilm.encode(KNOWN)
    np.testing.assert_allclose(minilm.encode([*UNKNOWN, *KNOWN])[len(UNKNOWN) :], alone, atol=1e-5)
