import re

import pytest
from app_checks import PATIENCE, shown, whole
from app_fakes import MOOD, REVIEWS, KeywordEncoder

from retriever_app import resources


def test_views_with_coverage(make, app):
    make(instructions=[MOOD])
    session = app("models")
    table = session.dataframe[0].value
    assert list(table["question"]) == ["No question", MOOD]
    assert list(table["read"]) == [1.0, 1.0]
    assert f"{len(REVIEWS)}" in shown(session)
    assert "keywords" in shown(session)


def test_the_rest_is_read_under_an_instruction_and_what_was_read_is_dropped(make, app):
    from retriever.workspace import Index

    with Index(make(), encoder=KeywordEncoder()) as index:
        index.upkeep.complete([MOOD], ids=["r1", "r2"])
    session = app("models")
    assert session.dataframe[0].value["read"][1] == pytest.approx(2 / 6, abs=1e-3)
    assert resources.jobs().named("read") == {}
    rest = next(one for one in session.button if one.label == "Read the remaining reviews")
    assert rest.help == "The model reads 4 reviews."  # nobody has measured how long that takes
    rest.click().run()
    next(iter(resources.jobs().named("read").values())).wait(PATIENCE)
    whole(session.run())
    assert session.dataframe[0].value["read"][1] == 1.0
    assert next(one for one in session.button if one.label == "Read the remaining reviews").disabled
    next(one for one in session.button if one.label == "Delete").click().run()
    assert list(whole(session).dataframe[0].value["question"]) == ["No question"]
    assert not [one for one in session.button if one.label == "Delete"]


def press(session, label):
    next(one for one in session.button if one.label == label).click().run()
    for job in resources.jobs().named("").values():
        job.wait(PATIENCE)
    return whole(session.run())


def test_damage_is_named_and_mended(make, app):
    file = next(make().glob("views/*/*.faiss"))
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    session = press(app("models"), "Check for damage")
    assert file.name in shown(session)
    assert "It can be repaired here" in shown(session)
    assert "Vector indexes built: 1" in shown(press(session, "Repair"))
    session = press(session, "Check for damage")
    assert "undamaged" in shown(session)
    assert re.search(r"Ended \d+ s ago", shown(session))


def test_a_database_that_is_none_can_still_be_checked(make, app):
    folder = make()
    for file in folder.glob("corpus.sqlite3*"):
        file.unlink()
    (folder / "corpus.sqlite3").write_bytes(b"no database at all" * 100)
    session = app("models")
    assert "is damaged or no SQLite database" in shown(session)
    session = press(session, "Check for damage")
    assert "Restore a copy" in shown(session) or "did not work" in shown(session)
