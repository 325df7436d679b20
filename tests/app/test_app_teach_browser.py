"""The page Teach in a browser: reviews are labeled by keys alone, and what was answered is there again by a link."""

import re
from urllib.parse import urlencode

import pytest
from app_fakes import MOOD, documents, load_encoder
from browsing import rest

from retriever.index.teaching.labels import NONE_OF_THESE
from retriever.workspace import Index

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.browser

ROWS = [
    {"id": f"t{number:02}", "text": f"{'I love' if number % 2 else 'I hate'} the {thing} {number}."}
    for number, thing in enumerate(["kettle", "lamp", "toy", "rug"] * 5)
]
PHONE = {"width": 400, "height": 700}


def test_reviews_are_labeled_by_keys_and_answers_come_back_by_the_link(serve, page, tmp_path):
    folder = tmp_path / "indexes" / "reviews"
    with Index(folder, encoder=load_encoder()) as index:
        index.add(documents(ROWS), instructions=[MOOD])
    page.set_viewport_size(PHONE)
    link = f"{serve(folder.parent).address}/teach?{urlencode({'instruction': MOOD, 'index': 'reviews'})}"
    page.goto(link)
    box = page.get_by_role("textbox", name="One answer per line")
    box.fill("glad: likes it\ncross\nshipping")
    box.blur()
    counted = label_a_round_by_keys(page, folder)
    the_bar_stays_in_sight(page, counted)
    find_an_example_by_a_search(page, folder)
    page.goto(link)
    page.get_by_text(f"{counted} · shipping 1 · none of these 1").wait_for()
    page.get_by_text("Answers to choose from").click()
    sync_api.expect(page.get_by_role("textbox", name="One answer per line")).to_have_value(
        "glad: likes it\ncross\nshipping"
    )
    rest(page)
    page.keyboard.press("l")
    page.get_by_text("“shipping” was not learned: it has 1 example and needs 3.").wait_for()
    page.get_by_text("10 examples gave no gain").wait_for()


def label_a_round_by_keys(page, folder):
    in_focus(page, 1)
    page.keyboard.press("0")
    in_focus(page, 2)
    page.keyboard.press("Enter")
    in_focus(page, 3)
    page.keyboard.press("s")
    in_focus(page, 4)
    page.keyboard.press("u")
    for place in range(3, 13):
        in_focus(page, place)
        page.keyboard.press("1" if "love" in review(page) else "2")
    page.get_by_text("All reviews of this round are done.").wait_for()
    with Index(folder, encoder=load_encoder()) as index:
        labels = index.teaching.labels(MOOD)
    texts = {row["id"]: row["text"] for row in ROWS}
    none, *others = labels.examples.values()
    assert none == NONE_OF_THESE
    assert others == ["glad" if "love" in texts[id] else "cross" for id in list(labels.examples)[1:]]
    assert (len(others), labels.skipped) == (10, [])
    return f"glad {others.count('glad')} · cross {others.count('cross')}"


def in_focus(page, place):
    page.get_by_text(f"Review {place} of 12", exact=True).wait_for()
    rest(page)


def review(page):
    return page.get_by_text(re.compile(r"^I (love|hate) the")).inner_text()


def the_bar_stays_in_sight(page, counted):
    """Labels are many: with them shown, the page is higher than the screen of a phone."""
    page.get_by_text("Show 11 examples").click()
    page.get_by_role("button", name="Remove").last.scroll_into_view_if_needed()
    rest(page)
    sync_api.expect(page.get_by_text(f"{counted} · shipping 0 · none of these 1")).to_be_in_viewport()
    sync_api.expect(page.get_by_role("button", name=re.compile("^Learn"))).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def find_an_example_by_a_search(page, folder):
    page.get_by_role("link", name="Search for “shipping”").click()
    page.get_by_text(re.compile(r"^10 reviews\. ")).wait_for()
    rest(page)
    page.get_by_role("button", name=re.compile("This is an example of")).last.click()
    page.get_by_role("menuitem", name="shipping").click()
    page.get_by_role("button", name="Example of shipping").wait_for()
    with Index(folder, encoder=load_encoder()) as index:
        assert list(index.teaching.labels(MOOD).examples.values()).count("shipping") == 1
