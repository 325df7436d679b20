import sqlite3
import threading
from contextlib import closing

import pytest
from app_checks import PATIENCE, remove, shown, whole
from app_fakes import MOOD, PRODUCT, REVIEWS, KeywordEncoder

from retriever_app import resources


def test_views_with_coverage(make, app):
    make(instructions=[MOOD])
    session = app("model")
    table = session.dataframe[0].value
    assert list(table["instruction"]) == ["No instruction", MOOD]
    assert list(table["read"]) == [1.0, 1.0]
    assert f"{len(REVIEWS)}" in shown(session)
    assert "keywords" in shown(session)


def test_an_index_changed_elsewhere_shows_at_once(make, app):
    make(rows=REVIEWS[:2])
    session = app("model")
    assert session.dataframe[1].value["vectors"][0] == 2
    make(rows=REVIEWS)
    session.run()
    assert session.dataframe[1].value["vectors"][0] == len(REVIEWS)


def test_the_rest_is_read_under_an_instruction_and_what_was_read_is_dropped(make, app):
    from retriever.workspace import Index

    with Index(make(), encoder=KeywordEncoder()) as index:
        index.complete([MOOD], ids=["r1", "r2"])
    session = app("model")
    assert session.dataframe[0].value["read"][1] == pytest.approx(2 / 6, abs=1e-3)
    assert resources.jobs().named("read") == {}
    rest = next(one for one in session.button if one.label == "Read the rest")
    assert rest.help == "4 reviews, about half a minute"
    rest.click().run()
    next(iter(resources.jobs().named("read").values())).wait(PATIENCE)
    whole(session.run())
    assert session.dataframe[0].value["read"][1] == 1.0
    assert next(one for one in session.button if one.label == "Read the rest").disabled
    next(one for one in session.button if one.label == "Drop").click().run()
    assert list(whole(session).dataframe[0].value["instruction"]) == ["No instruction"]
    assert not [one for one in session.button if one.label == "Drop"]


def test_an_index_deleted_while_open(make, app):
    folder = make()
    session = app("model", index="reviews")
    remove(folder)
    session.run()
    assert "no index 'reviews' here any more" in shown(session)
    assert "Choose another" in shown(session)
    make()
    session.run()
    assert len(session.dataframe) == 2


def test_without_an_index(app):
    assert "no index yet" in shown(app("model"))


def test_a_diagnosis_says_whether_an_instruction_is_followed(make, app):
    rows = [
        {**review, "id": f"{review['id']}-{copy}", "text": f"{review['text']} {copy}"}
        for review in REVIEWS
        for copy in "ab"
    ]
    make(rows=rows)
    session = app("model", diagnose=MOOD)
    assert session.text_input(key="Diagnosed.diagnose").value == MOOD
    next(one for one in session.button if one.label == "Look into it").click().run()
    name = next(iter(resources.jobs().named("diagnose")))
    resources.jobs().find(name).wait(PATIENCE)
    whole(session.run())
    assert "Looked at 12 reviews" in shown(session)
    assert "hate (2), love (4)" in shown(session) or "love (4), hate (2)" in shown(session)
    session.text_input(key="Diagnosed.diagnose").set_value(PRODUCT).run()
    press(session, "Look into it")
    assert [PRODUCT in one for one in resources.jobs().named("diagnose")] == [True]


def test_too_few_reviews_for_a_diagnosis(make, app):
    make()
    session = app("model", diagnose=MOOD)
    next(one for one in session.button if one.label == "Look into it").click().run()
    name = next(iter(resources.jobs().named("diagnose")))
    resources.jobs().find(name).wait(PATIENCE)
    whole(session.run())
    assert "needs at least 8" in shown(session)


def test_one_diagnosis_at_a_time_in_all_sessions(make, app):
    make()
    make("other")
    go = threading.Event()
    running = resources.jobs().start("diagnose another", "The diagnosis", lambda job: go.wait(PATIENCE))
    session = app("model", index="other", diagnose=MOOD)
    assert "Another instruction is being looked into" in shown(session)
    assert next(one for one in session.button if one.label == "Look into it").disabled
    go.set()
    running.wait(PATIENCE)
    whole(session.run())
    assert not next(one for one in session.button if one.label == "Look into it").disabled


def test_a_diagnosis_leaves_those_of_other_indexes_alone(make, app):
    make("shop")
    make("shop 2")
    for name in ("shop 2", "shop"):
        press(app("model", index=name, diagnose=MOOD), "Look into it")
    assert len(resources.jobs().named("diagnose")) == 2
    press(app("model", index="shop", diagnose=PRODUCT), "Look into it")
    kept = list(resources.jobs().named("diagnose"))
    assert ["shop 2 " in one for one in kept] == [True, False]
    assert kept[1].endswith(PRODUCT)


def press(session, label):
    next(one for one in session.button if one.label == label).click().run()
    for job in resources.jobs().named("").values():
        job.wait(PATIENCE)
    return whole(session.run())


def test_a_whole_index_is_said_to_be_whole(make, app):
    make()
    assert "All is whole: the database and 1 index file" in shown(press(app("model"), "Check every file and row"))


def test_damage_is_named_and_mended(make, app):
    file = next(make().glob("views/*/*.faiss"))
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    session = press(app("model"), "Check every file and row")
    assert file.name in shown(session)
    assert "It can be mended here" in shown(session)
    assert "Made anew" in shown(press(session, "Mend it"))
    assert "All is whole" in shown(press(session, "Check every file and row"))


def test_mending_twice_at_once_is_told(make, app):
    folder = make()
    file = next(folder.glob("views/*/*.faiss"))
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    session = press(app("model"), "Check every file and row")
    go = threading.Event()
    resources.jobs().start(f"repair {folder}", "The repair", lambda job: go.wait(PATIENCE))  # of another session
    next(one for one in session.button if one.label == "Mend it").click().run()
    assert "The repair is still going on." in shown(whole(session))
    go.set()


def test_one_changed_row_is_found(make, app):
    folder = make()
    with closing(sqlite3.connect(folder / "corpus.sqlite3")) as database, database:
        changed = database.execute(
            "UPDATE vectors SET vector = CAST(x'01' || substr(vector, 2) AS BLOB) WHERE content_id = 3"
        )
        assert changed.rowcount == 1
    session = press(app("model"), "Check every file and row")
    assert "vector of text 3 in view 1: differs from its checksum" in shown(session)
    assert "Made anew" in shown(press(session, "Mend it"))
    assert "All is whole" in shown(press(session, "Check every file and row"))


def test_a_model_that_is_another_by_now_is_found(make, app, monkeypatch):
    make()
    session = app("model")
    monkeypatch.setattr(KeywordEncoder, "answers", lambda self, text, instruction: ["hate"])
    assert "what the encoder makes of the text today" in shown(press(session, "Check every file and row"))


def test_a_database_that_is_none_can_still_be_checked(make, app):
    folder = make()
    for file in folder.glob("corpus.sqlite3*"):
        file.unlink()
    (folder / "corpus.sqlite3").write_bytes(b"no database at all" * 100)
    session = app("model")
    assert "is damaged or no SQLite database" in shown(session)
    session = press(session, "Check every file and row")
    assert "Put back a copy" in shown(session) or "did not work" in shown(session)
