import pytest
import torch
from slow_reference import MASKED, Recorder

from retriever.core.errors import EncoderError

TEXTS = ["the toy broke", "kettle boils water fast, and it is heavy", "x", "", "a sharp knife that is dull " * 3]
INSTRUCTION = "what kind of product"


@pytest.mark.parametrize("template", ["input-first", "instruct-query"])
@pytest.mark.parametrize("pooling", ["masks", "avg-ppt"])
@pytest.mark.parametrize("name", MASKED)
def test_masked_models_equal_the_reference(make, slow, name, pooling, template):
    vectors = make("inbedder", name, pooling=pooling, template=template).encode(TEXTS, instruction=INSTRUCTION)
    for text, vector in zip(TEXTS, vectors, strict=True):
        expected, _ = slow(name).masked(text, INSTRUCTION, pooling, template)
        assert vector == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", MASKED)
def test_answers_are_what_the_models_own_head_puts_in_the_masks_place(make, slow, name):
    encoder = make("inbedder", name)
    recorder = encoder._words = Recorder()
    texts = ["the toy broke"]
    encoder.encode_with_words(texts, instruction=INSTRUCTION)
    _, said = slow(name).masked(texts[0], INSTRUCTION, "masks")
    _, prior = slow(name).masked("", INSTRUCTION, "masks")
    assert torch.allclose(recorder.answers[0][0], said, atol=1e-6)
    assert torch.allclose(recorder.priors[0][0], prior, atol=1e-6)


@pytest.mark.parametrize("name", MASKED)
def test_words_are_found_in_byte_level_and_in_word_piece_vocabularies(make, name):
    words = make("inbedder", name).encode_with_words(["the toy broke", "kettle"], instruction=INSTRUCTION).words
    assert all(words)


@pytest.mark.parametrize("name", MASKED)
def test_every_instruction_reads_the_text_again(make, name):
    encoder = make("inbedder", name)
    instructions = ["mood", INSTRUCTION, "mood", "which material is it"]
    for many, one in zip(encoder.encode_many(TEXTS, instructions), instructions, strict=True):
        assert many == pytest.approx(encoder.encode(TEXTS, instruction=one), abs=1e-5)


@pytest.mark.parametrize("name", ["roberta", "bert"])
def test_a_text_longer_than_the_positions_is_cut_and_the_instruction_survives(make, slow, name):
    encoder = make("inbedder", name)
    long = "the toy broke and the kettle is dull, " * 20
    ids = slow(name).ids(long)
    around = len(slow(name).prompt("", INSTRUCTION)) + 3 + 1
    room = 128 - around  # both models have 128 positions: RoBERTa's first two of 130 are taken
    assert room < len(ids) < 512
    states, _ = slow(name).read_ids(
        [
            *slow(name).start,
            *slow(name).ids("### Input:\n"),
            *ids[:room],
            *slow(name).ids(f"\n\n### Instruction:\n{INSTRUCTION}\n\n### Response:"),
            *[encoder.backbone.tokenizer.mask_id] * 3,
            *slow(name).end,
        ]
    )
    expected = states[-4:-1].mean(0)
    (vector,) = encoder.encode([long], instruction=INSTRUCTION)
    assert vector == pytest.approx((expected / expected.norm()).numpy(), abs=1e-5)


@pytest.mark.parametrize(("name", "token"), [("roberta", "x"), ("bert", "x ")])
def test_the_limit_is_what_the_positions_leave_beside_the_default_instruction(make, slow, name, token):
    encoder = make("inbedder", name)
    around = len(slow(name).prompt("", encoder.options.default_instruction)) + 3 + 1
    limit = encoder.spec.max_text_tokens
    assert limit == 128 - around
    text = token * limit
    assert encoder.count_tokens([text]) == [limit]
    shorter, whole, longer, longest = encoder.encode([token * (limit - 1), text, text + token, text + 9 * token])
    assert abs(shorter - whole).max() > 1e-4
    assert longer == pytest.approx(whole, abs=1e-5)
    assert longest == pytest.approx(whole, abs=1e-5)


@pytest.mark.parametrize("method", ["gircse", "instemb", "plain"])
def test_methods_that_read_on_refuse_masked_models(make, method):
    with pytest.raises(EncoderError, match=f"{method} needs a causal model; .*roberta is a masked one"):
        make(method, "roberta")
