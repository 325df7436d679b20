import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from training_models import INSTRUCTIONS, TEXTS, gradients, last_states, model, move, tokeniser

from retriever.core.errors import CheckpointError, UsageError
from retriever.encoders.behind_prompt import untrained_look_ahead
from retriever.encoders.checkpoint import load_checkpoint
from retriever.encoders.methods import EncoderOptions
from retriever.encoders.sources import write_manifest
from retriever.training.adapter_files import load_trained, prove_active, save_trained, trained_encoder
from retriever.training.passes import student_states

SEVEN = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
OPTIONS = EncoderOptions(default_instruction="mood")


def save(one, folder, method="instemb", **extra):
    save_trained(one, folder, method=method, options=OPTIONS, **extra)
    return folder


def prove(folder, one, **options):
    """Load what was saved, as the model in training runs, and prove it active."""
    dtype = str(one.backbone.dtype).removeprefix("torch.")
    saved = load_checkpoint(folder, EncoderOptions(), device="cpu", dtype=dtype)
    return prove_active(saved, one, TEXTS, **options)


def leaves(one):
    return {name.split(".lora_")[0].rpartition(".")[2] for name in one.parameters}


def layers(one):
    return {part for name in one.parameters for part in name.split(".") if part.isdigit()}


def read(one):
    return last_states(one, tokeniser(one).separate(TEXTS, INSTRUCTIONS))


@pytest.mark.parametrize("kind", ["lora", "layers"])
@pytest.mark.parametrize("trained", [True, False])
def test_layers_below_the_trained_ones_need_no_gradients_unless_the_look_ahead_embeddings_do(tiny, kind, trained):
    one = model(tiny("llama"), kind=kind, layers=1, look_ahead=2, train_look_ahead=trained)
    assert ("look_ahead" in one.parameters) == trained
    first, second = one.backbone.model.base_model.layers if kind == "layers" else one.peft.base_model.model.model.layers
    seen = []
    first.register_forward_hook(lambda layer, inputs, output: seen.append(output.requires_grad))
    second.register_forward_hook(lambda layer, inputs, output: seen.append(output.requires_grad))
    states = student_states(one, tokeniser(one).separate(TEXTS, INSTRUCTIONS))
    assert seen == [trained, True]
    states.tail.square().sum().backward()
    assert (one.look_ahead.grad is not None) == trained
    assert all(gradient.abs().max() > 0 for gradient in gradients(one).values())


def test_look_ahead_embeddings_that_are_not_trained_are_saved_as_they_began(tiny, tmp_path):
    one = model(tiny("llama"), look_ahead=2, train_look_ahead=False)
    save(one, tmp_path / "saved", dtype=torch.float32)
    stored = load_file(tmp_path / "saved" / "look_ahead.safetensors")["look_ahead"]
    assert torch.equal(stored, untrained_look_ahead(one.backbone, 2))
    prove(tmp_path / "saved", one)
    assert load_trained(tmp_path / "saved", device="cpu", dtype="float32").look_ahead_length == 2


def test_all_seven_projections_of_every_layer_are_adapted(tiny):
    one = model(tiny("llama"))
    assert leaves(one) == SEVEN
    assert layers(one) == {"0", "1"}
    assert len(one.parameters) == 2 * 7 * 2
    shapes = {name.partition("self_attn.")[2]: tuple(p.shape) for name, p in one.parameters.items() if "0.self" in name}
    assert shapes["q_proj.lora_A.default.weight"] == (2, 32)
    assert shapes["k_proj.lora_B.default.weight"] == (16, 2)


def test_projections_and_layers_can_be_chosen(tiny):
    one = model(tiny("llama"), projections=("q_proj", "v_proj"), layers=1)
    assert leaves(one) == {"q_proj", "v_proj"}
    assert layers(one) == {"1"}


@pytest.mark.parametrize(
    ("name", "expected"), [("gpt2", {"c_attn", "c_proj", "c_fc"}), ("roberta", {"query", "key", "value", "dense"})]
)
def test_other_models_have_their_own_projections(tiny, name, expected):
    one = model(tiny(name))
    assert leaves(one) == expected
    assert not [name for name in one.parameters if "head" in name]


