import csv
import re

import pytest
from app_fakes import MOOD, PRODUCT, REVIEWS, documents, load_encoder
from browsing import SLOW, rest, until

from retriever.workspace import Index

HOSTILE = '<img src=x onerror="window.hurt=1"> [a](javascript:window.hurt=1) $x$'

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def address(tmp_path_factory, serve_module):
    """Serve hostile reviews that were read under both instructions."""
    folder = tmp_path_factory.mktemp("indexes")
    with Index(folder / "reviews", encoder=load_encoder()) as index:
        rows = [{**one, "text": f"{one['text']} {HOSTILE}"} for one in REVIEWS]
        index.add(documents(rows), instructions=[PRODUCT, MOOD])
    return serve_module(folder).address


@pytest.fixture
def visit(address, browser):
    """Open pages of the app."""

    def open_page(path, width=1280, **options):
        page = browser.new_page(viewport={"width": width, "height": 1000}, **options)
        page.set_default_timeout(SLOW)
        page.goto(f"{address}/{path}")
        return page

    return open_page


DOTS = """async (canvas) => {
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));  // what is due is drawn
  const { width, height } = canvas, found = [];
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  const box = canvas.getBoundingClientRect(), ratio = width / box.width;
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) {
    const at = 4 * (y * width + x), alpha = data[at + 3];
    if (alpha < 10) continue;
    const known = found.find((one) => Math.hypot(one.left - x, one.top - y) < 16);
    if (known) known.alpha = Math.max(known.alpha, alpha);
    else found.push({ left: x, top: y, alpha });
  }
  return found.map((one) => ({ ...one, x: box.x + one.left / ratio, y: box.y + one.top / ratio + 2 }));
}"""


def canvas(page):
    """Return the map, drawn or not; no name stands on it where none has room."""
    return page.get_by_role("application", name="Map of the reviews")


def dots(page):
    """Return the points on the map, those that lie together as one: where they are on the page, and their opacity."""
    return canvas(page).evaluate(DOTS)


def wait_for_points(page, count, drawn):
    """Wait until so many points are drawn in such an opacity, those that lie together counted as one."""
    for _ in range(SLOW // 50):
        if sum(drawn(one["alpha"]) for one in dots(page)) == count:
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never {count} of them: {dots(page)}")


def wait_for_dim(page, count):
    """Wait until so many points stand back."""
    wait_for_points(page, count, lambda alpha: alpha < 80)


def stands(page):
    """Wait until points are drawn and stay where they are: while a verdict is looked for, its bar stands above."""
    page.get_by_text("Checking whether the model follows").first.wait_for(state="hidden")

    def at_rest():
        before = dots(page)
        page.wait_for_timeout(300)
        return before and dots(page) == before

    assert until(page, at_rest)


def dot_of(page, name):
    """Return a point whose tip says a name."""
    stands(page)
    for dot in dots(page):
        page.mouse.move(dot["x"], dot["y"])
        if page.locator(".scatter-tip").text_content().startswith(name):
            return dot
    raise AssertionError(f"no point of {name}")


def test_from_the_map_to_the_reviews_of_a_group(visit):
    page = visit(f"groups?groups=3&instruction={PRODUCT}")
    kettle = dot_of(page, "kettle")
    assert "onerror" in page.locator(".scatter-tip").text_content()
    page.mouse.click(kettle["x"], kettle["y"])
    page.get_by_role("heading", name="kettle").wait_for()
    page.wait_for_url(re.compile("clusters=0"))
    page.get_by_text(HOSTILE, exact=False).nth(1).wait_for()

    with page.expect_download() as download:
        page.get_by_role("button", name="Download", exact=True).click()
    rows = list(csv.DictReader(download.value.path().read_text(encoding="utf-8-sig").splitlines()))
    assert sorted(row["id"] for row in rows) == ["r1", "r2"]
    assert {row["group"] for row in rows} == {"kettle"}

    assert page.evaluate("window.hurt") is None


def test_a_cluster_is_added_with_shift_and_let_go_from_elsewhere(visit):
    page = visit(f"groups?groups=3&instruction={PRODUCT}")
    kettle, toy = dot_of(page, "kettle"), dot_of(page, "toy")
    page.mouse.click(kettle["x"], kettle["y"])
    page.get_by_role("heading", name="kettle", exact=True).wait_for()
    page.keyboard.down("Shift")
    page.mouse.click(toy["x"], toy["y"])
    page.keyboard.up("Shift")
    page.get_by_role("heading", name="kettle and toy").wait_for()
    wait_for_dim(page, 1)
    page.get_by_role("button", name="Clear").click()
    page.get_by_text("6 reviews in 3 groups").wait_for()
    wait_for_dim(page, 0)
    kettle = dot_of(page, "kettle")
    page.mouse.click(kettle["x"], kettle["y"])
    page.wait_for_url(re.compile("clusters=0"))
    rest(page)
    stands(page)  # until then the app may still answer the click
    page.keyboard.press("Escape")
    page.wait_for_url(lambda url: "clusters=" not in url)


def test_a_bar_filters_map_cards_and_the_other_charts_beside_the_map(visit):
    page = visit(f"groups?groups=3&instruction={PRODUCT}")
    stands(page)
    stars = page.locator("[data-testid=stVegaLiteChart]").first
    stars.locator(".mark-rect").last.locator("path").first.click()
    page.wait_for_url(re.compile("only_stars=5"))
    page.get_by_text("Only 5 ★").wait_for()
    page.get_by_text("1 review", exact=True).wait_for()
    wait_for_points(page, 1, lambda alpha: alpha > 80)
    stands(page)
    rest(page)
    card = page.get_by_text(re.compile("^Share ")).first.bounding_box()
    drawn = canvas(page).bounding_box()
    assert card["x"] > drawn["x"] + drawn["width"]
    assert card["y"] < drawn["y"] + drawn["height"]
    page.get_by_role("button", name="Show all again").click()
    wait_for_dim(page, 0)
    page.wait_for_url(lambda url: "only_stars" not in url)


def test_a_finger_scrolls_past_the_map_and_a_tap_chooses(visit):
    page = visit(f"groups?groups=3&instruction={PRODUCT}", 400, has_touch=True, is_mobile=True)
    stands(page)
    dot = dots(page)[0]
    assert canvas(page).evaluate("(map) => map.style.touchAction").startswith("pan-y")
    page.touchscreen.tap(dot["x"], dot["y"])
    page.wait_for_url(re.compile("clusters="))
    page.get_by_role("button", name="+ closer").tap()
    assert until(page, lambda: canvas(page).evaluate("(map) => map.style.touchAction") == "none")


def test_the_way_back_leads_over_a_filter_to_what_was_chosen(visit):
    page = visit(f"groups?groups=2&instruction={PRODUCT}")
    read = page.get_by_role("button", name="Read", exact=True).first
    read.wait_for()
    stands(page)  # until then the cards move
    rest(page)
    read.click()
    page.wait_for_url(re.compile("clusters="))
    rest(page)
    chosen = page.url
    page.get_by_text("5 ★", exact=True).first.click()
    page.wait_for_url(lambda url: "stars=5" in url and "clusters=" not in url)
    rest(page)
    page.wait_for_timeout(4000)  # before that the app takes the URL for the one of a browser that is behind
    page.go_back()
    page.wait_for_url(chosen)
    page.get_by_role("button", name="Clear", exact=True).wait_for()
    rest(page)
    assert page.url == chosen
