import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import finetune_fakes
import pytest
import tiny_checkpoints
from train_fakes import ended
from waiting import until

from retriever.core.errors import InputError, RetrieverError, UsageError
from retriever_app.training import job as module
from retriever_app.training import process as training_process
from retriever_app.training.job import Message, Training, Trainings

ROWS = [
    {"text": "It boils.", "question": "What is it?", "answer": "a kettle"},
    {"text": "x", "question": "", "answer": ""},
]


@pytest.fixture
def trainings(tmp_path, monkeypatch):
    script = Path(__file__).with_name("train_process.py")
    monkeypatch.setattr(module, "COMMAND", (sys.executable, str(script)))
    made = Trainings(tmp_path / "models")
    yield made
    if (name := made.holder()) is not None:
        made.stop(made.find(name))


def training_now(trainings, training):
    until(lambda: training.message() == Message("training"))
    return trainings.status(training)


def test_rows_are_kept_as_they_are_written_for_their_owner_alone(trainings):
    training = trainings.create(" moods ", ROWS)
    assert (trainings.names(), training.name, training.rows()) == (["moods"], "moods", ROWS)
    assert trainings.status(training) == "draft"
    assert stat.S_IMODE(training.folder.stat().st_mode) == 0o700
    training.write_rows(ROWS[:1])
    assert trainings.find("moods").rows() == ROWS[:1]
    training.rows_file.write_text("{")
    with pytest.raises(InputError, match="rows of 'moods' cannot be read"):
        training.rows()


def test_a_name_is_of_one_training_and_leads_nowhere_else(trainings):
    assert trainings.free_name() == "training-1"
    trainings.create("training-1", [])
    assert trainings.free_name() == "training-2"
    with pytest.raises(UsageError, match="There is a training 'training-1' already"):
        trainings.create("training-1", [])
    with pytest.raises(UsageError, match="cannot be the name of a training"):
        trainings.create("../x", [])
    with pytest.raises(UsageError, match=r"no training '\.\./models' here"):
        trainings.find("../models")


def test_a_training_runs_beside_is_stopped_and_goes_on_with_the_same_base(trainings):
    training = trainings.create("moods", ROWS)
    trainings.start(training, "instemb:a")
    assert training_now(trainings, training) == "running"
    assert trainings.holder() == "moods"
    assert Trainings(trainings.folder).status(training) == "running"  # another session's look at it
    record, steps = training.record()
    assert ([row["loss"] for row in record], steps) == ([4.0, 2.0], 8)
    trainings.stop(training)
    assert ended(trainings, training) == "paused"
    trainings.start(training, "instemb:b")
    assert training_now(trainings, training) == "running"
    assert training.base == "instemb:a"
    trainings.stop(training)
    assert trainings.status(training) in ("stopping", "paused")
    assert ended(trainings, training) == "paused"


def test_one_trains_at_a_time(trainings):
    first, second = trainings.create("first", ROWS), trainings.create("second", ROWS)
    trainings.start(first, "instemb:a")
    assert training_now(trainings, first) == "running"
    with pytest.raises(RetrieverError, match="'first' is being trained"):
        trainings.start(second, "instemb:a")
    assert trainings.status(second) == "draft"
    with pytest.raises(RetrieverError, match="'first' is being trained"):
        trainings.discard(first)
    trainings.stop(second)
    assert trainings.status(first) == "running"
    trainings.stop(first)
    assert ended(trainings, first) == "paused"
    trainings.discard(first)
    assert trainings.names() == ["second"]


def test_a_process_that_dies_holds_nobody_up(trainings):
    training = trainings.create("dies", ROWS)
    trainings.start(training, "instemb:a")
    assert ended(trainings, training) == "paused"  # its states are there
    (training.folder / "model.training").rename(training.folder / "elsewhere")
    assert trainings.status(training) == "failed"


def test_many_that_start_at_once_start_one(trainings):
    made = [trainings.create(f"moods {number}", ROWS) for number in range(4)]
    together = threading.Barrier(len(made))

    def start(training):
        together.wait(120)
        try:
            trainings.start(training, "instemb:a")
        except RetrieverError as error:
            return error.message
        return ""

    with ThreadPoolExecutor(len(made)) as threads:
        refused = list(threads.map(start, made))
    begun = [training for training, said in zip(made, refused, strict=True) if not said]
    assert [trainings.status(training) for training in begun] == ["running"]
    assert [trainings.status(training) for training in made].count("draft") == len(made) - 1
    trainings.stop(begun[0])
    assert ended(trainings, begun[0]) == "paused"


def test_pages_load_where_there_is_no_fcntl():
    modules = "retriever_app.training.job, retriever_app.training.process, retriever_app.resources"
    code = f"import sys; sys.modules['fcntl'] = None; import {modules}"  # as on Windows
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_report_that_cannot_be_read_is_told(trainings):
    training = trainings.create("moods", ROWS)
    training.model.mkdir()
    assert trainings.status(training) == "finished"
    with pytest.raises(InputError, match="report of 'moods' cannot be read"):
        training.report()


@pytest.fixture
def real(tmp_path, monkeypatch):
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


def test_a_tiny_model_is_trained_stopped_gone_on_with_and_measured(real, tiny, tmp_path):
    tiny_checkpoints.save_trained(tmp_path / "base", tiny("llama"))
    training = real.create("moods", finetune_fakes.rows(24))
    real.start(training, str(tmp_path / "base"))
    until(lambda: training.record()[0])
    assert real.status(training) == "running"
    real.stop(training)
    assert ended(real, training) == "paused"
    done, steps = training.record()
    assert 0 < len(done) <= steps
    real.start(training, "")
    assert ended(real, training) == "finished", training.log.read_text()
    report = training.report()
    assert (report["status"], report["steps"]["done"], report["promoted"]) == ("finished", steps, False)
    assert report["base"]["spec"] == str(tmp_path / "base")
    assert report["examples"][0]["after"]
    assert report["command"].startswith(f"retriever finetune {training.rows_file} --output {training.model} --base ")


def test_rows_that_cannot_be_used_are_told(real, tiny, alone):
    training = real.create("few", finetune_fakes.rows(3))
    training.begin(f"instemb:{tiny('llama')}")
    assert alone(training) == 1
    assert "6 rows can be used; at least 20 are needed" in training.message().message
    assert training.message().outcome == "failed"
    assert real.status(training) == "failed"


def test_an_interrupt_before_anything_was_learned_leaves_a_draft(real, alone, monkeypatch):
    def interrupted(training):
        raise KeyboardInterrupt

    training = real.create("moods", finetune_fakes.rows(24))
    monkeypatch.setattr(training_process, "_train", interrupted)
    assert alone(training) == 0
    assert training.message() == Message(outcome="stopped")
    assert real.status(training) == "draft"


def test_what_nobody_thought_of_is_told_with_the_log(real, alone, monkeypatch, capsys):
    def broken(training):
        raise MemoryError("no room")

    training = real.create("moods", finetune_fakes.rows(24))
    monkeypatch.setattr(training_process, "_train", broken)
    assert alone(training) == 1
    assert "MemoryError: no room" in training.message().message
    assert str(Training(training.folder).log) in training.message().hint
    assert "Traceback" in capsys.readouterr().err
