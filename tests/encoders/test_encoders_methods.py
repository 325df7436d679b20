import pytest
import torch
from slow_reference import MASKED, Recorder

from retriever.core.errors import UsageError
from retriever.encoders.base import tensor_digest
from retriever.encoders.behind_prompt import LEARNED, InstEmbEncoder
from retriever.encoders.methods import EncoderOptions

TEXTS = ["the toy broke", "kettle boils water fast, and it is heavy", "x", "", "a sharp knife that is dull " * 4]
INSTRUCTION = "what kind of product"
STEPS = 6


@pytest.mark.parametrize(
    ("name", "template"), [("llama", "input-first"), ("mistral", "instruct-query"), ("gpt2", "input-first")]
)
def test_every_z_equals_the_reference(make, slow, name, template):
    encoder = make("gircse", name, steps=STEPS, template=template)
    each = [encoder.reconfigured(steps=k) for k in range(1, STEPS + 1)]
    steps = [one.encode(TEXTS, instruction=INSTRUCTION) for one in each]
    assert abs(steps[0] - steps[-1]).max() > 1e-3
    for i, text in enumerate(TEXTS):
        expected, _ = slow(name).gircse(text, INSTRUCTION, STEPS, template)
        for k in range(STEPS):
            assert steps[k][i] == pytest.approx(expected[k], abs=1e-5)


def test_five_steps_are_the_default(make):
    encoder = make("gircse", "llama")
    assert encoder.steps == 5
    explicit = make("gircse", "llama", steps=5).encode(TEXTS[:2])
    assert encoder.encode(TEXTS[:2]) == pytest.approx(explicit, abs=1e-6)
    assert encoder.reconfigured(steps=2).steps == 2


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_answers_are_the_soft_tokens_averaged_over_the_steps(make, slow, name):
    encoder = make("gircse", name, steps=3)
    recorder = encoder.words = Recorder()
    encoded = encoder.encode_with_words(["the toy broke"], instruction=INSTRUCTION)
    vectors, said = slow(name).gircse("the toy broke", INSTRUCTION, 3)
    _, prior = slow(name).gircse("", INSTRUCTION, 3)
    assert torch.allclose(recorder.answers[0][0], said, atol=1e-5)
    assert torch.allclose(recorder.priors[0][0], prior, atol=1e-5)
    assert encoded.embeddings[0] == pytest.approx(vectors[-1], abs=1e-5)


def test_no_steps_are_refused(make):
    with pytest.raises(UsageError, match="steps is 0; GIRCSE needs at least 1"):
        make("gircse", "llama", steps=0)


POOLINGS = ["daap", "input-last", "special-first", "special-mean", "all-mean", "input-last+special-first"]


def learned(length=8):
    return torch.randn(length, 32, generator=torch.Generator().manual_seed(5)) * 0.3


@pytest.mark.parametrize(
    ("name", "look_ahead", "template"),
    [("llama", 0, "input-first"), ("llama", 1, "input-first"), ("mistral", 8, "instruct-query")],
)
@pytest.mark.parametrize("pooling", POOLINGS)
def test_poolings_equal_the_reference(backbone, slow, name, pooling, look_ahead, template):
    options = EncoderOptions(pooling=pooling, look_ahead=look_ahead, template=template)
    vectors = InstEmbEncoder(backbone(name), options, {LEARNED: learned()}).encode(TEXTS, instruction=INSTRUCTION)
    for text, vector in zip(TEXTS, vectors, strict=True):
        expected, _ = slow(name).instemb(text, INSTRUCTION, pooling, learned()[:look_ahead], template)
        assert vector == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("look_ahead", [0, 3])
def test_answers_are_the_mean_over_last_and_look_ahead_positions(backbone, slow, look_ahead):
    encoder = InstEmbEncoder(backbone("mistral"), EncoderOptions(look_ahead=look_ahead), {LEARNED: learned()})
    recorder = encoder.words = Recorder()
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
    recorder = encoder.words = Recorder()
    texts = ["the toy broke"]
    encoder.encode_with_words(texts, instruction=INSTRUCTION)
    _, said = slow(name).masked(texts[0], INSTRUCTION, "masks")
    _, prior = slow(name).masked("", INSTRUCTION, "masks")
    assert torch.allclose(recorder.answers[0][0], said, atol=1e-6)
    assert torch.allclose(recorder.priors[0][0], prior, atol=1e-6)


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