def test_an_untrained_adapter_changes_nothing_and_alpha_scales_a_trained_one(tiny, backbone):
    one = model(tiny("llama"), moved=False)
    ids = torch.tensor([tokeniser(one).separate(TEXTS[:1], INSTRUCTIONS[:1]).rows[0]])
    expected = backbone("llama").pretrained().base_model(ids).last_hidden_state[0, -1]
    assert torch.allclose(read(one)[0], expected, atol=1e-5)
    small, large = (model(tiny("llama"), alpha=alpha) for alpha in (1, 8))
    with large.base():
        untrained = read(large)
    assert (read(small) - untrained).norm() < (read(large) - untrained).norm()


def test_a_quarter_of_the_layers_rounded_up_is_unfrozen(tiny):
    one = model(tiny("mistral"), kind="layers")
    assert layers(one) == {"2"}  # one of three
    assert "model.layers.2.self_attn.q_proj.weight" in one.parameters
    assert layers(model(tiny("mistral"), kind="layers", layers=2)) == {"1", "2"}
    read(one).sum().backward()
    assert all(gradient is not None for gradient in gradients(one).values())
    frozen = [p for name, p in one.backbone.model.named_parameters() if name not in one.parameters]
    assert all(p.grad is None and not p.requires_grad for p in frozen)


@pytest.mark.parametrize("kind", ["lora", "layers"])
def test_the_base_is_the_untrained_model_and_only_within_the_block(tiny, backbone, kind):
    one = model(tiny("llama"), kind=kind)
    trained = read(one)
    with one.base():
        untrained = read(one)
    with pytest.raises(ZeroDivisionError), one.base():
        raise ZeroDivisionError
    assert torch.equal(read(one), trained)
    ids = torch.tensor([tokeniser(one).separate(TEXTS[:1], INSTRUCTIONS[:1]).rows[0]])
    expected = backbone("llama").pretrained().base_model(ids).last_hidden_state[0, -1]
    assert torch.allclose(untrained[0], expected, atol=1e-5)
    assert (untrained - trained).abs().max() > 0.05


@pytest.mark.parametrize("kind", ["lora", "layers"])
def test_gradients_flow_where_the_base_was_read_in_between(tiny, kind):
    one = model(tiny("llama"), kind=kind)
    read(one).sum().backward()
    expected = gradients(one)
    states = read(one)
    with one.base(), torch.no_grad():
        read(one)
    states.sum().backward()
    for name, gradient in gradients(one).items():
        assert torch.equal(gradient, expected[name])


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"dtype": "float16"}, "float16"),
        ({"projections": ("q_proj", "wq")}, "no projection wq"),
        ({"layers": 3}, "layers is 3; .* has 2"),
        ({"kind": "layers", "layers": 0}, "layers is 0"),
    ],
)
def test_what_the_model_does_not_have_is_refused(tiny, settings, match):
    with pytest.raises(UsageError, match=match):
        model(tiny("llama"), **settings)


@pytest.mark.parametrize(
    ("method", "kind"), [("instemb", "lora"), ("instemb", "layers"), ("gircse", "lora"), ("inbedder", "layers")]
)
def test_a_saved_model_gives_the_trained_vectors(tiny, tmp_path, method, kind):
    one = model(tiny("llama"), kind=kind, look_ahead=3 if method == "instemb" else 0)
    save(one, tmp_path / "saved", method, dtype=torch.float32)
    proof = prove(tmp_path / "saved", one)
    assert proof.to_trained < 1e-5
    assert proof.to_base > 0.05
    loaded = load_checkpoint(tmp_path / "saved", EncoderOptions(), device="cpu", dtype="float32")
    expected = trained_encoder(one, method, OPTIONS).encode(TEXTS, instruction="mood")
    assert np.abs(loaded.encode(TEXTS) - expected).max() < 1e-5
    assert loaded.backbone.source.digest != one.backbone.source.digest


