import json
import re

import pytest
from app_fakes import MOOD, PRODUCT, REVIEWS
from browsing import SLOW, ask, choose, downloaded, go, press, read

from retriever_app.trainings import MODELS_FOLDER

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

COLUMNS = {"Review text": "Review Text", "Product": "ASIN", "Stars": "Rating", "Date": "Review Date"}
QUERY = "I love my kettle"

pytestmark = pytest.mark.browser


def test_from_a_file_to_a_model_of_ones_own(serve, page, tmp_path):
    place = tmp_path / "indexes"
    page.goto(serve(place).address)
    upload_and_index(page)
    search_under_two_instructions_and_filter(page)
    compare(page)
    cluster_and_look_closer(page)
    train_and_promote(page)
    pointer = json.loads((tmp_path / "user" / "default.json").read_text())
    assert pointer["folder"] == str(place / MODELS_FOLDER / "learns" / "model")


def upload_and_index(page):
    rows = "".join(f"{one['text']};{one['product']};{one['stars']};{one['date']}\n" for one in REVIEWS)
    table = f"{';'.join(COLUMNS.values())}\n{rows}".encode()
    page.locator("input[type=file]").set_input_files({"name": "shop.csv", "mimeType": "text/csv", "buffer": table})
    for label, column in COLUMNS.items():
        holds(page.get_by_role("combobox", name=label, exact=True), column)
    press(page, "Index 6 reviews")
    page.get_by_text("6 reviews added").wait_for()
    press(page, "Show it")
    page.get_by_role("heading", name="shop").first.wait_for()


def search_under_two_instructions_and_filter(page):
    go(page, "Search")
    ask(page, "Search for", QUERY)
    ask(page, "Instruction", PRODUCT)
    shows_words(page, ["kettle", "kettle", "lamp", "lamp", "toy", "toy"])
    ask(page, "Instruction", MOOD)
    shows_words(page, ["hate", "love", "love"])
    assert set(read(page)) == {review["text"] for review in REVIEWS}
    press(page, "1 ★")
    page.get_by_text(re.compile(r"^2 reviews: ")).wait_for()
    found = downloaded(page, "Download").splitlines()
    assert len(found) == 3
    assert all("broke" in row for row in found[1:])
    press(page, "Clear filters")
    page.get_by_text(re.compile(r"^6 reviews: ")).wait_for()


def compare(page):
    go(page, "Compare")
    ask(page, "Search for", QUERY)
    ask(page, "First instruction", PRODUCT)
    ask(page, "Second instruction", MOOD)
    page.get_by_text("6 of 6 hits are on both sides").wait_for()
    left = page.locator("[class*=st-key-hit-0-1]")
    right = page.locator("[class*=st-key-hit-1-1]")
    sync_api.expect(left).to_contain_text("kettle")
    sync_api.expect(right).to_contain_text("love")
    sync_api.expect(page.locator("[class*=st-key-hit-]")).to_have_count(12)
    page.locator("[data-testid=stVegaLiteChart] .mark-line path").first.wait_for(state="attached")


def cluster_and_look_closer(page):
    go(page, "Clusters")
    ask(page, "Instruction", PRODUCT)
    choose(page, "Clusters", "3")
    page.get_by_text("6 reviews in 3 clusters").wait_for()
    page.get_by_text(re.compile(r"^\d kettle \(2\)$")).click()
    page.get_by_role("heading", name="kettle").wait_for()
    rows = [json.loads(line) for line in downloaded(page, "JSONL").splitlines()]
    assert sorted(row["text"] for row in rows) == ["I love this kettle.", "The kettle broke."]
    press(page, "Look closer")
    ask(page, "Instruction", MOOD, last=True)
    press(page, "Cluster these reviews")
    page.get_by_text("2 reviews in").wait_for()
    holds(page.get_by_label("Instruction", exact=True), MOOD)
    page.get_by_role("button", name="All reviews").wait_for()


def train_and_promote(page):
    go(page, "Train")
    ask(page, "Name", "learns")
    page.get_by_text("The example", exact=True).click()
    page.get_by_text("170 rows of questions and answers").wait_for()
    press(page, "Make the training")
    page.get_by_text("170 rows can be used").wait_for()
    press(page, "Train")
    page.get_by_text("It got better on the held-out rows.").wait_for()
    page.get_by_text("Searches it never saw").wait_for()
    press(page, "Promote")
    page.get_by_text("The default model: new indexes are made with it.").wait_for()


def holds(box, value):
    sync_api.expect(box).to_have_value(value, timeout=SLOW)


def shows_words(page, words):
    """Wait until the cards show what the model answers under the instruction alone."""
    badges = page.locator(".stMarkdownBadge").filter(has_not_text=re.compile("[▲▼]|new"))
    sync_api.expect(badges).to_have_count(len(words), timeout=SLOW)
    page.get_by_text("read under this instruction").wait_for()
    assert sorted(badges.all_inner_texts()) == words
