import json
import sys
from pathlib import Path

import pytest
import train_fakes as fakes
from app_checks import shown, whole
from waiting import until

from retriever.encoders.catalog import read_promotion, write_promotion
from retriever.index import models
from retriever_app import resources
from retriever_app.training import job as module
from retriever_app.training.job import MODELS_FOLDER, Message, Trainings


@pytest.fixture(autouse=True)
def own_choice(tmp_path, monkeypatch):
    monkeypatch.setenv("RETRIEVER_CONFIG", str(tmp_path / "user"))


@pytest.fixture
def trainings(indexes, monkeypatch):
    """The trainings of the place, where a stand-in trains."""
    script = Path(__file__).with_name("train_process.py")
    monkeypatch.setattr(module, "COMMAND", (sys.executable, str(script)))
    made = Trainings(indexes / MODELS_FOLDER)
    yield made
    for name in made.names():
        made.stop(made.find(name))


def button(session, label):
    return next(one for one in session.button if one.label == label)


def labels(session):
    return [one.label for one in session.button]


def test_a_file_is_checked_and_becomes_a_training(trainings, app):
    session = app("models", part="train")
    session.text_input[0].set_value("products")
    session.radio[0].set_value("file").run()
    assert button(session, "Create the training").disabled
    lines = [json.dumps(row) for row in [*fakes.rows(), {"text": fakes.HOSTILE, "question": "x", "answer": ""}]]
    session.file_uploader[0].set_value(("qa.jsonl", "\n".join(lines).encode(), "application/jsonl"))
    whole(session.run())
    assert "24 rows can be used: 1 question about 24 texts" in shown(session).replace("\\", "")
    assert "Row 25 is left out: 'answer' is empty. It begins: [link](javascript" in shown(session).replace("\\", "")
    assert "[link]" not in shown(session)
    whole(button(session, "Create the training").click().run())
    assert trainings.find("products").rows() == fakes.rows()
    assert "products" in str(session.query_params["training"])
    assert not button(session, "Train").disabled


def test_reviews_of_the_index_are_put_up_to_be_answered(trainings, make, app):
    make()
    session = app("models", part="train")
    session.radio[0].set_value("reviews").run()
    session.number_input[0].set_value(4).run()
    whole(button(session, "Create the training").click().run())
    rows = trainings.find("training-1").rows()
    assert [(row["question"], row["answer"]) for row in rows] == [("What broke?", "")] * 4
    assert "no row can be used" in shown(session)
    assert button(session, "Train").disabled


def test_the_example_and_names_that_are_taken(trainings, app):
    trainings.create("mine", fakes.rows())
    session = app("models", part="train")
    session.text_input[0].set_value("mine")
    session.radio[0].set_value("example").run()
    whole(button(session, "Create the training").click().run())
    assert "There is a training 'mine' already. Choose another name." in shown(session).replace("\n", " ")
    session.text_input[0].set_value("other").run()
    whole(button(session, "Create the training").click().run())
    assert len(trainings.find("other").rows()) == 170


def answer(session, text):
    """Write an answer into the first row of the table."""
    states = session._tree.get_widget_states()
    edits = {"edited_rows": {"0": {"answer": text}}, "added_rows": [], "deleted_rows": []}
    states.widgets.add(id=session.dataframe[0].proto.id, string_value=json.dumps(edits))
    return whole(session._run(states))


def test_what_is_written_in_the_table_is_kept(trainings, app):
    training = trainings.create("mine", fakes.rows())
    other = trainings.create("other", fakes.rows(21))
    session = answer(app("models", part="train", training="mine"), "a lamp")
    written = [{**fakes.rows()[0], "answer": "a lamp"}, *fakes.rows()[1:]]
    assert training.rows() == written
    table = session.dataframe[0].proto.id
    assert whole(session.run()).dataframe[0].proto.id == table  # the same one, in which the user goes on
    for name in ("other", "mine"):
        session.selectbox[0].set_value(name).run()
    whole(session.run())
    assert (training.rows(), other.rows()) == (written, fakes.rows(21))
    assert "another window" not in shown(session)


def test_rows_that_another_session_wrote_are_not_written_over(trainings, app):
    training = trainings.create("mine", fakes.rows())
    session = answer(app("models", part="train", training="mine"), "mine")
    theirs = [{**fakes.rows()[0], "answer": "theirs"}, *fakes.rows(30)[1:]]
    training.write_rows(theirs)
    answer(session, "mine, written before theirs was seen")
    assert training.rows() == theirs
    assert "The table was changed in another window." in shown(session)
    answer(session, "mine again")
    assert training.rows() == [{**theirs[0], "answer": "mine again"}, *theirs[1:]]
    assert "another window" not in shown(session)


def test_too_few_rows_cannot_be_trained_on(trainings, app):
    trainings.create("few", fakes.rows(19))
    session = app("models", part="train", training="few")
    said = shown(session).replace("\\", "")
    assert "The table: 19 rows can be used; at least 20 are needed. Give more rows" in said
    assert button(session, "Train").disabled


