"""The page Search shows reading on while nobody waits: how much is read, and a new order that is offered."""

from functools import partial

import pytest
from app_checks import PATIENCE, click, settle, shown, under_way, whole
from app_fakes import MOOD, documents, load_encoder

from retriever.core.requests import SearchOptions
from retriever.index.search import rounds
from retriever.serving.budget import READ_ON_VARIABLE
from retriever.workspace import Index
from retriever_app import resources
from retriever_app.background import FOREGROUND

FEW = [f"The kettle broke, {number}." for number in range(12)]
ROWS = [{"id": f"r{row:02}", "text": text, "stars": 3} for row, text in enumerate(FEW)]
ROWS.append({"id": "r12", "text": "I love it.", "stars": 5})
LIST = {"q": "love", "instruction": MOOD, "k": "5", "mode": "dense"}
OFFER = "Show the new order"


@pytest.fixture
def folder(indexes, monkeypatch):
    """An index of thirteen reviews, all the same to its base encoder; a search reads the first ones alone."""
    options = partial(SearchOptions, token_budget=40, prompt_tokens=0, rounds=1, candidates=5, typical_share=0)
    monkeypatch.setattr("retriever.index.opened.SearchOptions", options)
    monkeypatch.setattr(rounds, "wants_judging", lambda store, view: False)
    with Index(indexes / "reviews", encoder=load_encoder(), plain=load_encoder("learns all")) as made:
        made.add(documents(ROWS))
    return made.path


def listed(session):
    """The ids of the hits, in the order of their cards."""
    return [each.value for each in session.caption if each.value.startswith("r") and each.value[1:].isdecimal()]


def offers(session):
    return [button.label for button in session.button if button.label == OFFER]


def read_all(folder, where=None):
    """Let another process read all there is to read, or a part."""
    with Index(folder) as other:
        other.upkeep.complete([MOOD], where=where)


def test_a_new_order_is_offered_and_nothing_moves_before_it_is_taken(folder, app):
    session = settle(app("search", **LIST))
    first = listed(session)
    assert len(first) == 5 and "r12" not in first
    assert "of 13 reviews under this question" in shown(session)
    assert not offers(session)
    read_all(folder)
    for _ in range(2):
        whole(session.run())
        assert listed(session) == first
        assert "all 13 reviews under this question" in shown(session)
        assert offers(session)
    click(session, OFFER)
    after = listed(session)
    assert after[0] == "r12" and after != first
    assert ":blue-badge[new]" in shown(session)
    assert not offers(session)
    again = settle(app("search", **LIST))
    assert listed(again) == after


def test_an_order_that_stays_the_same_is_not_offered(folder, app):
    session = settle(app("search", **LIST))
    first = listed(session)
    read_all(folder, where="stars < 5")  # of all but the last, which are all the same
    whole(session.run())
    assert "12 of 13 reviews under this question" in shown(session)
    assert (listed(session), offers(session)) == (first, [])


def test_a_list_that_settled_before_more_was_read_is_offered_anew_at_once(folder, app):
    first = listed(settle(app("search", **LIST)))
    read_all(folder, where="stars = 5")  # the last alone
    session = settle(app("search", **LIST))
    assert "of 13 reviews under this question" in shown(session)
    assert (listed(session), bool(offers(session))) == (first, True)


def test_a_change_of_the_documents_is_searched_again_as_before(folder, app):
    session = settle(app("search", **LIST))
    first, *others = listed(session)
    with Index(folder) as other:
        other.delete([first])
    assert listed(settle(session))[:4] == others


def test_the_page_says_that_it_reads_on_and_the_app_does(folder, app, monkeypatch):
    monkeypatch.setenv(READ_ON_VARIABLE, "30")
    with FOREGROUND.waited_for():  # nobody reads before the page was looked at
        session = settle(app("search", **LIST))
        assert "of 13 reviews under this question; reading on" in shown(session)
        first = listed(session)
    reading = resources.reading_on()
    try:
        monkeypatch.setattr("retriever.serving.foreground.PAUSE_SECONDS", 0.0)
        with Index(folder) as index:
            for _ in range(10 * PATIENCE):
                if not reading.of(index).questions:
                    break
                reading._closed.wait(0.1)
            assert index.views()[1].coverage == 1
    finally:
        reading.close(PATIENCE)
    whole(session.run())
    assert "all 13 reviews under this question" in shown(session)
    assert (listed(session), bool(offers(session))) == (first, True)
    assert under_way(session)
