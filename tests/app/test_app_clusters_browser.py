import json
import re

import pytest
from app_fakes import MOOD, PRODUCT, REVIEWS
from browsing import SLOW

HOSTILE = '<img src=x onerror="window.hurt=1"> [a](javascript:window.hurt=1) $x$'

pytestmark = pytest.mark.browser


@pytest.fixture
def visit(make, serve, browser):
    """Open pages of the app over hostile reviews that were read under both instructions."""
    folder = make(rows=[{**one, "text": f"{one['text']} {HOSTILE}"} for one in REVIEWS], instructions=[PRODUCT, MOOD])
    address = serve(folder.parent).address

    def open_page(path, width=1280):
        page = browser.new_page(viewport={"width": width, "height": 1000})
        page.set_default_timeout(SLOW)
        page.goto(f"{address}/{path}")
        return page

    return open_page


def dots(page):
    """Return the points on the map."""
    return page.locator("[data-testid=stVegaLiteChart]").first.locator(".mark-symbol path")


def test_from_the_map_to_the_reviews_and_down_into_a_cluster(visit):
    page = visit(f"clusters?groups=3&instruction={PRODUCT}")
    dots(page).first.wait_for()
    assert dots(page).count() == len(REVIEWS)
    dots(page).nth(1).hover()  # the first lies under it: both answer "kettle"
    tip = page.locator("#vg-tooltip-element")
    tip.get_by_text("onerror").wait_for()
    dots(page).nth(1).click()
    page.get_by_role("heading", name="1 kettle").wait_for()
    assert "clusters=0" in page.url
    assert page.get_by_text(HOSTILE, exact=False).count() >= 2

    with page.expect_download() as download:
        page.get_by_role("button", name="JSONL").click()
    rows = [json.loads(line) for line in download.value.path().read_text().splitlines()]
    assert sorted(row["id"] for row in rows) == ["r1", "r2"]
    assert {row["cluster name"] for row in rows} == {"kettle"}

    page.get_by_role("button", name="Look closer").click()
    page.get_by_label("Instruction").last.fill(MOOD)
    page.get_by_role("button", name="Cluster these reviews").click()
    page.get_by_role("button", name="All reviews").wait_for()
    page.get_by_text("2 reviews in").wait_for()
    page.get_by_role("button", name="All reviews").click()
    page.get_by_role("heading", name="1 kettle").wait_for()
    assert page.evaluate("window.hurt") is None


def test_a_drag_chooses_a_box_and_a_double_click_lets_go(visit):
    page = visit(f"clusters?groups=3&instruction={PRODUCT}")
    dots(page).first.wait_for()
    area = page.locator("[data-testid=stVegaLiteChart]").first.bounding_box()
    page.mouse.move(area["x"] + 4, area["y"] + 4)
    page.mouse.down()
    page.mouse.move(area["x"] + area["width"] - 8, area["y"] + area["height"] - 8, steps=8)
    page.mouse.up()
    page.get_by_role("heading", name="A box on the map").wait_for()
    page.wait_for_url(re.compile("box="))
    page.mouse.dblclick(area["x"] + area["width"] / 2, area["y"] + 12)
    page.get_by_text("6 reviews in 3 clusters").wait_for()
    assert "box=" not in page.url


def test_a_ribbon_leads_to_its_reviews(visit):
    page = visit(f"clusters?groups=2&show=flow&instruction={PRODUCT}&beside={MOOD}")
    page.locator("[data-testid=stVegaLiteChart] .mark-area path").first.click()
    page.wait_for_url(re.compile("flow="))
    page.get_by_role("heading", name="→").wait_for()


@pytest.mark.parametrize("width", [1280, 400])
def test_lines_end_at_the_middle_of_their_cards(visit, width):
    page = visit(f"compare?q=kettle&first={PRODUCT}&second={MOOD}&k=4", width)
    page.locator("[class*=st-key-hit-1-4]").wait_for()
    chart = page.locator("[data-testid=stVegaLiteChart]")
    if width < 640:
        assert not chart.is_visible()
        return
    lines = chart.locator(".mark-line path")
    lines.first.wait_for(state="attached")  # a level line has no height, so it counts as invisible
    ends = "all => all.map(one => one.getBoundingClientRect()).flatMap(box => [box.top, box.bottom])"
    drawn = lines.evaluate_all(ends)
    for side in (0, 1):
        for rank in range(1, 5):
            card = page.locator(f"[class*=st-key-hit-{side}-{rank}]").bounding_box()
            middle = card["y"] + card["height"] / 2
            assert min(abs(one - middle) for one in drawn) < 4
