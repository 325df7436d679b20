import json
import os
import shutil
import signal
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tiny_models import flip_byte
from training_models import INSTRUCTIONS, TEXTS, last_states, model, tokeniser

from retriever.core.errors import CheckpointError, TrainingError, UsageError
from retriever.training import loop
from retriever.training.loop import LoopSettings, Trainer

SETTINGS = LoopSettings(learning_rate=0.01, epochs=3, warmup=0.3)
IDENTITY = {"seed": 4, "data": "abc"}


class StopError(Exception):
    pass


@pytest.fixture
def save_every_step(monkeypatch):
    monkeypatch.setattr(loop, "CHECKPOINT_MINUTES", 0.0)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def shuffled(rows):
    """Batches of two, in an order of every epoch's own."""

    def batches(epoch):
        order = np.random.default_rng([4, epoch]).permutation(rows).tolist()
        return [order[i : i + 2] for i in range(0, rows, 2)]

    return batches


def trainer(folder, tiny=None, *, settings=SETTINGS, identity=IDENTITY, backward=None, rows=5, **adapter):
    """Over a tiny model with dropout, or over one number."""
    if tiny is None:
        parameters = {"w": torch.nn.Parameter(torch.tensor([4.0]))}
        default = pull(parameters["w"])
    else:
        one = model(tiny("llama"), **adapter)
        parameters, words = one.parameters, tokeniser(one)

        def default(batch):
            chosen = [i % len(TEXTS) for i in batch]
            prompts = words.separate([TEXTS[i] for i in chosen], [INSTRUCTIONS[i] for i in chosen])
            loss = last_states(one, prompts, dropout=0.2).square().mean()
            loss.backward()
            return {"loss": loss.item()}

    return Trainer(parameters, backward or default, shuffled(rows), settings, folder, identity)


def pull(weight):
    def backward(batch):
        loss = weight.square().sum() * len(batch)
        loss.backward()
        return {"loss": loss.item(), "distill": 1.0}

    return backward


def weights(one):
    return {name: parameter.detach().clone() for name, parameter in one.parameters.items()}


def stop_after(step):
    def progress(now):
        if now.step == step:
            raise StopError

    return progress


def assert_equal(one, other):
    for name, values in weights(one).items():
        assert torch.equal(values, other[name]), name


# Three batches an epoch: at the end of one, and within one.
@pytest.mark.parametrize(("step", "kind"), [(3, "lora"), (5, "layers")])
@pytest.mark.usefixtures("save_every_step")
def test_a_resumed_run_ends_with_the_weights_of_an_unbroken_one(tiny, tmp_path, step, kind):
    unbroken = trainer(tmp_path / "unbroken", tiny, kind=kind)
    torch.manual_seed(11)
    result = unbroken.run()
    assert (result.steps, result.position.step, result.finished) == (9, 9, True)
    expected = weights(unbroken)
    torch.manual_seed(11)
    broken = trainer(tmp_path / "broken", tiny, kind=kind)
    torch.manual_seed(11)
    with pytest.raises(StopError):
        broken.run(on_progress=stop_after(step + 1))
    assert broken.checkpoints.newest().name == f"step-{step:08d}"
    torch.manual_seed(99)  # another process: its random numbers stand elsewhere
    resumed = trainer(tmp_path / "broken", tiny, kind=kind)
    assert resumed.run(resume=True).finished
    assert_equal(resumed, expected)
    losses = [[row["loss"] for row in one.record.rows()] for one in (unbroken, resumed)]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 9


def test_a_finished_run_resumed_changes_nothing(tmp_path):
    first = trainer(tmp_path)
    first.run()
    again = trainer(tmp_path)
    assert again.run(resume=True).finished
    assert_equal(again, weights(first))


def test_sigint_saves_the_step_under_way_and_raises(tmp_path):
    one = trainer(tmp_path)

    def interrupt(now):
        if now.step == 4:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        one.run(on_progress=interrupt)
    assert one.checkpoints.newest().name == "step-00000004"
    assert signal.getsignal(signal.SIGINT) is before
    whole = trainer(tmp_path / "whole")
    whole.run()
    resumed = trainer(tmp_path)
    resumed.run(resume=True)
    assert_equal(resumed, weights(whole))


def test_a_second_sigint_ends_at_once(tmp_path):
    one = trainer(tmp_path)

    def interrupt(now):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        one.run(on_progress=interrupt)
    assert one.checkpoints.newest() is None


def test_training_works_outside_the_main_thread(tmp_path):
    one, results = trainer(tmp_path), []
    thread = threading.Thread(target=lambda: results.append(one.run()))
    thread.start()
    thread.join()
    assert results[0].finished


def test_adam_with_warmup_and_clipping_is_the_library_s(tmp_path):
    settings = LoopSettings(learning_rate=0.1, epochs=2, warmup=0.5, max_grad_norm=0.5, weight_decay=0.1)
    one = trainer(tmp_path, settings=settings)
    one.run()
    weight = torch.nn.Parameter(torch.tensor([4.0]))
    optimizer = torch.optim.AdamW([weight], lr=0.1, weight_decay=0.1)
    rates = [0.1 / 3, 0.2 / 3, 0.1, 0.1, 0.2 / 3, 0.1 / 3]
    for rate, size in zip(rates, [2, 2, 1, 2, 2, 1], strict=True):
        optimizer.zero_grad()
        (weight.square().sum() * size).backward()
        torch.nn.utils.clip_grad_norm_([weight], 0.5)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
    assert torch.allclose(one.parameters["w"], weight)
    assert [row["learning_rate"] for row in one.record.rows()] == pytest.approx(rates)
    assert one.record.rows()[0]["gradient_norm"] == pytest.approx(16)


