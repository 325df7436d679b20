import shutil

from app_checks import shown
from app_fakes import MOOD, REVIEWS


def test_views_with_coverage(make, app):
    make(instructions=[MOOD])
    session = app("model")
    table = session.dataframe[0].value
    assert list(table["instruction"]) == ["Base view (no instruction)", MOOD]
    assert list(table["coverage"]) == [1.0, 1.0]
    assert f"{len(REVIEWS)}" in shown(session)
    assert "keywords" in shown(session)


def test_an_index_changed_elsewhere_shows_at_once(make, app):
    make(rows=REVIEWS[:2])
    session = app("model")
    assert session.dataframe[0].value["vectors"][0] == 2
    make(rows=REVIEWS)
    session.run()
    assert session.dataframe[0].value["vectors"][0] == len(REVIEWS)


def test_an_index_deleted_while_open(make, app):
    folder = make()
    session = app("model", index="reviews")
    shutil.rmtree(folder)
    session.run()
    assert "no index 'reviews' here any more" in shown(session)
    assert "Choose another" in shown(session)
    make()
    session.run()
    assert len(session.dataframe) == 1


def test_without_an_index(app):
    assert "no index yet" in shown(app("model"))
