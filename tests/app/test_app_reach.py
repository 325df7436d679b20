"""Whom the app has to reach: hands on a keyboard, a narrow screen, a file that is too large."""

import re
from urllib.parse import urlencode

import pytest
from app_fakes import MOOD, PRODUCT, REVIEWS
from browsing import SLOW, read, rest
from train_fakes import finish, rows

from retriever_app.serving import UPLOAD_MB
from retriever_app.trainings import MODELS_FOLDER, Trainings

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.browser

MOST_TABS = 40
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
PAGES = {
    "corpus": ("", {}, "Length in words"),
    "search": ("search", {"q": "kettle", "instruction": PRODUCT}, "read under this instruction"),
    "compare": ("compare", {"q": "kettle", "first": PRODUCT, "second": MOOD}, "on both sides"),
    "map": ("clusters", {"instruction": PRODUCT, "groups": 3, "clusters": 0}, "In the texts"),
    "flow": ("clusters", {"instruction": PRODUCT, "beside": MOOD, "groups": 2, "show": "flow"}, "Unrelated"),
    "a new training": ("train", {"begin": "example"}, "170 rows"),
    "a trained model": ("train", {"training": "moods"}, "Searches it never saw"),
    "model": ("model", {}, "Is it whole?"),
}


def by_tab(page, name):
    """Press Tab until the thing of this name has the focus, which is to be seen."""
    wanted = page.get_by_role("textbox", name=name, exact=True).or_(page.get_by_role("button", name=name)).first
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if wanted.evaluate("box => box === document.activeElement"):
            return wanted
    raise AssertionError(f"{MOST_TABS} times Tab do not lead to {name}")


def test_a_search_and_more_like_a_hit_with_the_keyboard_alone(make, serve, page):
    page.goto(serve(make(instructions=[MOOD]).parent).address + "/search")
    page.get_by_label("Search for", exact=True).wait_for()
    rest(page)
    by_tab(page, "Search for")
    page.keyboard.type("kettle")
    page.keyboard.press("Enter")
    page.get_by_text("The kettle broke.").first.wait_for()
    rest(page)
    menu = by_tab(page, "More like this")
    assert menu.evaluate("box => getComputedStyle(box).boxShadow + getComputedStyle(box).outlineStyle") != "nonenone"
    first = read(page)[0]
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.activeElement.closest('[role=menu]')")  # a menu takes keys once it has focus
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**like=**")
    page.get_by_text("Reviews like this one:").wait_for()
    rest(page)
    assert read(page)[0] == first
    assert len(read(page)) == len(REVIEWS)


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """A folder with an index and a trained model."""
    from app_fakes import documents, load_encoder

    from retriever.workspace import Index

    folder = tmp_path_factory.mktemp("everything")
    with Index(folder / "reviews", encoder=load_encoder()) as index:
        long = [{**one, "text": f"{one['text']} {'Oh' * 60}"} for one in REVIEWS]
        index.add(documents(long), instructions=[PRODUCT, MOOD, LONG])
    finish(Trainings(folder / MODELS_FOLDER).create("moods", rows()))
    return folder


def test_nothing_spills_sideways_on_a_narrow_screen(everything, serve, browser):
    page = browser.new_page(viewport={"width": NARROW, "height": 860})
    page.set_default_timeout(SLOW)
    address, spilled = serve(everything).address, {}
    for name, (path, parameters, shows) in PAGES.items():
        page.goto(f"{address}/{path}?{urlencode({'index': 'reviews', **parameters})}")
        page.get_by_text(shows).first.wait_for()
        rest(page)
        spilled[name] = page.evaluate(SPILLED)
    assert not any(spilled.values()), spilled


def test_a_file_that_is_too_large_is_refused_with_a_sentence(serve, page, tmp_path, monkeypatch):
    assert UPLOAD_MB < 500
    monkeypatch.setenv("APP_FAKES_UPLOAD_MB", "1")
    page.goto(serve(tmp_path / "indexes").address)
    upload = page.locator("input[type=file]")
    large = b"text\n" + b"It broke on the first day.\n" * 45_000
    upload.set_input_files({"name": "large.csv", "mimeType": "text/csv", "buffer": large})
    page.get_by_text(re.compile(r"File must be 1(\.0)? ?MB or smaller")).wait_for()
    upload.set_input_files({"name": "small.csv", "mimeType": "text/csv", "buffer": large[:1000]})
    page.get_by_text("Which column is what?").wait_for()
