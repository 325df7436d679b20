"""Saved clusters and categories on the page of clusters, and marks on the page of search."""

import json

import pytest
from app_checks import settle, shown, whole
from app_fakes import MOOD, PRODUCT, REVIEWS, documents, load_encoder

from retriever.clusters.edit_requests import ClusterEdits
from retriever_app import report_panel, resources, topic_job
from retriever_app.view_models import text


def press(session, key):
    session.button(key=key).click()
    return settle(session.run())


@pytest.fixture
def opened(make, app):
    """Open the page over reviews whose products are saved as clusters."""
    from retriever.workspace import Index

    folder = make(instructions=[PRODUCT])
    with Index(folder, encoder=None) as index:
        index.save_clustering("products", index.cluster(PRODUCT, k=3))
    return lambda page="clusters", **parameters: settle(app(page, **parameters))


def test_a_saved_clustering_is_renamed_merged_and_hidden_by_click_and_it_is_taken_back(opened):
    session = opened(show="saved")
    assert "6 reviews in 3 clusters; 0 reviews in none of them" in shown(session)
    session.text_input(key="topic name 0").set_value("Water = hot")
    session = press(session, "topic Rename 0")
    assert "**Water \\= hot**" in shown(session)
    session.selectbox(key="topic into 0").set_value("1")
    session = press(session, "topic Merge 0")
    assert "4 reviews · 67%" in shown(session)
    session = press(session, "topic Hide 2")
    assert ":gray[hidden] **toy**" in shown(session)
    next(one for one in session.button if one.label == "Undo").click()
    assert ":gray[hidden]" not in shown(settle(session.run()))


def test_what_cannot_be_changed_is_told(opened):
    session = opened(show="saved")
    session.text_input(key="topic name 0").set_value("toy")
    session.button(key="topic Rename 0").click()
    assert "There is a cluster 'toy' already." in shown(whole(session.run()))


def test_a_review_is_read_and_moved(opened):
    session = press(opened(show="saved", saved="products"), "topic read 2")
    assert session.query_params["clusters"] == "2"
    assert {"The toy broke.", "A toy, nothing more."} <= {one.value for one in session.text}
    session.menu_button(key="topic move r5").click("0").run()
    session = settle(session)
    assert "The toy broke." not in [one.value for one in session.text]
    assert resources.open_index("reviews").saved_clustering("products").assignments["r5"] == 0


def test_categories_are_typed_and_saved(opened):
    session = opened(show="saved")
    session.text_input(key="categories ask").set_value(MOOD)
    session.text_area(key="categories into").set_value("love, hate")
    session.text_input(key="categories name").set_value("moods")
    session = press(session, "categories go")
    assert session.selectbox(key="Grouping.saved").value == "moods"
    assert "6 reviews in 2 clusters" in shown(session)
    session.text_input(key="categories name").set_value("moods")
    session.button(key="categories go").click()
    assert "There is a clustering 'moods' already." in shown(whole(session.run()))


def test_two_periods_are_compared_and_a_review_counts_in_all_its_categories(make, app):
    from retriever.workspace import Index

    rows = [{**one, "date": f"2024-0{1 + (one['id'] in ('r5', 'r6'))}-10"} for one in REVIEWS]
    with Index(make(rows=rows), encoder=load_encoder()) as index:
        found = index.classify(PRODUCT, ["kettle", "lamp", "toy"], several=True)
        index.save_classification("kinds", found)
        index.edit_clustering("kinds", ClusterEdits(move={"r5": "lamp, toy", "r6": "lamp, toy"}))
        index.add(documents([{**REVIEWS[4], "id": "r7", "date": "2024-02-11"}]))
        index.edit_clustering("kinds", ClusterEdits(move={"r7": "lamp, toy"}))
    session = settle(app("clusters", show="saved", saved="kinds"))
    assert [box.value for box in session.selectbox if box.label in ("From", "To")] == ["2024-01", "2024-02"]
    assert "New in 2024-02: toy." in shown(session)
    table = session.dataframe[0].value.set_index("cluster")
    assert list(table.loc["toy"])[:4] == ["0%", "100%", "+100", 3]
    assert list(table.loc["lamp"])[:4] == ["50%", "100%", "+50", 3]
    said = shown(session)
    assert "1 review new since" in said
    assert said.count("1 new") == 2  # the new review is in two categories
    session.selectbox(key="Grouping.after").set_value("2024-01").run()
    session.selectbox(key="Grouping.before").set_value("2024-02").run()
    assert list(whole(session).dataframe[0].value.set_index("cluster").loc["toy"])[:4] == ["100%", "0%", "-100", 0]
    assert "New in" not in shown(session)


def test_the_report_of_saved_clusters_has_what_was_changed_and_keeps_to_the_filters(opened):
    session = opened(show="saved")
    session.text_input(key="topic name 0").set_value("Water & all")
    session = press(session, "topic Rename 0")
    index = resources.open_index("reviews")
    saved = topic_job.saved(index, "products")
    page = report_panel.made_of_saved(index, saved, None, "html").decode()
    assert "Water &amp; all" in page
    assert "6 reviews" in page
    assert "3 reviews" in report_panel.made_of_saved(index, saved, "stars >= 3", "md").decode()
    assert "The filters hold for the report" in shown(opened(show="saved", stars=["5", "4"]))


def test_an_area_has_what_clusters_have_and_is_saved_as_one(make, app):
    make(instructions=[PRODUCT])
    everything = ["-11000", "-11000", "-11000", "11000", "11000", "11000", "11000", "-11000"]
    session = settle(app("clusters", instruction=PRODUCT, groups="3", area=everything))
    assert "6 reviews · 100% · 2\\.7 ★" in shown(session)
    assert "In the texts: " in shown(session)
    label = next(one for one in session.text_input if one.label == "Name of this cluster")
    assert label.value
    assert f"**{text.plain(label.value)}**" in shown(session)
    label.set_value("Mine")
    session.text_input(key="save area as").set_value("areas")
    session = press(session, "save area")
    assert session.query_params["saved"] in ("areas", ["areas"])
    assert "**Mine**" in shown(session)
    assert "6 reviews in 1 cluster" in shown(session)


def thumb(session, id, value):
    """Put a hit's thumb up (1), down (0) or away."""
    return settle(session.feedback(key=f"mark {id}").set_value(value).run())


def test_hits_are_marked_and_forgotten(opened):
    session = settle(opened("search", q="broke"))
    index = resources.open_index("reviews")
    session = thumb(session, "r5", 1)
    assert index.marks("broke").more == ("r5",)
    session = thumb(session, "r1", 0)
    assert (index.marks("broke").more, index.marks("broke").less) == (("r5",), ("r1",))
    assert session.feedback(key="mark r1").value == 0
    session = thumb(session, "r5", None)
    assert (index.marks("broke").more, index.marks("broke").less) == ((), ("r1",))
    assert session.feedback(key="mark r5").value is None
    next(one for one in session.button if one.label == "Forget 1 mark").click()
    settle(session.run())
    assert not index.marks("broke")


def test_marked_hits_are_a_row_to_take_away(make):
    from retriever.core.types import Document, Marks
    from retriever_app.view_models import exports

    documents = {one.id: one for one in (Document("a", "right"), Document("b", "wrong"))}
    row = json.loads(exports.marked_rows("broke", "", Marks(("a",), ("b",)), documents))
    assert row == {"query": "broke", "positives": ["right"], "negatives": ["wrong"]}
    assert exports.marked_rows("broke", "", Marks((), ("b",)), documents) == b""
