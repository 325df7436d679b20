"""Whom the app has to reach: a narrow screen, suggestions in one row, a file that is too large."""

import re
from urllib.parse import urlencode

import pytest
from app_fakes import MOOD, PRODUCT, REVIEWS, documents, load_encoder
from browsing import SLOW, rest, until
from train_fakes import finish, rows

from retriever.workspace import Index
from retriever_app.serving import UPLOAD_MB
from retriever_app.training.job import MODELS_FOLDER, Trainings

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.browser

NARROW = 400  # pixels
LONG = "Which part of the product, or of the delivery, made the customer write this review at all?"
SPILLED = """() => {
    const wide = document.documentElement.clientWidth;
    const scrolls = box => box.scrollWidth > box.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(box).overflowX);
    const table = box => box.closest('[data-testid=stDataFrame]');  // scrolls within itself, as tables do
    return [...document.querySelectorAll('[data-testid=stMain] *')]
        .filter(box => !table(box) && box.getBoundingClientRect().width)
        .filter(box => scrolls(box) || box.getBoundingClientRect().right > wide + 1)
        .map(box => `${box.dataset.testid || box.tagName}: ${(box.innerText || '').slice(0, 40)}`);
}"""
WIDER_FONT = "* { letter-spacing: .04em !important }"
PAGES = {
    "corpus": ("", {}, "Length in words"),
    "search": ("search", {"q": "kettle", "instruction": PRODUCT}, "reviews under this question"),
    "map": ("groups", {"instruction": PRODUCT, "groups": 3, "clusters": 0}, "Typical words"),
    "saved": ("groups", {"saved": "kinds"}, "in 3 groups."),
    "one that is saved": ("groups", {"saved": "kinds", "clusters": 0}, "Move to"),
    "teach": ("teach", {"instruction": MOOD}, "Review 1 of"),
    "a new training": ("models", {"part": "train", "begin": "example"}, "170 rows"),
    "a trained model": ("models", {"part": "train", "training": "moods"}, "Searches on held-out rows"),
    "model": ("models", {}, "Integrity"),
}


@pytest.fixture(scope="module")
def address(tmp_path_factory, serve_module):
    """Serve long reviews, as many as a verdict takes, under three instructions, and a trained model."""
    folder = tmp_path_factory.mktemp("everything")
    with Index(folder / "reviews", encoder=load_encoder()) as index:
        long = [{**one, "text": f"{one['text']} {'Oh' * 60}"} for one in REVIEWS]
        index.add(documents(long), instructions=[PRODUCT, MOOD, LONG])
        index.clusterings.save("kinds", index.cluster(PRODUCT, k=3))
        index.teaching.name_answers(MOOD, {"love": "", "hate": "", "another answer, in more words than others": ""})
    with Index(folder / "many", encoder=load_encoder()) as index:
        many = [
            {**one, "id": f"{one['id']} {copy}", "text": f"{one['text']} {copy}"}
            for one in REVIEWS
            for copy in range(6)
        ]
        index.add(documents(many), instructions=[PRODUCT, MOOD, LONG])
    finish(Trainings(folder / MODELS_FOLDER).create("moods", rows()))
    return serve_module(folder).address


@pytest.fixture
def visit(address, browser):
    """Open a page of the app, drawn to its end, where it shows something."""

    def open_page(path, shows, *, width=1280, page=None, **parameters):
        page = page or browser.new_page(viewport={"width": width, "height": 900 if width > NARROW else 860})
        page.set_default_timeout(SLOW)
        page.goto(f"{address}/{path}?{urlencode({'index': 'many', **parameters})}")
        page.get_by_text(shows).first.wait_for()
        rest(page)
        return page

    return open_page


def test_nothing_spills_sideways_on_a_narrow_screen(visit, browser):
    page = browser.new_page(viewport={"width": NARROW, "height": 860})
    spilled = {}
    for name, (path, parameters, shows) in PAGES.items():
        visit(path, shows, page=page, **{"index": "reviews", **parameters})
        page.add_style_tag(content=WIDER_FONT)
        page.wait_for_timeout(100)
        until(page, lambda: not page.evaluate(SPILLED))  # charts take their new width a moment later
        spilled[name] = page.evaluate(SPILLED)
    assert not any(spilled.values()), spilled


def top_of_first_card(page):
    return page.evaluate(
        """() => [...document.querySelectorAll('[data-testid=stMain] strong')].find(one => one.innerText === '1')
            .closest('[data-testid=stVerticalBlock]').getBoundingClientRect().top"""
    )


def test_the_first_hit_begins_in_the_upper_part_of_the_screen(visit):
    page = visit("search", "reviews under this question", q="kettle", instruction=PRODUCT)
    page.get_by_text(re.compile("his model (does not )?follow")).first.wait_for()  # the verdict stands above it
    assert until(page, lambda: top_of_first_card(page) <= 380)  # how far the look was has gone by then


def test_suggestions_stand_in_one_row_that_unfolds(visit):
    page = visit("search", "reviews under this question", width=NARROW, q="kettle", instruction=PRODUCT)
    rows, more = page.locator("[class*=st-key-row-of]"), page.get_by_role("button", name="More", exact=True)
    assert until(page, lambda: [one.bounding_box()["height"] < 45 for one in rows.all()] == [True])
    more.first.click()
    page.get_by_role("button", name="Fewer", exact=True).wait_for()
    unfolded = page.locator("[class*=st-key-rows-of]")
    assert until(page, lambda: unfolded.bounding_box()["height"] > 120)
    page.get_by_text("What is it used for?").first.click()
    page.wait_for_url(re.compile("instruction=What(\\+|%20)is(\\+|%20)it(\\+|%20)used"))
    page.get_by_role("button", name="Fewer", exact=True).click()
    page.set_viewport_size({"width": 4000, "height": 900})  # all stand in one row
    page.add_style_tag(content="[data-testid=stMainBlockContainer] { max-width: none !important }")

    def out_of_sight():
        row, button = rows.first.bounding_box(), more.first.bounding_box()
        return button["y"] + button["height"] <= row["y"]

    assert until(page, out_of_sight)


def test_the_reviews_of_a_cluster_begin_beside_the_map(visit):
    page = visit("groups", "Typical words", instruction=PRODUCT, groups=3, clusters=0)
    drawn = page.get_by_role("application", name="Map of the reviews")
    review = page.get_by_text(re.compile(r"kettle(\.| broke\.) \d$")).first

    def both_in_sight():
        chart, card = drawn.bounding_box(), review.bounding_box()
        beside = chart and card and card["x"] > chart["x"] + chart["width"]
        # The warning of a question that may not be followed stands above both.
        return beside and chart["y"] < 420 and card["y"] < 1000

    assert until(page, both_in_sight)  # what was at work stands above the map until it has ended


def test_a_file_that_is_too_large_is_refused_with_a_sentence(serve, page, tmp_path, monkeypatch):
    assert UPLOAD_MB < 500
    monkeypatch.setenv("APP_FAKES_UPLOAD_MB", "1")
    page.goto(serve(tmp_path / "indexes").address)
    upload = page.locator("input[type=file]")
    large = b"text\n" + b"It broke on the first day.\n" * 45_000
    upload.set_input_files({"name": "large.csv", "mimeType": "text/csv", "buffer": large})
    page.get_by_text(re.compile(r"File must be 1(\.0)? ?MB or smaller")).wait_for()
    upload.set_input_files({"name": "small.csv", "mimeType": "text/csv", "buffer": large[:1000]})
    page.get_by_text("Name of the index").wait_for()
