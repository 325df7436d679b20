"""The app in a browser: an analyst's way from a file to a report to hand over, a keyboard alone, and memory."""

import re
from itertools import count, islice
from pathlib import Path
from urllib.parse import urlencode

import pytest
from app_fakes import KEYWORDS, MOOD, PRODUCT, REVIEWS, documents, load_encoder
from browsing import SLOW, ask, choose, downloaded, go, press, read, rest

from retriever.workspace import Index

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.browser


def test_from_a_file_to_a_report_of_named_clusters_and_own_categories(serve, page, tmp_path):
    outside, address = [], serve(tmp_path / "indexes").address
    ours = ("data:", "blob:", address)
    page.on("request", lambda request: None if request.url.startswith(ours) else outside.append(request.url))
    page.goto(address)
    drop_a_file_and_search_it(page)
    come_back_by_the_link(page)
    group_merge_and_rename(page)
    assert "Hot water" in report(page)
    name_categories_and_correct_one(page)
    compare_two_periods(page)
    said = report(page)
    assert f"# {PRODUCT}" in said
    assert re.search(r"^#+ .*lamp", said, re.MULTILINE)
    assert "| lamp | 3 | 3 of 6 |" in said  # with the toy that was put there
    assert outside == []


def drop_a_file_and_search_it(page):
    rows = "".join(f'"{one["text"]}",{one["product"]},{one["stars"]},{one["date"]}\n' for one in REVIEWS)
    table = {"name": "shop.csv", "mimeType": "text/csv", "buffer": f"text,product,stars,date\n{rows}".encode()}
    page.locator("input[type=file]").set_input_files(table)
    press(page, "Index 6 reviews")
    page.get_by_text("6 reviews added").wait_for()
    page.get_by_role("heading", name="shop").first.wait_for()
    go(page, "Search")
    ask(page, "Search for", "I love my kettle")
    page.get_by_text(re.compile(r"^6 reviews\. ")).wait_for()
    page.get_by_text("I love this kettle.").first.wait_for()  # the cards are drawn after that line
    rest(page)
    assert read(page)[0] == "I love this kettle."


def come_back_by_the_link(page):
    ask(page, "Question", MOOD)
    page.get_by_text(re.compile("reviews under this question")).wait_for()
    page.wait_for_url(re.compile("instruction=Which"))
    assert "I love this kettle." in downloaded(page, "Download")
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    page.get_by_text("I love this kettle.").first.wait_for()
    sync_api.expect(page.get_by_label("Question", exact=True)).to_have_value(MOOD, timeout=SLOW)


def group_merge_and_rename(page):
    go(page, "Groups")
    ask(page, "Question", PRODUCT)
    choose(page, "How many", "3")
    page.get_by_text("6 reviews in 3 groups").wait_for()
    press(page, "Save and edit")
    ask(page, "Name", "products")
    press(page, "Save these groups")
    page.wait_for_url(re.compile("saved=products"))
    page.get_by_text("6 reviews in 3 groups").wait_for()
    change(page, "kettle")
    choose(page, "Merge with", "lamp")
    press(page, "Merge")
    page.get_by_text("6 reviews in 2 groups").wait_for()
    change(page, "kettle")
    ask(page, "Name", "Hot water")
    press(page, "Rename")
    page.get_by_text("Hot water", exact=True).first.wait_for()
    page.get_by_text("4 reviews · 4 of 6").wait_for()


def name_categories_and_correct_one(page):
    page.keyboard.press("Escape")  # what was changed leaves its form open
    choose(page, "Groups", "New groups …")
    choose(page, "How many", "My categories")
    ask(page, "Categories, separated by commas", "kettle, lamp, toy")
    page.get_by_text("6 reviews in 3 groups").wait_for()
    press(page, "Save and edit")
    ask(page, "Name", "kinds")
    press(page, "Save these groups")
    page.wait_for_url(re.compile("saved=kinds"))
    card(page, "toy").get_by_role("button", name="Read").click()
    page.get_by_role("heading", name="toy").wait_for()
    rest(page)
    wrong = page.locator("[data-testid=stVerticalBlock]").filter(has_text="A toy, nothing more.").last
    wrong.get_by_role("button", name="Move to").click()
    page.get_by_role("menuitem", name="lamp").click()
    sync_api.expect(page.get_by_text("A toy, nothing more.")).to_have_count(0)
    press(page, "Clear")
    page.get_by_text("3 reviews · 3 of 6").wait_for()
    page.get_by_text("1 review · 1 of 6").wait_for()


def compare_two_periods(page):
    page.get_by_text("Compare two parts").click()
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
    """Return the card of a group."""
    cards = page.locator("[data-testid=stVerticalBlock]").filter(has=page.get_by_role("button", name="Read"))
    return cards.filter(has=page.locator("strong", has_text=re.compile(f"^{name}$"))).last


def change(page, name):
    rest(page)
    if not page.get_by_role("button", name="Rename", exact=True).is_visible():  # it stays open after a change
        card(page, name).get_by_role("button", name="Change").click()


MOST_TABS = 40
EVIL = "http://evil.example/x www.evil.example me@evil.example"


