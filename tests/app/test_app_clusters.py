import csv
import io
import json
import re
import threading

import numpy as np
import pytest
from app_checks import PATIENCE, settle, shown, whole
from app_fakes import MOOD, PRODUCT, REVIEWS

from retriever_app import cluster_job, report_panel, resources
from retriever_app.view_models import clusters, exports
from retriever_app.view_models.grouping import Grouping, Part

HOSTILE = '<img src=x onerror="window.hurt=1"> [link](javascript:alert(1)) $x$ toy'


def names(session):
    """Return the names of the clusters to choose from."""
    return list(session.pills(key="Grouping.clusters").options)


def read(session):
    """Return the reviews on cards, in their order."""
    known = {review["text"] for review in REVIEWS}
    return [one.value for one in session.text if one.value in known]


def press(session, label):
    next(button for button in session.button if button.label == label).click()
    return settle(session.run())


@pytest.fixture
def opened(make, app):
    """Open the page over reviews read under both instructions."""
    make(instructions=[PRODUCT, MOOD])
    return lambda **parameters: settle(app("clusters", **parameters))


def test_clusters_answer_the_instruction(opened):
    session = opened(instruction=PRODUCT, groups="3")
    assert names(session) == ["1 kettle (2)", "2 lamp (2)", "3 toy (2)"]
    assert "2 reviews · 33% · 3\\.0 ★" in shown(session)
    session.text_input(key="Grouping.instruction").set_value(MOOD).run()
    assert {name.split()[1] for name in names(settle(session))} >= {"love", "hate"}


def test_a_chosen_cluster_is_read_the_most_typical_first(opened):
    session = opened(instruction=PRODUCT, groups="3")
    session.button(key="choose 1").click()
    session = settle(session.run())
    assert sorted(read(session)) == ["A lamp to love.", "I hate the lamp."]
    assert session.subheader[0].value == "2 lamp"
    again = opened(**session.query_params)
    assert read(again) == read(session)
    assert not read(press(session, "Clear"))


def test_an_area_in_the_url_is_a_choice(opened):
    session = opened(
        instruction=PRODUCT,
        groups="3",
        area=["-11000", "-11000", "-11000", "11000", "11000", "11000", "11000", "-11000"],
    )
    assert len(read(session)) == len(REVIEWS)
    assert session.subheader[0].value == "An area of the map"


def test_another_instruction_lets_go_of_what_was_chosen(opened):
    session = opened(instruction=PRODUCT, groups="3", clusters="1")
    session.text_input(key="Grouping.instruction").set_value(MOOD).run()
    assert not read(settle(session))
    assert "clusters" not in session.query_params


def test_looking_closer_clusters_a_part_again_and_the_way_leads_back(opened):
    session = opened(instruction=PRODUCT, groups="3", clusters=["0", "2"])
    session.text_input(key="closer instruction").set_value(MOOD).run()
    session.button(key="closer").click()
    session = settle(session.run())
    assert sum(int(name.rpartition("(")[2][:-1]) for name in names(session)) == 4
    assert session.text_input(key="Grouping.instruction").value == MOOD
    assert "**1 kettle and 3 toy**" in shown(session)
    assert names(opened(**session.query_params)) == names(session)
    session = press(session, "All reviews")
    assert names(session) == ["1 kettle (2)", "2 lamp (2)", "3 toy (2)"]
    assert session.pills(key="Grouping.clusters").value == [0, 2]


def test_filters_narrow_what_is_clustered(opened):
    session = opened(instruction=PRODUCT, groups="2", category=["toys", "light"])
    assert names(session) == ["1 lamp (2)", "2 toy (2)"]


def test_two_clusterings_and_what_flows_between(opened):
    session = opened(instruction=PRODUCT, beside=MOOD, groups="2", show="flow")
    table = session.dataframe[0].value
    assert table["reviews"].sum() == len(REVIEWS)
    assert "Unrelated (adjusted Rand index" in shown(session)
    assert not read(session)
    session = opened(instruction=PRODUCT, beside=MOOD, groups="2", show="flow", flow=["0", "0"])
    flow = table[(table["first instruction"].str[0] == "1") & (table["second instruction"].str[0] == "1")]
    assert len(read(session)) == flow["reviews"].iloc[0]


def test_what_is_clicked_in_a_chart_filters_cards_and_reviews(opened):
    session = opened(instruction=PRODUCT, groups="3", only_stars=["5", "4"])
    assert "Only 5 ★ and 4 ★" in shown(session)
    assert "1 review · 50% · 5\\.0 ★" in shown(session)
    assert "0 reviews · 0%" in shown(session)
    session = opened(instruction=PRODUCT, groups="3", only_stars="5", clusters="0")
    assert read(session) == ["I love this kettle."]
    session = press(session, "Show all again")
    assert "only_stars" not in session.query_params
    assert len(read(session)) == 2


