"""Saved clusters and categories on the page of clusters."""

import json
from types import SimpleNamespace

import pytest
from answer_fakes import NAME
from app_checks import click, settle, shown, whole
from app_fakes import MOOD, PRODUCT, REVIEWS, documents, load_encoder
from replay_server import asked, title_of

from retriever.clusters.edit_requests import ClusterEdits
from retriever.encoders.answers import loading
from retriever.encoders.answers.wire import Format, Reply
from retriever_app import readers, resources
from retriever_app.pages.groups import job


def press(session, key):
    session.button(key=key).click()
    return settle(session.run())


@pytest.fixture
def opened(make, app):
    """Open the page over reviews whose products are saved as clusters."""
    from retriever.workspace import Index

    folder = make(instructions=[PRODUCT])
    with Index(folder, encoder=None) as index:
        index.clusterings.save("products", index.cluster(PRODUCT, k=3))
    return lambda page="groups", **parameters: settle(app(page, **parameters))


def test_a_saved_clustering_is_renamed_merged_and_hidden_by_click_and_it_is_taken_back(opened):
    session = opened(show="saved")
    assert "6 reviews in 3 clusters" in shown(session)
    session.text_input(key="topic name 0").set_value("Water = hot")
    session = press(session, "topic Rename 0")
    assert "**Water \\= hot**" in shown(session)
    session.selectbox(key="topic into 0").set_value("2")
    session = press(session, "topic Merge 0")
    assert "4 reviews · 4 of 6" in shown(session)
    session = press(session, "topic Hide 2")
    assert ":gray[hidden] **toy**" in shown(session)
    next(one for one in session.button if one.label == "Undo").click()
    assert ":gray[hidden]" not in shown(settle(session.run()))


def test_a_name_under_which_nothing_is_saved_is_told(opened):
    session = opened(show="saved", saved="gone")
    assert "There are no saved clusters named 'gone'." in shown(session)
    assert session.selectbox(key="Grouping.saved").options == ["gone", "products"]


def test_a_review_is_read_and_moved(opened):
    session = press(opened(show="saved", saved="products"), "topic read 2")
    assert session.query_params["clusters"] == "2"
    assert {"The toy broke.", "A toy, nothing more."} <= {one.value for one in session.text}
    session.menu_button(key="topic move r5").click("1").run()
    session = settle(session)
    assert "The toy broke." not in [one.value for one in session.text]
    assert resources.open_index("reviews").clusterings.get("products").assignments["r5"] == 0


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
        found = index.clusterings.classify(PRODUCT, ["kettle", "lamp", "toy"], several=True)
        index.clusterings.save("kinds", found)
        index.clusterings.edit("kinds", ClusterEdits(move={"r5": "lamp, toy", "r6": "lamp, toy"}))
        index.add(documents([{**REVIEWS[4], "id": "r7", "date": "2024-02-11"}]))
        index.clusterings.edit("kinds", ClusterEdits(move={"r7": "lamp, toy"}))
    session = settle(app("groups", show="saved", saved="kinds"))
    assert [box.value for box in session.selectbox if box.label in ("From", "To")] == ["2024-01", "2024-02"]
    assert "New in 2024-02: toy." in shown(session)
    table = session.dataframe[0].value.set_index("cluster")
    assert list(table.loc["toy"])[:4] == ["0 of 4", "3 of 3", "", 3]
    assert list(table.loc["lamp"])[:4] == ["2 of 4", "3 of 3", "", 3]
    said = shown(session)
    assert "1 review new since" in said
    assert said.count("1 new") == 2  # the new review is in two categories
    session.selectbox(key="Grouping.after").set_value("2024-01").run()
    session.selectbox(key="Grouping.before").set_value("2024-02").run()
    assert list(whole(session).dataframe[0].value.set_index("cluster").loc["toy"])[:4] == ["3 of 3", "0 of 4", "", 0]
    assert "New in" not in shown(session)


def test_the_report_of_saved_clusters_has_what_was_changed_and_keeps_to_the_filters(opened):
    session = opened(show="saved")
    session.text_input(key="topic name 0").set_value("Water & all")
    session = press(session, "topic Rename 0")
    index = resources.open_index("reviews")
    saved = job.saved(index, "products")
    page = job.report_file(index, saved.found, saved.groups, "html").decode()
    assert "Water &amp; all" in page
    assert "6 reviews" in page
    assert "3 reviews" in job.report_file(index, saved.found, saved.groups, "md", where="stars >= 3").decode()
    assert "The filters apply to the report" in shown(opened(show="saved", stars=["5", "4"]))


def test_a_language_model_names_clusters_after_a_yes_and_undo_takes_all_back(opened, monkeypatch):
    assert not [one for one in opened(show="saved").button if one.label == "Name them"]  # no model is configured
    sent = []
    spec = SimpleNamespace(name=NAME, host="api.example.com", loopback=False)

    def send(call, *, spend):
        sent.append(call)
        return call.check(Reply(json.dumps(title_of(asked({"messages": call.messages(Format.SCHEMA)})))), Format.SCHEMA)

    monkeypatch.setattr(loading, "load_answerer", lambda name: SimpleNamespace(spec=spec, send=send))
    monkeypatch.setenv("OPENAI_BASE_URL", "https://api.example.com/v1")
    monkeypatch.setenv(readers.VARIABLE, NAME)
    session = opened(show="saved")
    sends = "Naming the clusters sends at most 36 reviews, some of them twice, with the question, to chat:fake at"
    assert sends in shown(session)
    assert next(one for one in session.button if one.label == "Name them").disabled
    session = whole(next(one for one in session.checkbox if "may be sent" in one.label).check().run())
    assert sent == []
    session = settle(click(session, "Name them"))
    assert len(sent) == 3
    said = shown(session)
    assert "**The kettle reviews**" in said and "They are about a kettle." in said
    assert "Named by chat:fake." in said.replace("\\", "")
    session = settle(click(session, "Undo"))
    assert "reviews**" not in shown(session)
