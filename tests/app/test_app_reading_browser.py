"""A language model reads a question in a browser: chosen, shown, corrected, clustered, taken back."""

import re
from contextlib import suppress
from urllib.parse import urlencode

import pytest
from app_fakes import documents, load_encoder
from browsing import ask, go, press, rest, until
from replay_server import Model, serving

from retriever.workspace import Index
from retriever_app import readers

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.browser

WHO = "Which thing is it about?"
ROWS = [
    {"id": f"d{number:02}", "text": f"Review {number}: the {('kettle', 'lamp', 'toy')[number % 3]} is here."}
    for number in range(240)
]
OFFER = "Language model"


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def address(model, serve, tmp_path, monkeypatch):
    """Serve the app over 240 reviews, beside an endpoint that it may offer."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv(readers.VARIABLE, "chat:stand-in")
    with Index(tmp_path / "indexes" / "reviews", encoder=load_encoder()) as index:
        index.add(documents(ROWS))
    with serving(model) as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        yield serve(tmp_path / "indexes").address


def sent(model):
    """Return the reviews that were sent; what tries a model out is none."""
    return {text for call in model.calls for text in call if text.startswith("Review")}


def test_a_question_is_read_corrected_clustered_and_taken_back(page, address, model, tmp_path):
    page.goto(f"{address}/search?{urlencode({'q': 'toy', 'instruction': WHO})}")
    page.get_by_text(re.compile(r"^10 reviews\. ")).wait_for()
    assert not model.requests
    open_offer(page, OFFER)
    page.get_by_text("A search sends at most 60 reviews, with the question, to chat:stand-in").wait_for()
    press(page, "Use this language model")
    page.get_by_role("button", name="chat:stand-in").first.wait_for()
    page.locator(".stMarkdownBadge", has_text="toy").first.wait_for()
    page.get_by_text(re.compile("has read [0-9]+ of")).wait_for()
    assert 0 < len(sent(model)) <= readers.MOST_A_SEARCH
    correct_the_first_answers(page, tmp_path / "indexes" / "reviews", ["lamp", "a puzzle", "a doll"])
    clusters_of_a_sample(page, model)
    open_offer(page, "chat:stand-in")
    press(page, "Use the index's own model again")
    page.get_by_role("button", name=OFFER).first.wait_for()


def open_offer(page, name):
    rest(page)
    page.get_by_role("button", name=name).first.click()


def correct_the_first_answers(page, folder, answers):
    """Write answers in the first rows one right after the other: none is lost while an earlier one is taken."""
    page.get_by_text("Edit answers").click()
    page.get_by_text(re.compile(r"\d+ of 240 different texts have no answer\.")).wait_for()
    rest(page)
    table = page.locator("[data-testid=stDataFrame] canvas").first
    table.scroll_into_view_if_needed()
    for row, answer in enumerate(answers):
        open_cell(page, table, row).fill(answer)
        page.keyboard.press("Enter")
        page.wait_for_timeout(200)  # what is written is sent a moment later
    with Index(folder, encoder=load_encoder()) as index:
        assert until(page, lambda: set(answers) <= set(index.teaching.answers(WHO).values()))
        assert index.teaching.answers(WHO)["d02"] == answers[0]
    press(page, "Apply these answers")
    sync_api.expect(page.get_by_text(re.compile("· d02$"))).to_have_count(0)  # what it is no longer about is no hit


def open_cell(page, table, row):
    """Open the first cell of a row, as often as the table is drawn anew under the click."""
    editor = page.locator("#portal textarea")
    for _ in range(30):
        table.dblclick(position={"x": 60, "y": 52 + 35 * row}, force=True)
        with suppress(sync_api.TimeoutError):
            editor.wait_for(timeout=3000)
            return editor
    raise AssertionError(f"row {row} never opens")


def clusters_of_a_sample(page, model):
    before = -1
    while before < len(sent(model)):  # the search reads on until its hits stay the same
        before = len(sent(model))
        page.wait_for_timeout(1500)
    go(page, "Groups")
    stored = page.get_by_text(re.compile(r"of 240 texts were read by chat:stand-in"))
    stored.wait_for()  # the question came along
    page.get_by_text(re.compile(r"Grouping sends \d+ more reviews and the answers")).wait_for()
    assert len(sent(model)) == before
    open_offer(page, "chat:stand-in")
    ask(page, "Reviews to read", "120")  # with those that the search read
    page.keyboard.press("Escape")
    press(page, "Send them")
    page.get_by_text(re.compile(r"of 240 texts were read by chat:stand-in, \d+ of them drawn at random")).wait_for()
    page.get_by_text(re.compile(r"about \d+% of all")).first.wait_for()
    page.get_by_text(re.compile(r"^Share \d+ to \d+ %")).first.wait_for()
    assert before < len(sent(model)) <= 120
