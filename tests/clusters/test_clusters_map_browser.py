import json
import re

import numpy as np
import pytest
from index_fakes import KEYWORDS, MOOD, PRODUCT

from retriever.clusters.map import map_places, write_map
from retriever.core.types import Document

pytestmark = pytest.mark.browser
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> toy"
PRODUCTS, MOODS = KEYWORDS[PRODUCT][:3], KEYWORDS[MOOD][:3]
BOXES = """async () => {
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));  // what is due is drawn
  return [...document.querySelectorAll('.scatter-names span:not([hidden])')].map((one) => {
  const box = one.getBoundingClientRect();
  return [one.textContent, box.left, box.top, box.right, box.bottom];
}); }"""

DRAWN = """() => {
  const canvas = document.querySelector('canvas'), { width, height } = canvas;
  if (!width || !height) return false;
  const copy = new OffscreenCanvas(width, height).getContext('2d', { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);  // a canvas that is read again and again makes the browser complain of the page
  return copy.getImageData(0, 0, width, height).data.some(Boolean);
}"""


@pytest.fixture
def clustered(index):
    texts = [f"{product} {mood} {'x' * row}" for product in PRODUCTS for mood in MOODS for row in range(2)]
    plain = [Document(text.replace(" ", "-"), text, {"stars": row % 5}) for row, text in enumerate(texts)]
    index.add([*plain, Document("<b>bad</b>", HOSTILE, {"who": "<img src=x onerror=alert(3)>"})])
    return index.cluster(PRODUCT, k=3)


@pytest.fixture
def opened(browser, clustered, tmp_path):
    """Open a map with every document at a place of its own, or where it is told; nothing may go wrong meanwhile."""
    wrong = []

    def open_map(places=None, *, wide=1000):
        angles = np.linspace(0, 2 * np.pi, len(clustered.material.documents), endpoint=False)
        circle = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
        write_map(tmp_path / "map.html", clustered, circle if places is None else places)
        page = browser.new_page(viewport={"width": wide, "height": 700})
        page.set_default_timeout(60_000)
        page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text))
        page.on("request", lambda asked: asked.url.startswith("file:") or wrong.append(asked.url))
        page.goto((tmp_path / "map.html").as_uri())
        page.wait_for_function(DRAWN)
        return page

    yield open_map
    assert wrong == []


def spots(page):
    """Every point of the page's data with its place on the screen."""
    box = page.locator("canvas").bounding_box()
    across, down = box["width"] / 2 / 1.04, box["height"] / 2 / 1.04
    data = json.loads(page.locator("#data").text_content())
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    return [(one, middle[0] + one["x"] * across, middle[1] - one["y"] * down) for one in data["points"]]


def shown(page):
    return re.match(r"(\d+) of 19 documents", page.locator("#count").text_content())[1]


def test_a_hover_shows_the_text_and_a_click_the_document(opened):
    page = opened()
    for point, x, y in spots(page)[:3]:
        page.mouse.move(x, y)
        assert page.locator(".scatter-tip").text_content() == point["text"]
    page.mouse.move(10, 10)
    assert page.locator(".scatter-tip").is_hidden()
    point, x, y = next(one for one in spots(page) if one[0]["id"] == "<b>bad</b>")
    page.mouse.click(x, y)
    document = page.locator("#document")
    assert document.locator("strong").text_content() == "<b>bad</b>"
    assert document.locator("p").text_content() == HOSTILE
    assert document.locator("dd").all_text_contents() == ["1 toy", "toy", point["fields"]["who"]]
    assert page.locator("img, b").count() == 0


def test_the_search_leaves_documents_with_all_words(opened):
    page = opened()
    assert shown(page) == "19"
    page.get_by_role("searchbox").fill(f"{PRODUCTS[0]} {MOODS[1]}")
    assert shown(page) == "2"
    _, x, y = next(one for one in spots(page) if PRODUCTS[2] in one[0]["text"])
    page.mouse.move(x, y)
    assert page.locator(".scatter-tip").is_hidden()
    page.get_by_role("searchbox").fill("")
    assert shown(page) == "19"


def test_the_legend_filters_clusters_with_their_labels(opened):
    page = opened()
    button = page.locator("#legend button").first
    assert button.text_content() == "1 toy7"
    button.click()
    assert shown(page) == "12"
    assert button.get_attribute("aria-pressed") == "false"
    assert "1 toy" not in [label for label, *_ in page.evaluate(BOXES)]
    button.click()
    assert shown(page) == "19"
    assert "1 toy" in [label for label, *_ in page.evaluate(BOXES)]


def test_a_document_can_be_opened_by_keys(opened, clustered):
    places = np.full((len(clustered.material.documents), 2), 0.9, dtype=np.float32)
    places[3] = [-0.2, 0.3]
    page = opened(places)
    page.get_by_role("application").focus()
    page.keyboard.press("Enter")
    assert page.locator("#document strong").text_content() == clustered.material.documents[3].id


def test_the_wheel_and_the_buttons_zoom_and_a_drag_moves(opened):
    page = opened()
    (_, x, y), middle = spots(page)[0], page.locator("canvas").bounding_box()
    page.mouse.move(x, y)
    assert page.locator(".scatter-tip").is_visible()
    page.get_by_role("button", name="closer").click()
    page.mouse.move(x, y)
    assert page.locator(".scatter-tip").is_hidden()  # it went outwards
    page.get_by_role("button", name="Show the whole map").click()
    page.mouse.move(middle["x"] + 40, middle["y"] + 40)
    page.mouse.down()
    page.mouse.move(middle["x"] + 10, middle["y"] + 90, steps=3)
    page.mouse.up()
    page.mouse.move(x - 30, y + 50)
    assert page.locator(".scatter-tip").is_visible()


@pytest.mark.parametrize("wide", [1000, 390])
def test_labels_at_one_place_move_apart_and_stay_on_the_map(opened, clustered, wide):
    page = opened(np.zeros((len(clustered.material.documents), 2), dtype=np.float32), wide=wide)
    boxes = page.evaluate(BOXES)
    assert sorted(label for label, *_ in boxes) == ["1 toy", "2 kettle", "3 lamp"]
    for row, (_, left, top, right, bottom) in enumerate(boxes):
        for _, other_left, other_top, other_right, other_bottom in boxes[:row]:
            apart = (
                left >= other_right or right <= other_left or top >= other_bottom - 0.01 or bottom <= other_top + 0.01
            )
            assert apart
    area = page.locator("canvas").bounding_box()
    assert all(area["x"] <= one[1] and one[3] <= area["x"] + area["width"] for one in boxes)


def test_no_label_is_shown_before_it_has_its_place(browser, clustered, tmp_path):
    write_map(tmp_path / "map.html", clustered, np.zeros((len(clustered.material.documents), 2), dtype=np.float32))
    page = browser.new_page()
    page.add_init_script("window.ResizeObserver = class { observe() {} }")  # the map never learns how large it is
    page.goto((tmp_path / "map.html").as_uri())
    page.locator(".scatter-names span").first.wait_for(state="attached")
    assert page.evaluate(BOXES) == []


def test_maps_of_real_places_open_too(opened, clustered):
    page = opened(map_places(clustered))
    assert page.locator("#title").text_content() == PRODUCT
    assert shown(page) == "19"
