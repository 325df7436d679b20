import re
from itertools import count, islice
from pathlib import Path
from urllib.parse import urlencode

import pytest
from app_fakes import KEYWORDS, MOOD, PRODUCT, REVIEWS
from browsing import ask, choose, go, press, rest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.browser

COPIES = 100
WARM, LAST = 60, 140  # interactions
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
        (lambda: ask(page, "Instruction", PRODUCT), {"instruction": PRODUCT}),
        (lambda: ask(page, "Instruction", MOOD), {"instruction": MOOD}),
        (lambda: press(page, "1 ★"), {"stars": 1}),
        (lambda: press(page, "Clear filters"), {"instruction": MOOD}),
        (lambda: go(page, "Clusters"), {"index": "reviews"}),
        (lambda: ask(page, "Instruction", instruction), {"instruction": instruction}),
        (lambda: choose(page, "Clusters", str(groups)), {"groups": groups}),
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
