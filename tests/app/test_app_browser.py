import re

import pytest
from app_fakes import MOOD, REVIEWS
from browsing import SLOW, ask, go

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.browser


def test_from_a_file_to_hits_and_back_by_the_link(serve, page, tmp_path):
    outside = []
    address = serve(tmp_path / "indexes").address
    page.on(
        "request",
        lambda request: None if request.url.startswith(("data:", "blob:", address)) else outside.append(request.url),
    )
    page.goto(address)
    page.get_by_text("Everything stays on this machine").wait_for()
    rows = "".join(f'"{one["text"]}",{one["product"]},{one["stars"]},{one["date"]}\n' for one in REVIEWS)
    file = {"name": "shop.csv", "mimeType": "text/csv", "buffer": f"text,product,stars,date\n{rows}".encode()}
    page.locator("input[type=file]").set_input_files(file)
    page.get_by_role("button", name=re.compile("^Index")).click()
    page.get_by_text("6 reviews added").wait_for()
    page.get_by_role("button", name="Show it").click()
    page.get_by_role("heading", name="shop").first.wait_for()
    go(page, "Search")
    ask(page, "Search for", "kettle")
    page.get_by_text("The kettle broke.").first.wait_for()
    ask(page, "Instruction", "Which mood is it?")
    page.get_by_text(re.compile("read under this instruction")).wait_for()
    page.wait_for_url(re.compile("instruction=Which"))
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert b"The kettle broke." in download.value.path().read_bytes()
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    page.get_by_text("The kettle broke.").first.wait_for()
    sync_api.expect(page.get_by_label("Instruction", exact=True)).to_have_value("Which mood is it?", timeout=SLOW)
    assert outside == []


def test_what_is_typed_before_the_last_answer_has_come_undoes_nothing(serve, page, make):
    late, slow = [], []

    def line(browser):
        server = browser.connect_to_server()
        browser.on_message(server.send)
        server.on_message(lambda message: late.append((browser, message)) if slow else browser.send(message))

    page.route_web_socket(re.compile("_stcore/stream"), line)
    page.goto(f"{serve(make(instructions=[MOOD]).parent).address}/search")
    page.get_by_text("6 reviews to search").wait_for()
    slow.append(True)
    ask(page, "Search for", "I love my lamp")
    while not late:
        page.wait_for_timeout(100)
    ask(page, "Instruction", MOOD)
    slow.clear()
    for browser, message in late:
        browser.send(message)
    page.wait_for_url(re.compile(r"q=I\+love\+my\+lamp.*instruction="))
    page.get_by_text("read under this instruction").wait_for()


def test_addresses_in_reviews_are_no_links(serve, page, make):
    evil = "http://evil.example/x www.evil.example me@evil.example"
    folder = make(rows=[{**REVIEWS[0], "id": evil, "product": evil}])
    page.goto(f"{serve(folder.parent).address}/search?q=kettle")
    page.get_by_text("The kettle broke.").wait_for()
    main = page.get_by_test_id("stMain")
    assert evil in main.inner_text().replace("\u2060", "")
    assert main.locator("a[href]").count() == 0


def test_tables_are_not_saved_with_formulas_in_them(serve, page, make):
    page.goto(f"{serve(make().parent).address}/model")
    page.get_by_test_id("stDataFrame").first.hover()
    page.get_by_role("button", name=re.compile("^Search")).first.wait_for()  # the table's own, beside
    assert not page.get_by_role("button", name=re.compile("^Download as CSV")).count()
