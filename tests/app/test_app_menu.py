"""Going from page to page by the menu."""

from app_checks import settle, whole
from app_fakes import MOOD, PRODUCT


def by_menu(session, page):
    """Go to a page as the menu does: without any query parameters."""
    session.query_params = {}
    return whole(session.switch_page(f"{page}/view.py").run())


def question_of(session, label="Question"):
    return next(box.value for box in session.text_input if box.label == label)


def test_the_menu_carries_the_question_along(make, app):
    make(instructions=[MOOD, PRODUCT])
    session = settle(app("search", instruction=MOOD))
    session = by_menu(session, "teach")
    assert question_of(session, "Question") == MOOD
    assert session.query_params["instruction"] in (MOOD, [MOOD])
    session = by_menu(session, "groups")
    assert question_of(session) == MOOD
    next(box for box in session.text_input if box.label == "Question").set_value(PRODUCT).run()
    session = by_menu(settle(session), "search")
    assert question_of(session) == PRODUCT


def test_what_the_user_clears_stays_clear_and_a_link_decides_for_itself(make, app):
    make(instructions=[MOOD, PRODUCT])
    session = by_menu(settle(app("search", instruction=MOOD)), "teach")
    session = whole(next(box for box in session.text_input if box.label == "Question").set_value("").run())
    assert question_of(whole(session.run()), "Question") == ""
    session.query_params = {"instruction": PRODUCT}
    session = whole(session.switch_page("search/view.py").run())
    assert question_of(session) == PRODUCT


def test_clusters_under_a_question_that_was_carried_have_none_chosen(make, app):
    make(instructions=[MOOD, PRODUCT])
    session = settle(app("groups", instruction=PRODUCT, groups=3, clusters=0))
    session = by_menu(session, "search")
    next(box for box in session.text_input if box.label == "Question").set_value(MOOD).run()
    session = by_menu(settle(session), "groups")
    assert session.query_params["instruction"] in (MOOD, [MOOD])
    assert "clusters" not in session.query_params