@pytest.mark.parametrize(("kind", "dtype", "limit"), [("lora", "bfloat16", 0.15), ("layers", "float32", 0.02)])
def test_weights_are_stored_in_bfloat16_and_stay_float32_in_training(tiny, tmp_path, kind, dtype, limit):
    one = model(tiny("llama"), kind=kind, dtype=dtype, look_ahead=3)
    before = {name: parameter.detach().clone() for name, parameter in one.parameters.items()}
    folder = save(one, tmp_path / "saved")
    stored = load_file(folder / ("layers.safetensors" if kind == "layers" else "adapter_model.safetensors"))
    assert {tensor.dtype for tensor in stored.values()} == {torch.bfloat16}
    for name, parameter in one.parameters.items():
        assert torch.equal(parameter, before[name])
    assert prove(folder, one).to_trained < limit


def test_nothing_of_this_machine_is_saved_and_no_hub_is_asked(tiny, tmp_path, recwarn):
    one = model(tiny("llama"))
    one.backbone.model.name_or_path = "a-model"
    for name in ("first", "second"):
        save(one, tmp_path / name, "plain")
    texts = [(tmp_path / name / "adapter_config.json").read_text() for name in ("first", "second")]
    assert texts[0] == texts[1]
    assert json.loads(texts[0])["base_model_name_or_path"] == "a-model"
    assert json.loads(texts[0])["target_modules"] == sorted(SEVEN)
    assert not [warning for warning in recwarn if "config file" in str(warning.message)]


def test_an_adapter_that_does_nothing_is_not_called_active(tiny, tmp_path):
    one = model(tiny("llama"), moved=False)
    with pytest.raises(CheckpointError, match="does nothing"):
        prove(save(one, tmp_path / "saved", "inbedder"), one)


@pytest.mark.parametrize("kind", ["lora", "layers"])
def test_a_model_is_compared_with_the_one_that_training_began_from(tiny, tmp_path, kind):
    one = model(tiny("llama"), kind=kind, look_ahead=2)
    start = one.values
    with pytest.raises(CheckpointError, match="does nothing"):
        prove(save(one, tmp_path / "unmoved"), one, start=start)
    move(one, seed=8)
    moved = one.values
    proof = prove(save(one, tmp_path / "moved"), one, start=start)
    assert proof.to_base > 0.05
    assert all(torch.equal(values, moved[name]) for name, values in one.values.items())
    assert not any(torch.equal(values, moved[name]) for name, values in start.items())


def test_another_adapter_than_the_trained_one_is_noticed(tiny, tmp_path):
    one = model(tiny("llama"))
    folder = save(one, tmp_path / "saved", "inbedder")
    move(one, seed=8)
    with pytest.raises(CheckpointError, match="does not give the trained vectors"):
        prove(folder, one)


def test_a_number_that_is_none_is_noticed(tiny, tmp_path):
    one = model(tiny("llama"), kind="layers")
    folder = save(one, tmp_path / "saved", "inbedder")
    stored = load_file(folder / "layers.safetensors")
    name = next(name for name in stored if "down_proj" in name)
    save_file({**stored, name: stored[name] * float("nan")}, folder / "layers.safetensors")
    write_manifest(folder)
    with pytest.raises(CheckpointError, match="does not give the trained vectors"):
        prove(folder, one)


@pytest.mark.parametrize("kind", ["lora", "layers"])
def test_training_goes_on_from_a_saved_model(tiny, tmp_path, kind):
    one = model(tiny("llama"), kind=kind, look_ahead=3)
    folder = save(one, tmp_path / "saved", dtype=torch.float32)
    again = load_trained(folder, device="cpu", dtype="float32")
    assert list(again.parameters) == list(one.parameters)
    for name, parameter in again.parameters.items():
        assert parameter.requires_grad and torch.equal(parameter, one.parameters[name]), name
    assert torch.equal(read(again), read(one))
    with one.base(), again.base():
        assert torch.equal(read(again), read(one))
    assert not torch.equal(last_states(again, tokeniser(again).separate(TEXTS, INSTRUCTIONS), dropout=0.3), read(again))


def test_there_is_nothing_to_go_on_from_in_an_untrained_checkpoint(tiny, tmp_path, backbone):
    from retriever.encoders.checkpoint import save_checkpoint
    from retriever.encoders.inbedder import PlainEncoder

    save_checkpoint(PlainEncoder(backbone("llama"), EncoderOptions()), tmp_path / "saved", card="")
    with pytest.raises(CheckpointError, match="no trained weights"):
        load_trained(tmp_path / "saved", device="cpu", dtype="float32")