def test_the_rate_can_stay_after_warming_up():
    settings = LoopSettings(learning_rate=1.0, warmup=0.25, decay="none")
    assert [settings.rate(step, 8) for step in range(8)] == [0.5] + [1.0] * 7
    assert LoopSettings(learning_rate=1.0, warmup=0).rate(0, 4) == 1.0


def test_max_steps_ends_the_run_and_sets_the_schedule(tmp_path):
    one = trainer(tmp_path, settings=LoopSettings(learning_rate=1.0, epochs=3, max_steps=4, warmup=0))
    assert one.run().position.step == 4
    assert [row["learning_rate"] for row in one.record.rows()] == [1.0, 0.75, 0.5, 0.25]


def test_progress_says_loss_pace_and_what_is_left(tmp_path):
    seen = []
    trainer(tmp_path).run(on_progress=seen.append)
    assert [now.step for now in seen] == list(range(1, 10))
    assert [now.epoch for now in seen] == [0] * 3 + [1] * 3 + [2] * 3
    assert seen[0].loss == seen[0].losses["loss"]
    assert seen[1].loss == pytest.approx(0.9 * seen[0].loss + 0.1 * seen[1].losses["loss"])
    assert seen[0].losses["distill"] == 1.0
    assert seen[-1].seconds_left == 0 and seen[0].seconds_left > 0 and seen[0].rows_per_second > 0


def test_random_numbers_drawn_by_the_progress_callback_change_nothing(tiny, tmp_path):
    ends = []
    for name, callback in {"quiet": None, "noisy": lambda now: torch.rand(7)}.items():
        one = trainer(tmp_path / name, tiny)
        torch.manual_seed(11)
        one.run(on_progress=callback)
        ends.append(weights(one))
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_the_record_says_what_the_run_was(tmp_path):
    trainer(tmp_path).run()
    about = json.loads((tmp_path / "run.json").read_text())
    assert (about["seed"], about["data"], about["steps"]) == (4, "abc", 9)
    assert about["settings"]["learning_rate"] == 0.01
    assert about["versions"]["torch"] == torch.__version__
    assert len((tmp_path / "losses.jsonl").read_text().splitlines()) == 9


@pytest.mark.parametrize("bad", ["loss", "gradient"])
@pytest.mark.usefixtures("save_every_step")
def test_a_loss_that_is_no_number_ends_the_run_and_keeps_its_states(tmp_path, bad):
    one = trainer(tmp_path)
    good, calls = one.backward, []

    def backward(batch):
        calls.append(batch)
        losses = good(batch)
        if len(calls) == 4:
            if bad == "loss":
                return {"loss": float("nan")}
            one.parameters["w"].grad.fill_(float("inf"))
        return losses

    one.backward = backward
    with pytest.raises(TrainingError, match=r"Step 4: .* rows \d"):
        one.run()
    assert one.checkpoints.newest().name == "step-00000003"
    assert torch.isfinite(one.parameters["w"]).all()


def test_a_run_is_not_overwritten_without_being_asked(tmp_path):
    trainer(tmp_path).run()
    with pytest.raises(UsageError, match="holds a run already, at step-00000009"):
        trainer(tmp_path).run()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"identity": {"seed": 4, "data": "other"}}, "data changed"),
        ({"settings": LoopSettings(learning_rate=0.02)}, "settings changed"),
    ],
)
def test_another_run_s_state_is_refused(tmp_path, change, match):
    trainer(tmp_path).run()
    with pytest.raises(UsageError, match=match):
        trainer(tmp_path, **change).run(resume=True)


def test_another_adapter_s_state_is_refused(tiny, tmp_path):
    trainer(tmp_path, tiny).run()
    with pytest.raises(UsageError, match="other weights"):
        trainer(tmp_path, tiny, layers=1).run(resume=True)


@pytest.mark.usefixtures("save_every_step")
def test_a_changed_byte_of_a_state_is_refused_and_the_one_before_serves(tmp_path):
    first = trainer(tmp_path)
    first.run()
    newest = first.checkpoints.newest()
    flip_byte(newest / "state.safetensors")
    with pytest.raises(CheckpointError, match="Remove this folder"):
        trainer(tmp_path).run(resume=True)
    shutil.rmtree(newest)
    again = trainer(tmp_path)
    again.run(resume=True)
    assert_equal(again, weights(first))


@pytest.mark.parametrize("when", ["before", "during"])
@pytest.mark.usefixtures("save_every_step")
def test_no_room_for_a_state_is_said_and_earlier_ones_stay(tmp_path, monkeypatch, when):
    one = trainer(tmp_path)
    with pytest.raises(StopError):
        one.run(on_progress=stop_after(4))
    if when == "before":
        monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=10))
    else:

        def full(*args, **kwargs):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("retriever.training.checkpoints.save_file", full)
    with pytest.raises(TrainingError, match="cannot be written"):
        trainer(tmp_path).run(resume=True)
    assert sorted(path.name for path in (tmp_path / "states").iterdir()) == ["step-00000002", "step-00000003"]


@pytest.mark.usefixtures("save_every_step")
def test_a_record_cut_short_by_a_crash_is_mended(tmp_path):
    one = trainer(tmp_path)
    with pytest.raises(StopError):
        one.run(on_progress=stop_after(5))
    with (tmp_path / "losses.jsonl").open("a") as file:
        file.write('{"step": 6, "lo')
    trainer(tmp_path).run(resume=True)
    assert [row["step"] for row in one.record.rows()] == list(range(1, 10))


def test_nothing_to_train_is_refused(tmp_path):
    with pytest.raises(UsageError, match="nothing to train"):
        Trainer({}, pull, shuffled(2), SETTINGS, tmp_path, {})
