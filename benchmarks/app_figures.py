"""How long the app takes for what a user does, and what it holds in memory, over many reviews.

    python benchmarks/app_figures.py CORPUS.jsonl --reviews 20000 --output benchmarks/results/app_figures.json

The documents' vectors under the instruction are seeded noise around a few centres, which costs nothing; the plain
reader's, queries, and what is read under a new instruction, go through the models that ship, in the app's own process.
Times are those of the page in a headless Chromium that draws without a GPU, from the key or the click until what was
asked for is there. Before, a file of reviews is dropped on an app without an index, and searched when it is read. Needs
playwright.
"""

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
from app_pictures import ARGUMENTS, CHROMIUM, Server, served
from common import documents_of, write
from playwright import sync_api as playwright
from search_latency import QUERIES, K

from retriever import load_encoder
from retriever.core.protocols import WrappedEncoder
from retriever.core.requests import SearchRequest
from retriever.core.similarity import normalise
from retriever.core.types import Encoded
from retriever.index.sources.encoders import load_base
from retriever.workspace import Index

INSTRUCTION = "What kind of product is this review about?"
NEW_INSTRUCTIONS = (
    "What broke?",
    "How does the customer feel about it?",
    "What is it used for?",
    "Who was it bought for?",
    "What does the customer compare it with?",
)
WORDS = ("sound", "cable", "toy", "camera", "screen", "book", "shoe", "knife", "lamp", "phone", "bag", "watch")
SPREAD = 0.06  # of the noise about a centre, in each of some hundred dimensions
PATIENCE = 180.0  # seconds for what the app does on demand
LONG = 900.0  # seconds for a clustering, and for the model to load
LOOK = 20  # milliseconds between looks at the page
WATCHED = 5.0  # seconds in which frames are counted

# What each page alone shows, in its URL's order of the navigation.
PAGES = {
    "Corpus": ("/", "h1"),
    "Search": ("/search", "input[aria-label='Search for']"),
    "Groups": ("/groups", "[data-testid=stSelectbox] input[aria-label*='How many']"),
    "Teach": ("/teach", "input[aria-label='Question']"),
    "Models": ("/models", "h3"),
}
HEADINGS = {"Corpus": "reviews", "Models": "Questions"}

# Conditions are looked at every 20 ms; the page's own clock tells when they held first.
WATCH = """
window.rests = () => document.querySelector("[data-testid=stApp]")?.dataset.testScriptState === "notRunning";
window.all = (selector) => [...document.querySelectorAll(selector)];
window.captions = () => all("[data-testid=stCaptionContainer]").map((one) => one.textContent);
window.cards = () => captions().map((one) => one.split(" · ").at(-1).trim());
window.says = (text) => captions().some((one) => one.includes(text));
window.painted = () => {
  const drawn = document.querySelector("[data-testid=stBidiComponentIsolated]")?.shadowRoot?.querySelector("canvas");
  if (!drawn) return 0;
  const pixels = drawn.getContext("2d").getImageData(0, 0, drawn.width, drawn.height).data;
  let count = 0;
  for (let at = 3; at < pixels.length; at += 4) count += pixels[at] > 0;
  return count;
};
window.drawn = () => {  // when it last changed, once it has not for half a second
  const now = painted();
  if (now !== window.before) [window.before, window.since] = [now, Date.now()];
  return now > 0 && Date.now() - window.since > 500 && window.since;
};
window.watch = (milliseconds) => (window.seen = new Promise((done) => {
  const began = performance.now(), times = [];
  const next = (now) => (times.push(now), now - began < milliseconds ? requestAnimationFrame(next) : done(times));
  requestAnimationFrame(next);
}));
"""


