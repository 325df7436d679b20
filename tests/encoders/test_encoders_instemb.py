import pytest
import torch
from slow_reference import Recorder

from retriever.core.errors import UsageError
from retriever.encoders.base import tensor_digest
from retriever.encoders.instemb import LEARNED, InstEmbEncoder
from retriever.encoders.options import EncoderOptions

TEXTS = ["the toy broke", "kettle boils water fast, and it is heavy", "x", "", "a sharp knife that is dull " * 4]
INSTRUCTION = "what kind of product"
POOLINGS = ["daap", "input-last", "special-first", "special-mean", "all-mean", "input-last+special-first"]


def learned(length=8):
    return torch.randn(length, 32, generator=torch.Generator().manual_seed(5)) * 0.3


@pytest.mark.parametrize("look_ahead", [0, 1, 4, 8])
@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_poolings_equal_the_reference(backbone, slow, name, pooling, look_ahead):
    options = EncoderOptions(pooling=pooling, look_ahead=look_ahead)
    vectors = InstEmbEncoder(backbone(name), options, {LEARNED: learned()}).encode(TEXTS, instruction=INSTRUCTION)
    for text, vector in zip(TEXTS, vectors, strict=True):
        expected, _ = slow(name).instemb(text, INSTRUCTION, pooling, learned()[:look_ahead])
        assert vector == pytest.approx(expected, abs=1e-5)


def test_poolings_differ_from_each_other(backbone):
    vectors = [
        InstEmbEncoder(backbone("llama"), EncoderOptions(pooling=pooling), {LEARNED: learned()}).encode(TEXTS[:1])
        for pooling in POOLINGS
    ]
    for i, one in enumerate(vectors):
        for other in vectors[:i]:
            assert abs(one - other).max() > 1e-3


def test_instruct_query_equals_the_reference(backbone, slow):
    encoder = InstEmbEncoder(backbone("mistral"), EncoderOptions(template="instruct-query"), {LEARNED: learned()})
    vectors = encoder.encode(TEXTS, instruction=INSTRUCTION)
    for text, vector in zip(TEXTS, vectors, strict=True):
        expected, _ = slow("mistral").instemb(text, INSTRUCTION, "daap", learned(), "instruct-query")
        assert vector == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("look_ahead", [0, 3, 8])
def test_answers_are_the_mean_over_last_and_look_ahead_positions(backbone, slow, look_ahead):
    encoder = InstEmbEncoder(backbone("mistral"), EncoderOptions(look_ahead=look_ahead), {LEARNED: learned()})
    recorder = encoder._words = Recorder()
    encoded = encoder.encode_with_words(["the toy broke"], instruction=INSTRUCTION, top=2)
    vector, said = slow("mistral").instemb("the toy broke", INSTRUCTION, "daap", learned()[:look_ahead])
    _, prior = slow("mistral").instemb("", INSTRUCTION, "daap", learned()[:look_ahead])
    assert torch.allclose(recorder.answers[0][0], said, atol=1e-6)
    assert torch.allclose(recorder.priors[0][0], prior, atol=1e-6)
    assert encoded.embeddings[0] == pytest.approx(vector, abs=1e-5)
    assert encoded.words == [["word", "word"]]


def test_untrained_look_ahead_is_a_phrase_that_announces_an_answer(make, slow):
    encoder = make("instemb", "llama")
    ids = (slow("llama").ids(" In a few words, the answer is that") * 8)[:8]
    assert torch.equal(encoder.look_ahead_embeddings, slow("llama").table[torch.tensor(ids)])
    expected, _ = slow("llama").instemb("the toy", INSTRUCTION, "daap", encoder.look_ahead_embeddings)
    assert encoder.encode(["the toy"], instruction=INSTRUCTION)[0] == pytest.approx(expected, abs=1e-5)
    assert (encoder.look_ahead, encoder.pooling, encoder.spec.trained) == (8, "daap", False)


def test_length_zero_is_input_last_by_name_too(backbone):
    encoder = InstEmbEncoder(
        backbone("llama"), EncoderOptions(pooling="special-mean", look_ahead=0), {LEARNED: learned()}
    )
    assert (encoder.pooling, encoder.look_ahead) == ("input-last", 0)


@pytest.mark.parametrize("look_ahead", [-1, 9])
def test_more_look_ahead_than_was_learned_is_refused(backbone, look_ahead):
    with pytest.raises(UsageError, match=f"look_ahead is {look_ahead}; this encoder has 8 look-ahead tokens"):
        InstEmbEncoder(backbone("llama"), EncoderOptions(look_ahead=look_ahead), {LEARNED: learned()})


def test_reconfigured_keeps_the_learned_tokens(backbone, slow):
    encoder = InstEmbEncoder(backbone("llama"), EncoderOptions(), {LEARNED: learned(12)})
    other = encoder.reconfigured(look_ahead=10, pooling="special-mean")
    expected, _ = slow("llama").instemb("the toy", INSTRUCTION, "special-mean", learned(12)[:10])
    assert other.encode(["the toy"], instruction=INSTRUCTION)[0] == pytest.approx(expected, abs=1e-5)
    assert other.fingerprint == encoder.fingerprint
    assert other.spec.trained


def test_digest_of_learned_tokens_is_that_of_their_bfloat16_values():
    tensor = learned()
    assert tensor_digest(tensor) == tensor_digest(tensor.bfloat16()) == tensor_digest(tensor.bfloat16().float())
    changed = tensor.clone()
    changed[3, 7] += 0.5
    assert tensor_digest(changed) != tensor_digest(tensor)
