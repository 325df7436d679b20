import threading
from functools import partial

import numpy as np
import pytest
from app_checks import PATIENCE, settle, shown, whole
from app_fakes import MOOD, PRODUCT, REVIEWS, documents, load_encoder

from retriever.clusters.groups import groups_of
from retriever.serving.jobs import Job
from retriever.workspace import Index
from retriever_app import resources
from retriever_app.pages.groups import job
from retriever_app.pages.groups.asked import Ask, Grouping
from retriever_app.pages.groups.job import GroupingCache


def names(session):
    """Return the names of the clusters to choose from."""
    return list(session.pills(key="Grouping.clusters").options)


def read(session):
    """Return the reviews on cards, in their order."""
    known = {review["text"] for review in REVIEWS}
    return [one.value for one in session.text if one.value in known]


def press(session, label="", key=None):
    next(button for button in session.button if button.key == key or button.label == label).click()
    return settle(session.run())


@pytest.fixture
def opened(make, app):
    """Open the page over reviews read under both instructions."""
    make(instructions=[PRODUCT, MOOD])
    return lambda **parameters: settle(app("groups", **parameters))


def test_clusters_answer_the_instruction(opened):
    session = opened(instruction=PRODUCT, groups="3")
    assert names(session) == ["kettle (2)", "lamp (2)", "toy (2)"]
    assert "2 reviews · 2 of 6 · 3\\.0 ★" in shown(session)
    session.text_input(key="Grouping.instruction").set_value(MOOD).run()
    assert {name.split()[0] for name in names(settle(session))} >= {"love", "hate"}


def test_a_chosen_cluster_is_read_the_most_typical_first(opened):
    session = opened(instruction=PRODUCT, groups="3")
    session = press(session, key="choose 1")
    assert sorted(read(session)) == ["A lamp to love.", "I hate the lamp."]
    assert session.subheader[0].value == "lamp"
    again = opened(**session.query_params)
    assert read(again) == read(session)
    assert not read(press(session, "Clear"))


def test_what_is_clicked_in_a_chart_filters_cards_and_reviews(opened):
    session = opened(instruction=PRODUCT, groups="3", only_stars=["5", "4"])
    assert "Only 5 ★ and 4 ★" in shown(session)
    assert "1 review · 1 of 2 · 5\\.0 ★" in shown(session)
    assert "0 reviews · 0 of 2" in shown(session)
    session = opened(instruction=PRODUCT, groups="3", only_stars="5", clusters="0")
    assert read(session) == ["I love this kettle."]
    session = press(session, "Show all again")
    assert "only_stars" not in session.query_params
    assert len(read(session)) == 2


def test_the_report_of_what_is_shown_is_made_on_demand(opened, make):
    session = opened(instruction=PRODUCT, groups="3")
    labels = [button.label for button in session.get("download_button")]
    assert labels == ["Download", "One page (HTML)", "Markdown"]
    index = resources.open_index("reviews")
    drawn = resources.groupings().find(index, Grouping(PRODUCT, 3).ask(None))
    some = np.array([True, True, False, False, False, False])
    groups = groups_of(drawn.found).kept(some).by_document()
    page = job.report_file(index, drawn, groups, "html", only="5 ★").decode()
    assert f'<h1 dir="auto">{PRODUCT}</h1>' in page
    assert "2 reviews, mean 3.0 stars" in page
    assert "only <bdi>(5 ★)</bdi>" in page
    assert job.report_file(index, drawn, groups, "md").decode().startswith(f"# {PRODUCT}\n")


def test_another_stable_number_is_a_click_away(make, app):
    rows = [
        {**one, "id": f"{one['id']} {copy}", "text": f"{one['text']} {copy}"} for one in REVIEWS for copy in range(9)
    ]
    make(rows=rows, instructions=[MOOD])
    session = settle(app("groups", instruction=MOOD))
    others = [one.label for one in session.button if (one.key or "").startswith("number ")]
    assert others
    session = press(session, key=f"number {others[0]}")
    assert len(names(session)) == int(others[0]) == session.selectbox(key="Grouping.groups").value
    assert not [one for one in session.button if (one.key or "").startswith("number ")]


