import numpy as np
import pytest
import torch
from training_models import ANSWERS, INSTRUCTIONS, TEXTS, gradients, last_states, model, tokeniser

from retriever.core.errors import UsageError
from retriever.core.similarity import normalise
from retriever.encoders.behind_prompt import GircseEncoder
from retriever.encoders.inbedder import MaskedInBedderEncoder
from retriever.encoders.methods import EncoderOptions
from retriever.encoders.readout import daap
from retriever.training.adapter_files import trained_encoder
from retriever.training.passes import (
    VIEW_DROPOUT,
    lone_prompts,
    masked_answer_logits,
    soft_token_states,
    student_states,
    teacher_states,
)
from retriever.training.prompt_batches import pad_rows

QUESTIONS = [["what kind of product", "mood"], ["mood"], ["which material is it", "mood", "what kind of product"], [""]]
CAUSAL = ["llama", "mistral", "gpt2", "qwen3"]


@pytest.fixture(scope="module")
def adapted(tiny):
    loaded = {}

    def get(name, **settings):
        key = (name, *sorted(settings.items()))
        if key not in loaded:
            loaded[key] = model(tiny(name), look_ahead=3, **settings)
        return loaded[key]

    return get


def prompts(one, template="input-first"):
    return tokeniser(one, template).separate(TEXTS, INSTRUCTIONS)


def unit(states):
    return normalise(states.detach().float().numpy())


def encoded(encoder):
    """Every text alone, under its own instruction, by the encoder."""
    return np.concatenate(
        [encoder.encode([text], instruction=asked) for text, asked in zip(TEXTS, INSTRUCTIONS, strict=True)]
    )


def plain(one, ids, tail=()):
    """States of one unpadded row, read by the bare model."""
    table = one.backbone.model.get_input_embeddings().weight
    inputs = torch.cat([table[torch.tensor(ids)], *([tail] if len(tail) else [])])
    return one.backbone.model.base_model(inputs_embeds=inputs[None], use_cache=False).last_hidden_state[0]


@pytest.mark.parametrize("template", ["input-first", "instruct-query"])
@pytest.mark.parametrize("name", CAUSAL)
def test_the_student_reads_what_the_instemb_encoder_reads(adapted, name, template):
    one = adapted(name)
    read = student_states(one, prompts(one, template))
    for pooling, states in {"daap": daap(read.last, read.tail), "input-last": read.last}.items():
        encoder = trained_encoder(one, "instemb", EncoderOptions(pooling=pooling, template=template))
        assert np.abs(encoded(encoder) - unit(states)).max() < 2e-6
    assert read.tail.shape == (4, 3, 32)


def test_fewer_look_ahead_tokens_are_the_first_ones(adapted):
    one = adapted("llama")
    all_three, two = student_states(one, prompts(one)), student_states(one, prompts(one), look_ahead=2)
    assert torch.allclose(two.tail, all_three.tail[:, :2], atol=1e-6)


@pytest.mark.parametrize("kind", ["lora", "layers"])
def test_the_teacher_is_the_untrained_model_reading_the_answer(adapted, backbone, kind):
    one = adapted("llama", kind=kind)
    rows = prompts(one)
    answers = tokeniser(one).answers(ANSWERS)
    read = teacher_states(one, rows, answers, length=4)
    assert not read.last.requires_grad and not read.tail.requires_grad
    untrained = backbone("llama").pretrained().base_model
    for i, (row, answer) in enumerate(zip(rows.rows, answers, strict=True)):
        taught = answer[:4]
        states = untrained(torch.tensor([[*row, *taught]])).last_hidden_state[0]
        assert torch.allclose(read.last[i], states[len(row) - 1], atol=1e-5)
        assert torch.allclose(read.tail[i, : len(taught)], states[len(row) :], atol=1e-5)
    assert (last_states(one, rows) - read.last).abs().max() > 0.05


def test_the_teacher_has_no_dropout_even_inside_a_dropout_view(adapted):
    one = adapted("llama")
    answers = tokeniser(one).answers(ANSWERS)
    still = teacher_states(one, prompts(one), answers, length=4)
    with one.dropout(0.5):
        assert torch.equal(teacher_states(one, prompts(one), answers, length=4).last, still.last)


@pytest.mark.parametrize(("name", "kind"), [("llama", "layers"), ("mistral", "lora"), ("gpt2", "lora")])
def test_the_dropout_view_differs_and_leaves_nothing_behind(adapted, name, kind):
    one = adapted(name, kind=kind)
    rows = prompts(one)
    first = last_states(one, rows)
    views = [last_states(one, rows, dropout=VIEW_DROPOUT) for _ in range(2)]
    assert (views[0] - first).abs().amax(dim=1).min() > 1e-3
    assert (views[0] - views[1]).abs().amax(dim=1).min() > 1e-3
    assert torch.equal(last_states(one, rows), first)