def test_a_training_goes_on_beside_is_found_again_and_stopped(trainings, app):
    trainings.create("moods", fakes.rows())
    session = app("models", part="train", training="moods")
    whole(button(session, "Train").click().run())
    training = trainings.find("moods")
    until(lambda: training.message() == Message("training"))
    again = app("models", part="train", training="moods")  # another session, or the page reloaded
    assert again.get("progress")[0].proto.value == 25
    assert "Step 2 of 8, about 12 s left" in again.get("progress")[0].proto.text.replace("\\", "")
    assert ":blue-badge[:material/model_training: training]" in shown(again)
    trainings.create("others", fakes.rows())
    other = app("models", part="train", training="others")
    assert "moods is being trained. Only one training runs at a time." in shown(other)
    assert button(other, "Train").disabled
    whole(button(again, "Stop").click().run())
    until(lambda: trainings.holder() is None)
    whole(again.run())
    assert "Stopped after step 2 of 8. The training can go on from there." in shown(again)
    assert {"Go on", "Delete for good", "Copy to a new training"} <= set(labels(again))


def test_why_a_training_failed_is_told_in_words_for_the_table(trainings, app):
    training = trainings.create("moods", fakes.rows())
    training.begin("instemb:a")
    session = app("models", part="train", training="moods")
    assert "ended without a message" in shown(session)
    training.post(Message(outcome="failed", message=f"{training.rows_file}: all is lost.", hint="Begin again."))
    session.run()
    assert "The table: all is lost." in shown(session)
    assert "Begin again." in shown(session)


def test_a_finished_training_shows_scores_and_searches_before_and_after(trainings, app):
    fakes.finish(trainings.create("moods", fakes.rows()))
    session = app("models", part="train", training="moods")
    said = shown(session).replace("\\", "")
    assert "It got better on the held-out rows. Trained on 18 rows in 2 min 05 s, evaluated on 6 rows held out." in said
    assert [(one.label, one.value, one.delta) for one in session.metric] == [
        ("Your held-out rows", "80.0", "+20.0"),
        ("In general", "69.5", "-0.5"),
    ]
    assert "before: 60.0; change +5.0 to +35.0 (95 %), more than chance" in said
    assert "before: 70.0; change -1.5 to +0.5 (95 %), may be chance" in said
    assert "**kettle** — The kettle broke." in said
    assert f"**lamp** — {fakes.HOSTILE}" in said
    assert not any("<b>" in one.value or "[link]" in one.value for one in session.markdown)


def test_promoting_makes_it_the_default_and_there_is_a_way_back(trainings, app, monkeypatch):
    training = fakes.finish(trainings.create("moods", fakes.rows()))
    monkeypatch.setattr(models, "promote", write_promotion)
    session = app("models", part="train", training="moods")
    whole(button(session, "Promote").click().run())
    assert read_promotion().folder == training.model
    assert "new indexes use it." in shown(session)
    assert not {"Promote", "Delete for good"} & set(labels(session))
    installed = app("models", part="installed")
    assert "New indexes use moods." in shown(installed)
    assert next(iter(installed.dataframe[0].value["name"])) == "default"
    whole(button(installed, "Back to the shipped model").click().run())
    assert read_promotion() is None
    assert "New indexes use the shipped model." in shown(installed)
    assert {"Promote", "Delete for good"} <= set(labels(whole(session.run())))


def test_a_training_that_is_gone_is_told(trainings, app):
    session = app("models", part="train", training="gone")
    assert "no training 'gone' here any more" in shown(session)
    assert session.selectbox(key="ChosenTraining.training").value == "gone"


def test_discarding_deletes_all_of_it_unless_something_needs_the_model(trainings, make, app, monkeypatch):
    training = fakes.finish(trainings.create("moods", fakes.rows()))
    second = trainings.create("second", fakes.rows())
    second.begin(str(training.model.resolve()))
    (second.folder / "model.training/instemb/states/step-00000002").mkdir(parents=True)
    second.post(Message(outcome="stopped"))
    make()
    monkeypatch.setattr(resources, "made_with", lambda model: ["reviews"] if model == training.model else [])
    session = app("models", part="train", training="moods")
    write_promotion(training.model)  # by another session, meanwhile
    for says, mend in (
        ("The model of 'moods' is the default.", models.reset),
        ("The training 'second' continues from the model of 'moods'.", lambda: fakes.finish(second)),
        ("The index 'reviews' uses the model", lambda: monkeypatch.setattr(resources, "made_with", lambda model: [])),
    ):
        whole(button(session, "Delete for good").click().run())
        assert says in shown(session)
        assert training.model.exists()
        mend()
        whole(session.run())
    whole(button(session, "Delete for good").click().run())
    assert not training.folder.exists()
    assert "Create the training" in labels(session)
