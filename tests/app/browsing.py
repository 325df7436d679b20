"""Steps of a user in a browser, each once the page has come to rest."""

import contextlib
import re
from pathlib import Path

from app_fakes import REVIEWS

SLOW = 180_000  # milliseconds; a busy machine


def rest(page):
    """Wait until the page is drawn: what is typed before that may be drawn over."""
    page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for()


def until(page, holds):
    """Wait until something holds of a page that may still be laid out; return whether it does in the end."""
    for _ in range(SLOW // 100):
        if holds():
            return True
        page.wait_for_timeout(100)
    return False


def go(page, name):
    page.get_by_role("link", name=name, exact=True).click()
    page.wait_for_url(re.compile(f"/{name.lower()}"))


def ask(page, label, text, *, last=False):
    rest(page)
    found = page.get_by_label(label, exact=True)
    box = found.last if last else found.first
    box.fill(text)
    box.press("Enter")


def press(page, name):
    rest(page)
    page.get_by_role("button", name=name, exact=True).click()


def choose(page, label, option):
    from playwright.sync_api import TimeoutError as Late

    rest(page)
    wanted = page.get_by_role("option", name=option, exact=True)
    for _ in range(12):  # a list closes again where its place still moves, in a part that unfolds say
        if not wanted.is_visible():
            page.get_by_role("combobox", name=label).click()
        with contextlib.suppress(Late):
            wanted.click(timeout=SLOW / 12)
            return
    raise AssertionError(f"{label} does not offer {option}")


def read(page):
    """Return the reviews on cards, in their order."""
    known = {review["text"] for review in REVIEWS}
    shown = page.locator("[data-testid=stText], [data-testid=stMarkdown] p").all_inner_texts()
    return [text for text in shown if text in known]


def downloaded(page, button):
    with page.expect_download() as download:
        press(page, button)
    return Path(download.value.path()).read_text(encoding="utf-8-sig")