def test_a_number_of_reviews_to_read_makes_no_other_clusters_where_none_is_sent(opened):
    opened(instruction=PRODUCT, groups="3", read="5")
    assert resources.groupings().find(resources.open_index("reviews"), Ask(PRODUCT, 3)) is not None


def test_what_takes_long_is_begun_by_the_user(make, app, monkeypatch):
    make()
    monkeypatch.setattr(job, "AT_ONCE", 0)
    session = app("groups", instruction=MOOD, groups="2")
    assert "The model must read 6 reviews under this question first." in shown(session)
    assert not resources.jobs().named("groups")
    assert len(names(press(session, "Read and group"))) == 2


def test_a_clustering_that_another_session_begins_meanwhile_is_waited_for(make, app, monkeypatch):
    make()
    go = threading.Event()

    def begun_elsewhere(index, ask):
        work = resources.groupings().work
        name = job.job_name(index, ask)
        resources.jobs().start(name, "Grouping", lambda job: go.wait(PATIENCE) and work(index, ask, job))
        return True

    monkeypatch.setattr(job, "_is_quick", begun_elsewhere)
    session = whole(app("groups", groups="2"))
    assert "did not work" not in shown(session)
    assert session.get("progress")[0].proto.text == "Grouping …"
    go.set()
    assert len(names(settle(session))) == 2


def test_an_error_is_told_and_can_be_mended(make, app):
    make()
    session = settle(app("groups", groups="9"))
    assert "did not work" in shown(session)
    assert "Choose fewer groups." in shown(session)
    session.selectbox(key="Grouping.groups").set_value(2).run()
    assert len(names(settle(session))) == 2


def test_a_cluster_that_is_not_there_is_no_choice(opened):
    session = opened(instruction=PRODUCT, groups="3", clusters=["1", "12"])
    assert session.pills(key="Grouping.clusters").value == [1]


@pytest.fixture
def index(make):
    with Index(make(instructions=[PRODUCT]), encoder=load_encoder()) as opened:
        yield opened


@pytest.fixture
def kept():
    return GroupingCache()


def run(kept, index, ask):
    job = Job("Grouping")
    job.run(partial(kept.work, index, ask))
    return job.snapshot()


def test_what_was_worked_out_is_found_until_its_documents_change(kept, index):
    ask = Ask(PRODUCT, 3)
    assert kept.find(index, ask) is None
    assert run(kept, index, ask).status == "done"
    drawn = kept.find(index, ask)
    assert drawn.places.shape == (len(REVIEWS), 2)
    index.upkeep.complete([MOOD])
    assert kept.find(index, ask) is drawn
    index.delete(["r1"])
    assert kept.find(index, ask) is None
    run(kept, index, ask)
    assert len(kept.find(index, ask).places) == len(REVIEWS) - 1


def test_progress_is_told_and_a_stopped_job_ends(make, kept):
    with Index(make(), encoder=load_encoder()) as index:
        job, told = Job("Grouping"), []
        tell = job.tell

        def note(progress):
            told.append(progress)
            tell(progress)
            if progress.share:
                job.stop()

        job.tell = note
        job.run(partial(kept.work, index, Ask(MOOD, 2)))
        assert job.snapshot().status == "stopped"
        assert 0 < told[-1].share < 1
        assert len(index.upkeep.lacking([MOOD])) == len(REVIEWS)
        assert run(kept, index, Ask(MOOD, 2)).status == "done"


def test_an_index_in_the_place_of_another_has_clusterings_of_its_own(kept, index, tmp_path):
    ask = Ask(PRODUCT, 3)
    run(kept, index, ask)
    with Index(tmp_path / "copied", encoder=load_encoder()) as other:
        other.add(documents(REVIEWS), instructions=[PRODUCT])
        assert kept.find(index, ask) is not None
        other.path = index.path
        assert kept.find(other, ask) is None