@pytest.fixture(scope="module")
def address(tmp_path_factory, serve_module):
    """Serve the reviews, read under an instruction, and one that is full of addresses."""
    folder = tmp_path_factory.mktemp("indexes")
    for name, rows in {"reviews": REVIEWS, "evil": [{**REVIEWS[0], "id": EVIL, "product": EVIL}]}.items():
        with Index(folder / name, encoder=load_encoder()) as index:
            index.add(documents(rows), instructions=[MOOD])
    return serve_module(folder).address


def test_what_is_typed_before_the_last_answer_has_come_undoes_nothing(address, page):
    late, slow = [], []

    def line(browser):
        server = browser.connect_to_server()
        browser.on_message(server.send)
        server.on_message(lambda message: late.append((browser, message)) if slow else browser.send(message))

    page.route_web_socket(re.compile("_stcore/stream"), line)
    page.goto(f"{address}/search?index=reviews")
    page.get_by_text("6 reviews. Enter a query").wait_for()
    slow.append(True)
    ask(page, "Search for", "I love my lamp")
    while not late:
        page.wait_for_timeout(100)
    ask(page, "Question", MOOD)
    slow.clear()
    for browser, message in late:
        browser.send(message)
    page.wait_for_url(re.compile(r"q=I\+love\+my\+lamp.*instruction="))
    page.get_by_text("reviews under this question").wait_for()


def test_addresses_in_reviews_are_no_links(address, page):
    page.goto(f"{address}/search?index=evil&q=kettle")
    page.get_by_text("The kettle broke.").wait_for()
    main = page.get_by_test_id("stMain")
    assert EVIL in main.inner_text().replace("\u2060", "")
    assert main.locator("a[href]").count() == 0


def test_tables_are_not_saved_with_formulas_in_them(address, page):
    page.goto(f"{address}/models?index=reviews")
    page.get_by_test_id("stDataFrame").first.hover()
    page.get_by_role("button", name=re.compile("^Search")).first.wait_for()  # the table's own, beside
    assert not page.get_by_role("button", name=re.compile("^Download as CSV")).count()


def by_tab(page, name):
    """Press Tab until the thing of this name has the focus, which is to be seen."""
    wanted = page.get_by_role("textbox", name=name, exact=True).or_(page.get_by_role("button", name=name)).first
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if wanted.evaluate("box => box === document.activeElement"):
            return wanted
    raise AssertionError(f"{MOST_TABS} times Tab do not lead to {name}")


def test_a_search_and_more_like_a_hit_with_the_keyboard_alone(address, page):
    page.goto(f"{address}/search?index=reviews")
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


COPIES = 100
WARM, LAST = 40, 100  # interactions
LET_GROW = 24  # MiB; over 500 interactions it went up and down by 19, as cycles gather until they are collected


def interactions(page):
    """Do what users do, for ever; yield after every interaction that the server has answered."""
    for turn in count():
        for act, shown in steps(page, turn):
            act()
            page.wait_for_url(re.compile(re.escape(urlencode(shown))))
            yield


def steps(page, turn):
    """Return ten interactions, each with what the server writes into the URL."""
    query = f"{KEYWORDS[turn % len(KEYWORDS)]} {turn}"
    instruction, groups = (PRODUCT, MOOD)[turn % 2], 2 + turn % 5
    return [
        (lambda: go(page, "Search"), {"index": "reviews"}),
        (lambda: ask(page, "Search for", query), {"q": query}),
        (lambda: ask(page, "Question", PRODUCT), {"instruction": PRODUCT}),
        (lambda: ask(page, "Question", MOOD), {"instruction": MOOD}),
        (lambda: press(page, "1 ★"), {"stars": 1}),
        (lambda: press(page, "Clear filters"), {"instruction": MOOD}),
        (lambda: go(page, "Groups"), {"index": "reviews"}),
        (lambda: ask(page, "Question", instruction), {"instruction": instruction}),
        (lambda: choose(page, "How many", str(groups)), {"groups": groups}),
        (lambda: page.get_by_role("link", name="Corpus").click(), {"index": "reviews"}),
    ]


def held(page, pid):
    """Return the MiB of memory that no file stands behind, once the process is at rest.

    Pages of libraries do not count: of those that servers of other tests share, each has more when one of them ends.
    """
    rest(page)
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(kb) for kb in re.findall(r"^(?:Anonymous|Swap):\s+(\d+) kB", rollup, re.MULTILINE)) / 1024


def test_memory_does_not_grow_with_what_users_do(make, serve, page):
    rows = [
        {**one, "id": f"{one['id']}-{copy}", "text": f"{one['text']} {copy}"}
        for copy in range(COPIES)
        for one in REVIEWS
    ]
    server = serve(make(rows=rows, instructions=[PRODUCT, MOOD]).parent)
    page.goto(server.address)
    done = interactions(page)
    for _ in islice(done, WARM):
        pass
    warm = held(page, server.pid)
    for _ in islice(done, LAST - WARM):
        pass
    grown = held(page, server.pid) - warm
    assert grown < LET_GROW, f"{warm:.0f} MiB before"