class SeededDocuments(WrappedEncoder):
    """The encoder itself for queries; documents get vectors and words that cost nothing."""

    def __init__(self, encoder: Any) -> None:  # noqa: ANN401 - one with a tokenizer, as the default one
        super().__init__(encoder)
        self._generator = np.random.default_rng(0)
        self._centres = normalise(self._noise(len(WORDS)))

    def encode_views(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        words: int = 0,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        """Return other rows of documents for every instruction, about the same centres; queries are embedded."""
        if not words:
            return super().encode_views(texts, instructions, on_tokens=on_tokens)
        if on_tokens is not None:
            on_tokens(sum(self.count_tokens(texts)))
        return [self._seeded(len(texts)) for _ in instructions]

    def _seeded(self, rows: int) -> Encoded:
        groups = self._generator.integers(len(WORDS), size=rows)
        vectors = normalise(self._centres[groups] + SPREAD * self._noise(rows))
        return Encoded(vectors, [[WORDS[group], WORDS[group - 1]] for group in groups.tolist()])

    def _noise(self, rows: int) -> Any:  # noqa: ANN401 - (rows, dim)
        return self._generator.standard_normal((rows, self.dim), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Expected:
    """The ids that a search shows: on the complete view by query, and first under a new instruction."""

    complete: dict[str, list[str]]
    first: dict[str, list[str]]


def build(corpus: Path, reviews: int, path: Path) -> Expected:
    """Index that many reviews under the instruction, and look up what the app is to show."""
    rows = islice(documents_of(corpus), reviews)
    with Index(path, encoder=SeededDocuments(load_encoder()), plain=load_base()) as index:
        index.add(rows, instructions=[INSTRUCTION])
        if len(index._opened.store.documents) < reviews:
            raise SystemExit(f"{corpus} holds {len(index._opened.store.documents):,} reviews, not {reviews:,}.")
        first_ids = {
            instruction: _ids(index, query, instruction)
            for query, instruction in zip(QUERIES, NEW_INSTRUCTIONS, strict=False)
        }
        return Expected({query: _ids(index, query, INSTRUCTION) for query in QUERIES}, first_ids)


def _ids(index: Index, query: str, instruction: str) -> list[str]:
    result = next(index.search_progressively(SearchRequest(query, instruction=instruction, k=K)))
    return [hit.document.id for hit in result.hits]


class Visit:
    """A page of the app in a browser, which does things and tells how long they took."""

    def __init__(self, page: playwright.Page, address: str) -> None:
        self.page = page
        self._address = address
        page.set_default_timeout(1000 * PATIENCE)
        page.add_init_script(WATCH)

    def until(self, what: str, act: Callable[[], object], holds: str, *, patience: float = PATIENCE) -> float:
        """Do something and return the seconds until a condition in the page holds.

        Args:
            what: what is waited for, for the message.
            act: what to do.
            holds: an expression of JavaScript; the time at which it came true where it tells it itself.
            patience: seconds to wait at most.

        Raises:
            TimeoutError: it did not come true.
        """
        began = time.time()
        act()
        clock = f"() => {{ const held = {holds}; return held === true ? Date.now() : held || false; }}"
        try:
            held = self.page.wait_for_function(clock, polling=LOOK, timeout=1000 * patience)
        except playwright.TimeoutError as error:
            said = " | ".join(self.page.locator("[data-testid=stMain]").inner_text().split("\n"))[:600]
            raise TimeoutError(f"{what}: not after {patience:.0f} s at {self.page.url}; it says: {said}") from error
        seconds = held.json_value() / 1000 - began
        print(f"{what}: {seconds:.2f} s", file=sys.stderr, flush=True)
        return seconds

    def open(self, path: str, holds: str, **parameters: str) -> float:
        """Open a page in a session of its own."""
        address = f"{self._address}/{path}?{urlencode(parameters)}"
        return self.until(f"opening {path}", lambda: self.page.goto(address), holds, patience=LONG)

    def ask(self, label: str, text: str, holds: str) -> float:
        """Fill a box, and time from the Enter."""
        box = self.page.get_by_label(label, exact=True).first
        self.until("rest", lambda: None, "rests()")
        box.fill(text)
        return self.until(f"{label}: {text}", lambda: box.press("Enter"), holds)

    def go(self, name: str, holds: str | None = None) -> float:
        """Click a page's name; by default until what that page alone shows is there and the app is at rest."""
        link = self.page.get_by_role("link", name=name, exact=True)
        return self.until(f"page {name}", link.click, holds or is_page(name))

    def frames(self, move: Callable[[int], object]) -> dict[str, float]:
        """Move about for some seconds and return the frames in them."""
        self.page.evaluate(f"watch({1000 * WATCHED}); 0")
        end, step = time.monotonic() + WATCHED, 0
        while time.monotonic() < end:
            move(step)
            step += 1
        times = self.page.evaluate("seen")
        gaps = np.diff(times)
        return {
            "frames_per_second": round(1000 / float(np.mean(gaps)), 1),
            "slowest_frame_ms": round(float(np.max(gaps)), 1),
            "moves": step,
        }


def is_page(name: str) -> str:
    """Return the condition that a page is shown, whole."""
    path, only = PAGES[name]
    heading = HEADINGS.get(name)
    shown = f'all("{only}")'
    shown += f".some((one) => one.textContent.trim() === {heading!r})" if heading else ".length > 0"
    return f"rests() && location.pathname === {path!r} && {shown}"


def hits(ids: Sequence[str]) -> str:
    """Return the condition that these reviews are on cards; two of ten may be others, where rounding parts ties."""
    return f"{json.dumps(ids)}.filter((id) => cards().includes(id)).length >= {0.8 * len(ids)}"


def dropped(corpus: Path, reviews: int) -> dict[str, Any]:
    """Drop a file on an app that was just started; time a search of what is read, the indexing, and one of all."""
    lines = corpus.read_text(encoding="utf-8").splitlines(keepends=True)[:reviews]
    with tempfile.TemporaryDirectory() as folder, playwright.sync_playwright() as driver:
        file = Path(folder) / "dropped.jsonl"
        file.write_text("".join(lines), encoding="utf-8")
        with served(Path(folder) / "indexes") as server, opened(driver, server) as visit:
            page = visit.page
            visit.open("", "rests() && all('input[type=file]').length > 0")
            began = time.time()
            button = page.get_by_role("button", name=f"Index {len(lines):,} reviews")
            page.locator("input[type=file]").set_input_files(file)
            button.wait_for()
            preview = time.time() - began
            button.click()
            meanwhile = page.get_by_role("link", name="Search the first ")
            meanwhile.wait_for(timeout=1000 * LONG)
            held = meanwhile.inner_text()
            meanwhile.click()
            visit.ask("Search for", QUERIES[0], "rests() && cards().length > 2")
            first = time.time() - began
            page.get_by_role("link", name="Corpus", exact=True).click()
            page.get_by_text(f"{len(lines):,} reviews added").wait_for(timeout=1000 * LONG)
            indexed = time.time() - began
            visit.go("Search")
            before = page.evaluate("cards().join()")  # what was searched for meanwhile is still there
            visit.ask("Search for", QUERIES[1], f"rests() && cards().length > 2 && cards().join() !== {before!r}")
            answered = time.time() - began
            return {
                "reviews": len(lines),
                "preview_s": round(preview, 1),
                "first_answer_s": round(first, 1),
                "first_answer_from": int("".join(filter(str.isdigit, held))),
                "indexed_s": round(indexed, 1),
                "answer_from_all_s": round(answered, 1),
                **memory(server),
            }


def searches(visit: Visit, expected: Expected) -> dict[str, Any]:
    """Time searches on the complete view and under new instructions."""
    start = QUERIES[-1]
    visit.open("search", is_page("Search"), instruction=INSTRUCTION)
    loading = visit.ask("Search for", start, f"rests() && {hits(expected.complete[start])}")
    complete, first, settled, back = [], [], [], []
    for query in QUERIES:
        complete.append(visit.ask("Search for", query, f"rests() && {hits(expected.complete[query])}"))
    for query, instruction in zip(QUERIES, NEW_INSTRUCTIONS, strict=False):
        shown = f"rests() && {hits(expected.complete[query])}"
        visit.ask("Search for", query, shown)
        began = time.time()
        first.append(visit.ask("Question", instruction, hits(expected.first[instruction])))
        visit.until("settled", lambda: None, "rests() && says('The model has read')")
        settled.append(time.time() - began)
        back.append(visit.ask("Question", INSTRUCTION, shown))
    return {
        "first_search_loads_the_model_s": round(loading, 2),
        "search_on_complete_view": spread(complete),
        "new_instruction_first_hits": spread(first),
        "new_instruction_settled": spread(settled),
        "back_to_complete_view": spread(back),
    }


def maps(visit: Visit, rounds: int) -> dict[str, Any]:
    """Time a clustering, its map, and count frames over it."""
    clustering = visit.open("groups", "drawn()", instruction=INSTRUCTION)
    drawn = []
    for _ in range(rounds):
        visit.go("Search")
        visit.page.evaluate("window.before = null")
        drawn.append(visit.go("Groups", "drawn()"))
    chart = visit.page.get_by_role("application", name="Map of the reviews")
    chart.scroll_into_view_if_needed()
    area = chart.bounding_box()
    assert area is not None
    mouse = visit.page.mouse

    def hover(step: int) -> None:
        turn = step / 20
        x, y = 0.5 + 0.3 * np.cos(turn), 0.5 + 0.3 * np.sin(turn)
        mouse.move(area["x"] + float(x) * area["width"], area["y"] + float(y) * area["height"])

    hovering = visit.frames(hover)
    visit.page.keyboard.down("Control")
    zooming = visit.frames(lambda step: mouse.wheel(0, -40 if step // 20 % 2 == 0 else 40))
    visit.page.keyboard.up("Control")
    return {
        "opened_with_clustering_s": round(clustering, 1),
        "drawn": spread(drawn),
        "hovering": hovering,
        "zooming": zooming,
    }


def page_changes(visit: Visit, expected: Expected, rounds: int) -> dict[str, Any]:
    """Time changes between all pages, each with something on it."""
    first = {name: visit.go(name) for name in PAGES}
    visit.go("Search")
    visit.ask("Question", INSTRUCTION, "rests()")
    visit.ask("Search for", QUERIES[0], f"rests() && {hits(expected.complete[QUERIES[0]])}")
    took: dict[str, list[float]] = {name: [] for name in PAGES}
    for turn in range(rounds):
        for name in PAGES if turn % 2 == 0 else reversed(PAGES):
            if is_page_now(visit, name):
                continue
            took[name].append(visit.go(name))
    every = [seconds for each in took.values() for seconds in each]
    return {
        "all": spread(every),
        **{name: spread(each) for name, each in took.items()},
        "first_visit_s": {name: round(seconds, 2) for name, seconds in first.items()},
    }


def is_page_now(visit: Visit, name: str) -> bool:
    """Return whether the browser is on that page."""
    return bool(visit.page.evaluate(f"location.pathname === {PAGES[name][0]!r}"))


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Return median and slowest seconds."""
    return {
        "median_s": round(statistics.median(seconds), 3),
        "slowest_s": round(max(seconds), 3),
        "times": len(seconds),
    }


def memory(server: Server) -> dict[str, float]:
    """Return what the server holds, and has held at most, in MiB."""
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.startswith(("VmRSS", "VmHWM"))}
    return {"resident_mib": round(kilobytes["VmRSS"] / 1024), "peak_mib": round(kilobytes["VmHWM"] / 1024)}


@contextlib.contextmanager
def opened(driver: playwright.Playwright, server: Server) -> Iterator[Visit]:
    """Yield a page of a browser that goes to the app."""
    browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
    yield Visit(browser.new_page(viewport={"width": 1280, "height": 900}), server.address)
    browser.close()


def measure(server: Server, expected: Expected, rounds: int) -> dict[str, Any]:
    """Do everything in one browser, and look at the server's memory in between."""
    with playwright.sync_playwright() as driver, opened(driver, server) as visit:
        visit.open("", is_page("Corpus"))
        held = {"corpus_page": memory(server)}
        report = searches(visit, expected)
        held["after_searches"] = memory(server)
        report["map"] = maps(visit, rounds)
        held["after_map"] = memory(server)
        report["page_change"] = page_changes(visit, expected, rounds)
        held["at_the_end"] = memory(server)
    return {**report, "server_memory": held}


def main() -> None:
    """Parse the options, measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--reviews", type=int, default=20_000)
    parser.add_argument("--dropped", type=int, default=5_000, help="reviews of the file that is dropped; 0 for none")
    parser.add_argument("--rounds", type=int, default=5, help="of page changes and maps")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    first = dropped(options.corpus, options.dropped) if options.dropped else None
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        expected = build(options.corpus, options.reviews, Path(folder) / "reviews")
        building = round(time.perf_counter() - began, 1)
        with served(Path(folder)) as server:
            report = {"dropped": first, "building_s": building, **measure(server, expected, options.rounds)}
    write("app_figures", options, report)


if __name__ == "__main__":
    main()