def test_the_report_of_what_is_shown_is_made_on_demand(opened, make):
    session = opened(instruction=PRODUCT, groups="3")
    labels = [button.label for button in session.get("download_button")]
    assert labels == ["CSV", "JSONL", "One page (HTML)", "Markdown"]
    index = resources.open_index("reviews")
    drawn = resources.clusterings().find(index, Grouping(instruction=PRODUCT, groups=3).ask(None), mapped=True)
    some = np.array([True, True, False, False, False, False])
    page = report_panel.made(index, drawn, some, "5 ★", "html").decode()
    assert f'<h1 dir="auto">{PRODUCT}</h1>' in page
    assert "2 reviews, mean 3.00 stars" in page
    assert "only (5 ★)" in page
    assert report_panel.made(index, drawn, some, "", "md").decode().startswith(f"# {PRODUCT}\n")


def test_a_flow_or_cluster_that_is_not_there_is_no_choice(opened):
    session = opened(instruction=PRODUCT, beside=MOOD, groups="2", show="flow", flow=["7", "7"])
    assert not read(session)
    session = opened(instruction=PRODUCT, groups="3", clusters=["1", "12"])
    assert session.pills(key="Grouping.clusters").value == [1]


def test_the_files_hold_the_choice_and_no_formula(make, opened):
    session = opened(instruction=PRODUCT, groups="3", clusters="2")
    assert [button.label for button in session.get("download_button")] == [
        "CSV",
        "JSONL",
        "One page (HTML)",
        "Markdown",
    ]
    make("evil", [{"id": "=1+1", "text": "=HYPERLINK(1) toy", "product": "@x"}])
    index = resources.open_index("evil")
    rows = clusters.rows(index.cluster(k=1), [0])
    (row,) = csv.DictReader(io.StringIO(exports.to_csv(rows).decode("utf-8-sig")))
    assert (row["id"], row["text"], row["product"]) == ("'=1+1", "'=HYPERLINK(1) toy", "'@x")
    assert json.loads(exports.to_jsonl(rows))["text"] == "=HYPERLINK(1) toy"


def test_what_takes_long_is_begun_by_the_user(make, app, monkeypatch):
    make()
    monkeypatch.setattr(clusters, "AT_ONCE", 0.0)
    session = app("clusters", instruction=MOOD, groups="2")
    assert "6 reviews must be read under this instruction first" in shown(session)
    assert not resources.jobs().named("clusters")
    assert len(names(press(session, "Read and cluster"))) == 2


def test_a_clustering_that_another_session_begins_meanwhile_is_waited_for(make, app, monkeypatch):
    make()
    go = threading.Event()

    def begun_elsewhere(index, asks):
        work = resources.clusterings().work(index, asks, mapped=True)
        name = f"clusters {index.identity} {cluster_job._digest(asks, True)}"
        resources.jobs().start(name, "Clustering", lambda job: go.wait(PATIENCE) and work(job))
        return True

    monkeypatch.setattr(cluster_job, "_is_quick", begun_elsewhere)
    session = whole(app("clusters", groups="2"))
    assert "did not work" not in shown(session)
    assert session.get("progress")[0].proto.text.startswith("Beginning")
    go.set()
    assert len(names(settle(session))) == 2


def test_an_error_is_told_and_can_be_mended(make, app):
    make()
    session = settle(app("clusters", groups="9"))
    assert "did not work" in shown(session)
    session.selectbox(key="Grouping.groups").set_value(2).run()
    assert len(names(settle(session))) == 2


def test_reviews_added_elsewhere_are_clustered_at_once(make, opened):
    session = opened(instruction="", groups="2")
    assert "6 reviews in 2 clusters" in shown(session)
    make(rows=[*REVIEWS, {"id": "new", "text": "A lamp."}])
    assert "7 reviews in 2 clusters" in shown(settle(session.run()))


def test_hostile_reviews_are_shown_as_they_are(make, app):
    make(rows=[{**review, "text": f"{review['text']} {HOSTILE}"} for review in REVIEWS])
    session = settle(app("clusters", groups="2", clusters="0"))
    assert any(HOSTILE in one.value for one in session.text)
    marked = "\n".join(one.value for one in [*session.markdown, *session.caption])
    assert not re.search(r"(?<!\\)(<img|\[link|\$x)", marked)


def test_without_an_index(app):
    assert "no index yet" in shown(app("clusters"))


def test_a_part_that_a_link_garbles_is_left_out(opened):
    session = opened(instruction=PRODUCT, groups="3", within=["garbled", Part(PRODUCT, 3, (9,)).spell()])
    assert "No document matches" in shown(session)