def test_a_pass_uses_the_settings_dropout_unless_told_otherwise(tiny):
    one = model(tiny("llama"), dropout=0.3)
    still = last_states(one, prompts(one), dropout=0.0)
    assert (last_states(one, prompts(one)) - still).abs().max() > 1e-3
    assert torch.equal(last_states(one, prompts(one), dropout=0.0), still)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_an_answer_alone_is_read_without_a_template(adapted, name):
    one = adapted(name)
    answers = tokeniser(one).answers(ANSWERS)
    read = last_states(one, lone_prompts(one, answers))
    for i, ids in enumerate(answers):
        assert torch.allclose(read[i], plain(one, [*one.backbone.tokenizer.start, *ids])[-1], atol=1e-5)


@pytest.mark.parametrize("name", CAUSAL)
def test_soft_tokens_are_those_of_the_gircse_encoder(adapted, name):
    one = adapted(name)
    read = soft_token_states(one, prompts(one), steps=4)
    encoder = GircseEncoder(one.backbone, EncoderOptions(steps=4))
    for i, (text, asked) in enumerate(zip(TEXTS, INSTRUCTIONS, strict=True)):
        for k in range(4):
            expected = encoder.reconfigured(steps=k + 1).encode([text], instruction=asked)
            assert np.abs(expected - unit(read[i, k : k + 1])).max() < 2e-6


def test_gradients_of_soft_tokens_equal_those_of_reading_everything_again(adapted):
    one = adapted("llama")
    rows = prompts(one)
    weights = torch.randn(4, 3, 32, generator=torch.Generator().manual_seed(1))
    (soft_token_states(one, rows, steps=3) * weights).sum().backward()
    cached = gradients(one)
    table = one.backbone.model.get_input_embeddings().weight
    total = torch.zeros(())
    for row, weight in zip(rows.rows, weights, strict=True):
        inputs, states = table[torch.tensor(row)], []
        for k in range(3):
            out = one.backbone.model.base_model(inputs_embeds=inputs[None], use_cache=False).last_hidden_state[0, -1]
            soft = one.backbone.model.lm_head(out).softmax(-1)
            inputs = torch.cat([inputs, (soft @ table)[None]])
            states.append(
                one.backbone.model.base_model(inputs_embeds=inputs[None], use_cache=False).last_hidden_state[0, -1]
            )
            total = total + (torch.stack(states).mean(0) * weight[k]).sum()
    total.backward()
    for name, gradient in gradients(one).items():
        if name != "look_ahead":
            assert torch.allclose(cached[name], gradient, atol=1e-4, rtol=1e-3), name


def test_three_masks_stand_where_the_masked_encoder_puts_them(adapted, monkeypatch):
    one = adapted("roberta")
    states, logits = [], one.backbone.logits
    monkeypatch.setattr(one.backbone, "logits", lambda found: states.append(found) or logits(found))
    masked_answer_logits(one, prompts(one), [[7, 7, 7]] * 4)
    encoder = MaskedInBedderEncoder(one.backbone, EncoderOptions())
    assert np.abs(encoded(encoder) - unit(states[0].reshape(4, 3, -1).mean(dim=1))).max() < 2e-6


def test_a_batch_without_answers_is_refused(adapted):
    one = adapted("roberta")
    with pytest.raises(UsageError, match="No row"):
        masked_answer_logits(one, prompts(one), [[], [], [], []])


def test_padding_keeps_short_and_empty_answers():
    padded = pad_rows([[5, 6], [], [7]], width=3)
    assert padded.ids.tolist() == [[5, 6, 0], [0, 0, 0], [7, 0, 0]]
    assert padded.counted.tolist() == [[True, True, False], [False] * 3, [True, False, False]]


def flat(questions):
    pairs = [(text, one) for text, asked in zip(TEXTS, questions, strict=True) for one in asked]
    return [text for text, _ in pairs], [one for _, one in pairs]


@pytest.mark.parametrize("look_ahead", [0, 3])
@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_questions_of_one_text_read_together_give_what_they_give_apart(adapted, name, look_ahead):
    one = adapted(name)
    words = tokeniser(one)
    together = student_states(one, words.shared(TEXTS, QUESTIONS), look_ahead=look_ahead)
    apart = student_states(one, words.separate(*flat(QUESTIONS)), look_ahead=look_ahead)
    assert torch.allclose(together.last, apart.last, atol=1e-5)
    assert torch.allclose(together.tail, apart.tail, atol=1e-5)


@pytest.mark.parametrize("kind", ["lora", "layers"])
def test_a_bfloat16_model_trains_float32_parameters(tiny, kind):
    one = model(tiny("llama"), dtype="bfloat16", kind=kind, look_ahead=3)
    read = student_states(one, prompts(one))
    assert read.last.dtype == torch.bfloat16
    encoder = trained_encoder(one, "instemb", EncoderOptions(pooling="input-last"))
    assert np.abs(encoded(encoder) - unit(read.last)).max() < 0.05
    soft = soft_token_states(one, prompts(one), steps=2)
    (read.tail.float().sum() + soft.sum()).backward()
    for name, gradient in gradients(one).items():
        assert gradient.dtype == torch.float32 and gradient.abs().max() > 0, name
