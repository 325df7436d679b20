import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from train_fakes import ended, until

from retriever.core.errors import InputError, RetrieverError, UsageError
from retriever_app import trainings as module
from retriever_app.trainings import Told, Trainings

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


def test_why_it_failed_is_found_again(trainings):
    training = trainings.create("fails", ROWS)
    trainings.start(training, "instemb:a")
    assert ended(trainings, training) == "failed"
    assert training.told().hint == "Lower the rate."


def test_a_training_that_is_not_its_turn_is_not_asked_to_stop(trainings):
    first, second = trainings.create("first", ROWS), trainings.create("second", ROWS)
    trainings.start(first, "instemb:a")
    trainings.stop(second)
    assert not second.is_asked_to_stop
    trainings.stop(first)
    assert ended(trainings, first) == "paused"
    trainings.stop(first)
    trainings.start(second, "instemb:a")
    trainings.stop(second)
    assert ended(trainings, second) == "paused"


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


@pytest.mark.parametrize("module", ["trainings", "training_process", "resources"])
def test_pages_load_where_there_is_no_fcntl(module):
    code = f"import sys; sys.modules['fcntl'] = None; import retriever_app.{module}"  # as on Windows
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_report_that_cannot_be_read_is_told(trainings):
    training = trainings.create("moods", ROWS)
    training.model.mkdir()
    assert trainings.status(training) == "finished"
    with pytest.raises(InputError, match="report of 'moods' cannot be read"):
        training.report()
