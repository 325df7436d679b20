"""An analyst's way through the app, from a file to a report to hand over."""

import re

import pytest
from app_fakes import PRODUCT, REVIEWS
from browsing import ask, choose, go, press, read, rest

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.browser


def test_from_a_file_to_a_report_of_named_clusters_and_own_categories(serve, page, tmp_path):
    page.goto(serve(tmp_path / "indexes").address)
    drop_a_file_and_search_it(page)
    cluster_merge_and_rename(page)
    assert "Hot water" in report(page)
    name_categories_and_correct_one(page)
    compare_two_periods(page)
    said = report(page)
    assert f"# {PRODUCT}" in said
    assert re.search(r"^#+ .*lamp", said, re.MULTILINE)
    assert "The largest group is lamp: 50.0%" in said  # with the toy that was put there


def drop_a_file_and_search_it(page):
    rows = "".join(f'"{one["text"]}",{one["product"]},{one["stars"]},{one["date"]}\n' for one in REVIEWS)
    table = {"name": "shop.csv", "mimeType": "text/csv", "buffer": f"text,product,stars,date\n{rows}".encode()}
    page.locator("input[type=file]").set_input_files(table)
    press(page, "Index 6 reviews")
    page.get_by_text("6 reviews added").wait_for()
    press(page, "Show it")
    page.get_by_role("heading", name="shop").first.wait_for()
    go(page, "Search")
    ask(page, "Search for", "I love my kettle")
    page.get_by_text(re.compile("^6 reviews: ")).wait_for()
    rest(page)  # the cards are drawn after that line
    assert read(page)[0] == "I love this kettle."


def cluster_merge_and_rename(page):
    go(page, "Clusters")
    ask(page, "Instruction", PRODUCT)
    choose(page, "Clusters", "3")
    page.get_by_text("6 reviews in 3 clusters").wait_for()
    press(page, "Save")
    ask(page, "Name", "products")
    press(page, "Save these clusters")
    page.get_by_text("6 reviews in 3 clusters; 0 reviews in none of them").wait_for()
    change(page, "kettle")
    choose(page, "Merge with", "lamp")
    press(page, "Merge")
    page.get_by_text("6 reviews in 2 clusters").wait_for()
    change(page, "kettle")
    ask(page, "Name", "Hot water")
    press(page, "Rename")
    page.get_by_text("Hot water", exact=True).wait_for()
    page.get_by_text("4 reviews · 67%").wait_for()


def name_categories_and_correct_one(page):
    press(page, "New categories")
    ask(page, "Question", PRODUCT)
    page.get_by_label("Categories, with commas").fill("kettle, lamp, toy")
    ask(page, "Name", "kinds")
    press(page, "Sort the reviews")
    page.get_by_text("6 reviews in 3 clusters; 0 reviews in none of them").wait_for()
    page.keyboard.press("Escape")  # what was sorted at once leaves the form open
    card(page, "toy").get_by_role("button", name="Read").click()
    page.get_by_role("heading", name="toy").wait_for()
    rest(page)
    wrong = page.locator("[data-testid=stVerticalBlock]").filter(has_text="A toy, nothing more.").last
    wrong.get_by_role("button", name="Move to").click()
    page.get_by_role("menuitem", name="lamp").click()
    sync_api.expect(page.get_by_text("A toy, nothing more.")).to_have_count(0)
    press(page, "All clusters")
    page.get_by_text("3 reviews · 50%").wait_for()
    page.get_by_text("1 review · 17%").wait_for()


def compare_two_periods(page):
    page.get_by_text("Compare two periods").click()
    choose(page, "From", "2024-01")
    choose(page, "To", "2024-05")
    page.get_by_text("2024-01: 1 review. 2024-05: 1 review.").wait_for()
    page.get_by_text("New in 2024-05: toy.").wait_for()


def report(page):
    press(page, "Report")
    with page.expect_download() as download:
        press(page, "Markdown")
    page.keyboard.press("Escape")
    return download.value.path().read_text()


def card(page, name):
    """Return the card of a saved cluster."""
    return page.locator("[data-testid=stColumn]").filter(has=page.get_by_text(name, exact=True)).last


def change(page, name):
    rest(page)
    if not page.get_by_role("button", name="Rename", exact=True).is_visible():  # it stays open after a change
        card(page, name).get_by_role("button", name="Change").click()
