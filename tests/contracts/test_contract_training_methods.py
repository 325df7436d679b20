"""Rules for every training method, whoever adds a row to `METHODS`."""

from dataclasses import fields, is_dataclass

import finetune_fakes as fakes
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from retriever import load_encoder
from retriever.core.errors import UsageError
from retriever.core.registry import resolve
from retriever.encoders.catalog import METHODS as ENCODERS
from retriever.encoders.catalog import SENTENCE_METHODS, resolve_name
from retriever.evaluation.general import GeneralScore
from retriever.evaluation.scores import mean_score
from retriever.training.config import default_config, read_config
from retriever.training.methods import METHODS, find_method
from retriever.training.objectives.base import ObjectiveSettings
from retriever.training.rows import TrainingRow
from retriever.training.run import finetuning
from retriever.training.run.bases import load_base
from retriever.training.run.finetuning import FinetuneRequest, check_minable, finetune

SHORT = "[loop]\nmax_steps = 2\nlearning_rate = 0.01\n[adapter]\nrank = 2\n[batch]\ntexts = 4\n"
ROWS = [
    TrainingRow(row["text"], row["question"], row["answer"], group=row["question"], file="a.jsonl")
    for row in fakes.rows(4)
]
MINED = [("a dull lamp",)] * len(ROWS)


@pytest.fixture(params=METHODS.values(), ids=METHODS)
def method(request):
    return request.param


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def base(method, tiny):
    """A tiny model under the method's own encoder."""
    return f"{method.encoder or 'inbedder'}:{tiny('sentence' if method.sentence else 'llama')}"


def loaded(base, method):
    """The model in training, its new weights moved off zero, and the method's settings."""
    config = default_config(method, rows=200)
    found = load_base(base, config, device="cpu", dtype="float32")
    generator = torch.Generator().manual_seed(6)
    with torch.no_grad():
        for parameter in found.learner.adapted.parameters.values():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return found, config


def test_a_row_names_things_that_exist(method):
    settings, objective = resolve(method.settings)(), resolve(method.objective)
    assert find_method(method.name) is method
    assert isinstance(settings, ObjectiveSettings)
    assert is_dataclass(settings)
    assert settings.__dataclass_params__.frozen
    assert callable(objective.backward)
    assert method.encoder in {None, *ENCODERS, *SENTENCE_METHODS}
    assert resolve_name(method.base)
    assert (method.mined == "none") == (settings.negatives == 0)


@pytest.mark.parametrize("continued", [False, True])
def test_settings_come_back_from_their_file(method, continued, tmp_path):
    config = default_config(method, rows=200, continued=continued)
    (tmp_path / "tune.toml").write_text(config.to_toml())
    assert read_config(tmp_path / "tune.toml", None, rows=9) == config
    for section, values in {**method.defaults, **(method.continued if continued else {})}.items():
        chosen = getattr(config, section)
        assert values.keys() <= {one.name for one in fields(chosen)}
        assert {name: getattr(chosen, name) for name in values} == values


def test_gradients_reach_all_that_is_trained_and_the_loss_falls(method, base):
    found, config = loaded(base, method)
    objective = method.make_objective(found.learner, ROWS, config.objective, config.batch)
    assert sorted(row for batch in objective.batches(0) for row in batch) == list(range(len(ROWS)))
    assert objective.batches(1) == objective.batches(1)
    parameters = found.learner.adapted.parameters
    assert ("look_ahead" in parameters) == (method.look_ahead and config.adapter.look_ahead > 0)
    optimizer = torch.optim.Adam(parameters.values(), lr=0.005)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        losses.append(objective.backward(range(len(ROWS)))["loss"])
        assert [name for name, one in parameters.items() if one.grad is None or not one.grad.abs().max() > 0] == []
        optimizer.step()
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.9 * losses[0]


def test_hard_negatives_count_or_are_refused(method, base):
    found, config = loaded(base, method)

    def loss(mined):
        made = method.make_objective(found.learner, ROWS, config.objective, config.batch, mined=mined)
        return made.backward([0, 1])["loss"]

    if method.mined == "none":
        with pytest.raises(UsageError, match=f"{method.name} learns from no hard negatives"):
            check_minable(method, ROWS)
    else:
        assert abs(loss(MINED) - loss(None)) > 1e-3


def test_a_sentence_encoder_is_trained_or_refused(method, tiny):
    sentences, config = f"st:{tiny('sentence')}", default_config(method, rows=200)
    if method.sentence:
        found = load_base(sentences, config, device="cpu", dtype="float32")
        assert (found.shape, found.continued) == ("rank 32", False)
    else:
        with pytest.raises(UsageError, match=f"{method.name} trains language models") as caught:
            load_base(sentences, config, device="cpu", dtype="float32")
        assert "--method instructor" in caught.value.hint


def test_a_masked_model_is_trained_or_refused(method, tiny):
    masked, config = f"inbedder:{tiny('roberta')}", default_config(method, rows=200)
    if method.masked:
        assert load_base(masked, config, device="cpu", dtype="float32").learner.adapted.backbone.masked
    elif method.sentence:
        with pytest.raises(UsageError, match=f"{method.name} trains sentence encoders"):
            load_base(masked, config, device="cpu", dtype="float32")
    else:
        with pytest.raises(UsageError, match=f"is a masked model; {method.name} needs a causal one"):
            load_base(masked, config, device="cpu", dtype="float32")


def test_a_run_in_pieces_saves_the_encoder_of_an_unbroken_one(method, base, tmp_path, monkeypatch):
    same = mean_score("general", "mean", np.full(9, 70.0), seed=0)
    monkeypatch.setattr(finetuning, "general_score", lambda encoder, seed: GeneralScore(same, same, same))
    monkeypatch.setattr(finetuning, "draw_curves", lambda path, *data: path.write_text(""))
    (tmp_path / "tune.toml").write_text(SHORT)
    rows = fakes.write(tmp_path / "qa.jsonl", fakes.rows(24))

    def run(name, **changes):
        options = {"method": method.name, "base": base, "config": tmp_path / "tune.toml", "promote": False}
        return finetune(FinetuneRequest([rows], tmp_path / name, device="cpu", dtype="float32", **options, **changes))

    assert run("unbroken").step == 2
    assert run("pieces", minutes=1e-9).step == 1
    assert run("pieces", resume=True).status == "finished"
    one, other = (load_encoder(str(tmp_path / name), device="cpu", dtype="float32") for name in ("unbroken", "pieces"))
    assert one.fingerprint == other.fingerprint != load_encoder(base, device="cpu", dtype="float32").fingerprint
    assert one.method == (method.encoder or "inbedder")
    assert np.array_equal(one.encode(["the red kettle"]), other.encode(["the red kettle"]))
    for file in (tmp_path / "unbroken").glob("*.safetensors"):
        ours, theirs = load_file(file), load_file(tmp_path / "pieces" / file.name)
        assert all(torch.equal(values, theirs[name]) for name, values in ours.items())
