import os
import signal
import stat
import sys
from pathlib import Path

import pytest
from train_fakes import ended, until

from retriever.core.errors import InputError, RetrieverError, UsageError
from retriever_app import trainings as module
from retriever_app.trainings import Holder, Told, Trainings

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
    if (holder := made.holder()) is not None and holder.process:
        os.kill(holder.process, signal.SIGKILL)


def training_now(trainings, training):
    until(lambda: training.told() == Told("training"))
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
    assert trainings.holder().name == "moods"
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


def test_why_it_failed_is_found_again(trainings):
    training = trainings.create("fails", ROWS)
    trainings.start(training, "instemb:a")
    assert ended(trainings, training) == "failed"
    assert training.told().hint == "Lower the rate."


def test_a_process_that_was_just_begun_is_not_stopped_by_its_place_holder(trainings, monkeypatch):
    training = trainings.create("moods", ROWS)
    monkeypatch.setattr(Trainings, "holder", lambda self: Holder("moods"))
    trainings.stop(training)
    assert not training.is_asked_to_stop


def test_a_report_that_cannot_be_read_is_told(trainings):
    training = trainings.create("moods", ROWS)
    training.model.mkdir()
    assert trainings.status(training) == "finished"
    with pytest.raises(InputError, match="report of 'moods' cannot be read"):
        training.report()
