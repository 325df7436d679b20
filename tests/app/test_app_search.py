from app_checks import shown, whole
from app_fakes import MOOD, PRODUCT, REVIEWS


def heads(session):
    """Return the first lines of the cards."""
    return [one.value for one in session.markdown if one.value.startswith("**") and "★" in one.value]


def texts(session):
    known = {review["text"] for review in REVIEWS}
    return [one.value for one in session.text if one.value in known]


def test_hits_are_cards_with_stars_words_and_reasons(make, app):
    make(instructions=[PRODUCT])
    session = app("search", q="kettle", instruction=PRODUCT)
    assert sorted(texts(session)[:2]) == ["I love this kettle.", "The kettle broke."]
    assert "★☆☆☆☆ · Kettle · kitchen · 2024" in heads(session)[0].replace("\\", "")
    assert "badge[kettle]" in shown(session)
    assert "by meaning, 1st by its words" in shown(session)
    assert "all reviews were read under this instruction" in shown(session).replace("\\", "")


def test_the_url_is_the_page(make, app):
    make()
    session = app("search")
    session.text_input(key="Question.q").set_value("kettle").run()
    session.text_input(key="Question.instruction").set_value(MOOD).run()
    session.multiselect(key="Filters.product").set_value(["Kettle"]).run()
    again = app("search", **session.query_params)
    assert texts(again) == texts(whole(session))
    assert set(texts(again)) == {"The kettle broke.", "I love this kettle."}
    assert again.text_input(key="Question.instruction").value == MOOD
