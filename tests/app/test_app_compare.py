from app_checks import settle, shown
from app_fakes import MOOD, PRODUCT, REVIEWS

from retriever_app.view_models.comparison import ONLY


def marks(session):
    """Return the first lines of the cards, those on the left first."""
    return [one.value for one in session.markdown if "-badge[" in one.value]


def read(session):
    known = {review["text"] for review in REVIEWS}
    return [one.value for one in session.text if one.value in known]


def test_two_instructions_side_by_side(make, app):
    make(instructions=[PRODUCT, MOOD])
    session = app("compare", q="kettle love", first=PRODUCT, second=MOOD, k="3")
    assert len(read(session)) == 6
    left, right = marks(session)[:3], marks(session)[3:]
    assert [one.startswith(f"**{rank}**") for rank, one in enumerate(left, start=1)] == [True] * 3
    both = set(read(session)[:3]) & set(read(session)[3:])
    assert sum(ONLY in one for one in left) == sum(ONLY in one for one in right) == 3 - len(both)
    assert f"{len(both)} of 3 hits are on both sides" in shown(session)
    assert read(app("compare", **session.query_params)) == read(session)


def test_the_same_instruction_moves_nothing(make, app):
    make(instructions=[PRODUCT])
    session = app("compare", q="kettle", first=PRODUCT, second=PRODUCT)
    assert all("gray-badge[\\=" in one for one in marks(session))
    assert "6 of 6 hits are on both sides, 6 of them in the same place" in shown(session)


def test_under_new_instructions_both_sides_settle(make, app):
    make()
    session = settle(app("compare", q="kettle", first=PRODUCT, second=MOOD))
    assert not session.get("progress")
    assert len(read(session)) == 12
    again = read(session)
    assert read(session.run()) == again


def test_filters_hold_on_both_sides(make, app):
    make(instructions=[PRODUCT])
    session = app("compare", q="kettle", first=PRODUCT, category=["toys"])
    assert set(read(session)) == {"The toy broke.", "A toy, nothing more."}


def test_before_anything_is_asked(make, app):
    make()
    assert "which two instructions" in shown(app("compare"))


def test_without_an_index(app):
    assert "no index yet" in shown(app("compare"))
