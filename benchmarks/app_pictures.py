"""Take the pictures of the app, and of a report, in docs/pictures, wide in both themes and narrow in the light one.

    python benchmarks/app_pictures.py --index indexes

What the folder lacks is made first: the index `reviews` of the example reviews, under the instructions that the
pictures ask, and two trainings on the example's rows, one only written down, one trained (some minutes). Needs Chromium
and playwright; starts the app by itself, unless --address names one that runs.
"""

import argparse
import contextlib
import io
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from playwright import sync_api as playwright
from playwright.sync_api import Browser, Page

from retriever.encoders import catalog
from retriever.workspace import Index
from retriever_app.training.job import MODELS_FOLDER, Trainings
from retriever_app.training.model import example_rows

OUT = Path(__file__).parents[1] / "docs" / "pictures"
WIDTHS = {"wide": (1280, 900), "narrow": (400, 860)}
THEMES = {"wide": ("light", "dark"), "narrow": ("light",)}
COLOURS = 64
PATIENCE = 240_000  # milliseconds: the first page loads the model
PROGRAM = [sys.executable, "-c", "from retriever.cli.main import run; run()"]
EXAMPLES = Path(__file__).parents[1] / "examples"
CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


@dataclass(frozen=True, slots=True)
class Shot:
    """One view of the app: the page, its query parameters, and a text that shows that it is there."""

    name: str
    page: str
    parameters: dict[str, str]
    shows: str


PRODUCT, FEELING, REASON = (
    "What kind of product is this review about?",
    "How does the customer feel about it?",
    "What is the main reason for the rating?",
)
KINDS, CATEGORIES = "kinds of product", "kitchen, electronics, toy, outdoor, books, clothing"
"""The categories of the reviews, and the name that they are saved under."""

WRITTEN, TRAINED = "my-questions", "example"
"""Names of the trainings."""
SHOTS = (
    Shot("corpus", "", {"index": "reviews"}, "Stars"),
    Shot(
        "search",
        "search",
        {"index": "reviews", "q": "it stopped working after a few days", "instruction": PRODUCT},
        "The model has read",
    ),
    Shot("groups", "groups", {"index": "reviews"}, "12 groups"),
    Shot("categories", "groups", {"index": "reviews", "saved": KINDS}, "Compare two parts"),
    Shot(
        "teach",
        "teach",
        {"index": "reviews", "instruction": REASON},
        "Review 1 of",
    ),
    Shot("rows", "models", {"index": "reviews", "part": "train", "training": WRITTEN}, "Changes are saved as you type"),
    Shot("train", "models", {"index": "reviews", "part": "train", "training": TRAINED}, "Searches on held-out rows"),
    Shot("models", "models", {"index": "reviews"}, "Models and vectors"),
)


def prepare(folder: Path, *, train: bool) -> None:
    """Make the index that is not there, and the trainings, which take minutes, where they are wanted."""
    if not (folder / "reviews").exists():
        options = [part for instruction in (PRODUCT, FEELING) for part in ("--instruction", instruction)]
        corpus = str(EXAMPLES / "reviews.jsonl")
        subprocess.run([*PROGRAM, "index", corpus, "--index", str(folder / "reviews"), *options], check=True)
        with Index(folder / "reviews") as index:
            index.clusterings.save(KINDS, index.cluster(PRODUCT, into=CATEGORIES.split(", ")))
            index.teaching.name_answers(REASON, dict.fromkeys(["quality", "price", "delivery", "fit", "other"], ""))
    if not train:
        return
    trainings = Trainings(folder / MODELS_FOLDER)
    for name in {WRITTEN, TRAINED} - set(trainings.names()):
        trainings.create(name, example_rows())
    trained = trainings.find(TRAINED)
    if trainings.status(trained) != "finished":
        trainings.start(trained, catalog.resolve_name(catalog.DEFAULT))
        while trainings.status(trained) == "running":
            time.sleep(1)


@dataclass(frozen=True, slots=True)
class Server:
    """The app as it runs: its address, and the number of its process where it was started here."""

    address: str
    pid: int | None = None


@contextlib.contextmanager
def served(index: Path) -> Iterator[Server]:
    """Run the app on an index or a folder of them, and yield where it is."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [*PROGRAM, "app", "--indexes", str(index), "--no-browser", "--port", port, "--read-on", "0"]
    server = subprocess.Popen(command)
    try:
        yield Server(wait_for(f"http://127.0.0.1:{port}"), server.pid)
    finally:
        server.terminate()
        server.wait()


def wait_for(address: str, seconds: float = 60) -> str:
    """Return the address once the app answers there."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{address}/_stcore/health", timeout=5).close()
            return address
        time.sleep(0.25)
    raise TimeoutError(address)


def take_report(browser: Browser, folder: Path, out: Path) -> None:
    """Save what the report of the categories looks like in a browser."""
    with tempfile.TemporaryDirectory() as made:
        file = Path(made) / "report.html"
        subprocess.run(
            [*PROGRAM, "report", KINDS, "--index", str(folder / "reviews"), "--output", str(file)], check=True
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(file.as_uri())
        keep(page, out / "report-wide-light.png")


def keep(page: Page, path: Path) -> None:
    """Save what a page shows."""
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


def open_shot(page: Page, address: str, shot: Shot) -> None:
    """Open a view and wait until it has settled."""
    page.set_default_timeout(PATIENCE)
    page.goto(f"{address}/{shot.page}?{urlencode(shot.parameters)}")
    page.get_by_text(shot.shows).locator("visible=true").first.wait_for(timeout=PATIENCE)
    for waiting in ("stSkeleton", "stStatusWidget"):
        playwright.expect(page.get_by_test_id(waiting)).to_have_count(0, timeout=PATIENCE)
    page.wait_for_timeout(1500)  # charts draw themselves


def take(browser: Browser, address: str, shot: Shot, out: Path) -> None:
    """Save a view at every width, in its themes."""
    for width, (across, down) in WIDTHS.items():
        for theme in THEMES[width]:
            context = browser.new_context(
                viewport={"width": across, "height": down}, color_scheme="dark" if theme == "dark" else "light"
            )
            page = context.new_page()
            open_shot(page, address, shot)
            keep(page, out / f"{shot.name}-{width}-{theme}.png")
            context.close()


def main() -> None:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--index", type=Path, default=Path("indexes"))
    parser.add_argument("--address", help="of an app that runs already")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--only", nargs="*", help="names of views")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if not options.address:
        prepare(options.index, train=not options.only or bool({"rows", "train"} & set(options.only)))
    app = contextlib.nullcontext(Server(options.address)) if options.address else served(options.index)
    with app as server, playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for shot in SHOTS:
            if not options.only or shot.name in options.only:
                take(browser, server.address, shot, options.out)
        if not options.address and (not options.only or "report" in options.only):
            take_report(browser, options.index, options.out)
        browser.close()


if __name__ == "__main__":
    main()
