"""Saved groups and categories on the page Groups: changed by a click, compared, reported."""

import pytest
from app_checks import settle, shown, whole
from app_fakes import MOOD, PRODUCT, REVIEWS, documents, load_encoder

from retriever.clusters.edit_requests import ClusterEdits
from retriever.workspace import Index
from retriever_app import resources


def press(session, key):
    session.button(key=key).click()
    return settle(session.run())


@pytest.fixture
def opened(make, app):
    """Open the page over reviews whose products are saved as groups."""
    with Index(make(instructions=[PRODUCT]), encoder=None) as index:
        index.clusterings.save("products", index.cluster(PRODUCT, k=3))
    return lambda **parameters: settle(app("groups", **{"saved": "products", **parameters}))


def names(session):
    return [option.rpartition(" (")[0] for option in session.pills(key="Grouping.clusters").options]


def test_saved_groups_are_renamed_merged_and_split_by_click_and_it_is_taken_back(opened):
    session = opened()
    assert "6 reviews in 3 groups" in shown(session)
    session.text_input(key="name 0").set_value("Water = hot")
    session = press(session, "Rename 0")
    assert "**Water \\= hot**" in shown(session)
    session.selectbox(key="into 0").set_value(2)
    session = press(session, "Merge 0")
    assert "4 reviews · 4 of 6" in shown(session)
    assert len(names(session)) == 2
    session = press(session, "Split in two 0")
    assert len(names(session)) == 3
    for _ in range(2):
        next(one for one in session.button if one.label == "Undo").click()
        session = settle(session.run())
    assert {"Water \\= hot", "lamp", "toy"} == set(names(session))


def test_only_saved_groups_are_changed(opened):
    assert not [one for one in opened(saved="", instruction=PRODUCT, groups="3").button if one.label == "Rename"]
    assert [one for one in opened().button if one.label == "Rename"]


def test_a_name_under_which_nothing_is_saved_is_told(opened):
    session = opened(saved="gone")
    assert "did not work" in shown(session)
    assert "gone" in shown(session)
    assert session.selectbox(key="Grouping.saved").options == ["New groups …", "products", "gone"]


def test_a_review_is_read_and_moved_and_shows_where_it_is_then(opened):
    session = press(opened(), "choose 2")
    assert session.query_params["clusters"] == "2"
    assert {"The toy broke.", "A toy, nothing more."} <= {one.value for one in session.text}
    session.menu_button(key="move r5").click("1").run()
    session = settle(session)
    assert "The toy broke." not in [one.value for one in session.text]
    assert resources.open_index("reviews").clusterings.get("products").assignments["r5"] == 0
    next(one for one in session.button if one.label == "Clear").click()
    assert "The toy broke." in [one.value for one in press(settle(session.run()), "choose 0").text]


def test_groups_of_the_page_are_saved_under_a_name(opened):
    session = opened(saved="", instruction=PRODUCT, groups="2")
    session.text_input(key="save groups as").set_value("two")
    session = press(session, "save groups")
    assert session.selectbox(key="Grouping.saved").value == "two"
    assert "6 reviews in 2 groups" in shown(session)
    session = opened(saved="", instruction=PRODUCT, groups="3")
    session.text_input(key="save groups as").set_value("two")
    session.button(key="save groups").click()
    assert "There is a clustering 'two' already." in shown(whole(session.run()))


def test_categories_are_typed(opened):
    session = opened(saved="", groups="-1")
    assert "Enter the question that your categories answer." in shown(session)
    session.text_input(key="Grouping.instruction").set_value(MOOD).run()
    assert "Enter two categories or more" in shown(session)
    session.text_input(key="Grouping.into").set_value(" love,  hate ,").run()
    session = settle(session)
    assert {"love", "hate"} <= set(names(session))
    assert settle(opened(**{**session.query_params, "saved": ""})).query_params == session.query_params


@pytest.fixture
def kinds(make, app):
    """Open the page over categories that reviews may be in several of, with a review that came later."""
    rows = [{**one, "date": f"2024-0{1 + (one['id'] in ('r5', 'r6'))}-10"} for one in REVIEWS]
    with Index(make(rows=rows), encoder=load_encoder()) as index:
        index.clusterings.save("kinds", index.cluster(PRODUCT, into=["kettle", "lamp", "toy"], several=True))
        index.clusterings.edit("kinds", ClusterEdits(move={"r5": "lamp, toy", "r6": "lamp, toy"}))
        index.add(documents([{**REVIEWS[4], "id": "r7", "date": "2024-02-11"}]))
        index.clusterings.edit("kinds", ClusterEdits(move={"r7": "lamp, toy"}))
    return lambda **parameters: settle(app("groups", saved="kinds", **parameters))


def table(session):
    return session.dataframe[0].value.set_index("group")


def test_two_periods_are_compared_and_a_review_counts_in_all_its_categories(kinds):
    session = kinds()
    assert [box.value for box in session.selectbox if box.label in ("From", "To")] == ["2024-01", "2024-02"]
    assert "New in 2024-02: toy." in shown(session)
    assert list(table(session).loc["toy"])[:4] == ["0 of 4", "3 of 3", "", 3]
    assert list(table(session).loc["lamp"])[:4] == ["2 of 4", "3 of 3", "", 3]
    assert shown(session).count("1 new") == 2  # the new review is in two categories
    session.selectbox(key="Compared.after").set_value("2024-01").run()
    session.selectbox(key="Compared.before").set_value("2024-02").run()
    assert list(table(session).loc["toy"])[:4] == ["3 of 3", "0 of 4", "", 0]
    assert "New in" not in shown(session)


def test_two_parts_of_the_reviews_are_compared(kinds):
    session = kinds(by="category", before="kitchen", after="toys")
    assert "kitchen: 2 reviews. toys: 3 reviews." in shown(session)
    assert list(table(session).loc["kettle"])[:2] == ["2 of 2", "0 of 3"]
    session.selectbox(key="Compared.by").set_value("stars").run()
    assert "New in" not in shown(settle(session))
    assert [box.value for box in session.selectbox if box.label in ("From", "To")] == ["4 ★", "5 ★"]


def test_a_group_that_nobody_is_in_any_more_and_reviews_in_none_are_drawn(opened):
    with Index(resources.folder().find("reviews"), encoder=load_encoder()) as index:
        index.clusterings.edit("products", ClusterEdits(move={"r5": "none", "r6": "none"}))
    session = opened(stars="5")
    assert "6 reviews in 3 groups, 2 in none" in shown(session)
    assert "0 reviews" in shown(session)
    assert "The filters do not apply to saved groups." in shown(session)
    assert session.subheader[0].value == PRODUCT
    assert "no group" not in names(session)
