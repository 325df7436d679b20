import json
import shutil

import numpy as np
import pytest
import torch
from transformers.utils import logging

from retriever import load_encoder
from retriever.core.errors import UsageError
from retriever.core.protocols import Encoder

TEXTS = ["the toy broke", "kettle boils water fast, and it is heavy", "x", "a sharp knife " * 9]


@pytest.fixture(scope="module")
def encoder(tiny):
    return load_encoder(f"st:{tiny('sentence')}", device="cpu")


def by_hand(slow, tiny, texts):
    """Mean-pooled states of the tiny BERT, one text at a time, cut to 64 tokens."""
    from transformers import AutoModel

    model = AutoModel.from_pretrained(tiny("sentence"), dtype=torch.float32).eval()
    tokenizer = slow("bert")
    rows = []
    for text in texts:
        ids = torch.tensor([[*tokenizer.start, *tokenizer.ids(text)[:62], *tokenizer.end]])
        with torch.no_grad():
            rows.append(model(ids).last_hidden_state[0].mean(0).numpy())
    return np.stack([row / np.linalg.norm(row) for row in rows])


def test_vectors_are_the_models(encoder, slow, tiny):
    np.testing.assert_allclose(encoder.encode(TEXTS), by_hand(slow, tiny, TEXTS), atol=1e-5)
    assert isinstance(encoder, Encoder)
    assert (encoder.dim, encoder.spec.dtype, encoder.spec.name) == (32, "float32", f"st:{tiny('sentence')}")


def test_an_instruction_stands_in_front_of_the_text(encoder):
    expected = encoder.encode([f"what product {text}" for text in TEXTS])
    np.testing.assert_allclose(encoder.encode(TEXTS, instruction="  what product "), expected, atol=1e-6)
    many = encoder.encode_many(TEXTS, ["", "what product"])
    np.testing.assert_allclose(many[0], encoder.encode(TEXTS), atol=1e-6)
    np.testing.assert_allclose(many[1], expected, atol=1e-6)
    assert abs(many[0] - many[1]).max() > 1e-3


def test_order_duplicates_and_batches(encoder):
    vectors = encoder.encode(TEXTS)
    order = [2, 0, 0, 3, 1]
    np.testing.assert_allclose(encoder.encode([TEXTS[i] for i in order], batch_size=1), vectors[order], atol=1e-5)


def test_no_texts_empty_texts_and_one_string(encoder):
    assert encoder.encode([]).shape == (0, 32)
    assert np.linalg.norm(encoder.encode([""])) == pytest.approx(1, abs=1e-5)
    for wrong in (lambda: encoder.encode("toy"), lambda: encoder.encode_many("toy", ["a"])):
        with pytest.raises(UsageError, match="not one string"):
            wrong()


def test_it_answers_in_no_words(encoder):
    encoded = encoder.encode_with_words(TEXTS, instruction="what product")
    assert encoded.words == [[]] * len(TEXTS)
    np.testing.assert_allclose(encoded.embeddings, encoder.encode(TEXTS, instruction="what product"), atol=1e-6)


def test_number_format(tiny, encoder):
    other = load_encoder(f"st:{tiny('sentence')}", device="cpu", dtype="bfloat16")
    assert other.spec.dtype == "bfloat16"
    vectors = other.encode(TEXTS)
    assert vectors.dtype == np.float32
    assert (vectors * encoder.encode(TEXTS)).sum(axis=1).min() > 0.999
    assert other.fingerprint == encoder.fingerprint


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
