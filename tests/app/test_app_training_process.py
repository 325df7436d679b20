import sys

import finetune_fakes
import pytest
import tiny_checkpoints
from train_fakes import ended, until

from retriever_app import training_process
from retriever_app.trainings import Told, Training, Trainings


@pytest.fixture
def trainings(tmp_path, monkeypatch):
    monkeypatch.setenv("RETRIEVER_CONFIG", str(tmp_path / "user"))
    return Trainings(tmp_path / "models")


@pytest.fixture
def alone(monkeypatch):
    """Run the process's main in this one, with its signals and its priority left alone."""
    monkeypatch.setattr(training_process.os, "nice", lambda more: None)
    monkeypatch.setattr(training_process.signal, "signal", lambda *given: None)

    def run(training):
        monkeypatch.setattr(sys, "argv", ["process", str(training.folder)])
        return training_process.main()

    return run


def test_a_tiny_model_is_trained_stopped_gone_on_with_and_measured(trainings, tiny, tmp_path):
    tiny_checkpoints.save_trained(tmp_path / "base", tiny("llama"))
    training = trainings.create("moods", finetune_fakes.rows(24))
    trainings.start(training, str(tmp_path / "base"))
    until(lambda: training.record()[0])
    assert trainings.status(training) == "running"
    trainings.stop(training)
    assert ended(trainings, training) == "paused"
    done, steps = training.record()
    assert 0 < len(done) <= steps
    trainings.start(training, "")
    assert ended(trainings, training) == "finished", training.log.read_text()
    report = training.report()
    assert (report["status"], report["steps"]["done"], report["promoted"]) == ("finished", steps, False)
    assert report["base"]["spec"] == str(tmp_path / "base")
    assert report["examples"][0]["after"]
    assert report["command"].startswith(f"retriever finetune {training.rows_file} --output {training.model} --base ")


def test_rows_that_cannot_be_used_are_told(trainings, tiny, alone):
    training = trainings.create("few", finetune_fakes.rows(3))
    training.begin(f"instemb:{tiny('llama')}")
    assert alone(training) == 1
    assert "6 rows can be used; at least 20 are needed" in training.told().message
    assert training.told().outcome == "failed"
    assert trainings.status(training) == "failed"


def test_an_interrupt_before_anything_was_learned_leaves_a_draft(trainings, alone, monkeypatch):
    def interrupted(training):
        raise KeyboardInterrupt

    training = trainings.create("moods", finetune_fakes.rows(24))
    monkeypatch.setattr(training_process, "_train", interrupted)
    assert alone(training) == 0
    assert training.told() == Told(outcome="stopped")
    assert trainings.status(training) == "draft"


def test_what_nobody_thought_of_is_told_with_the_log(trainings, alone, monkeypatch, capsys):
    def broken(training):
        raise MemoryError("no room")

    training = trainings.create("moods", finetune_fakes.rows(24))
    monkeypatch.setattr(training_process, "_train", broken)
    assert alone(training) == 1
    assert "MemoryError: no room" in training.told().message
    assert str(Training(training.folder).log) in training.told().hint
    assert "Traceback" in capsys.readouterr().err
