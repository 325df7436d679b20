"""Takes the picture of a clusters' map in docs/pictures, with the document nearest to the first label opened.

    retriever cluster --index indexes/demo --instruction TEXT -k 8 --html map.html
    python benchmarks/cluster_picture.py map.html

Needs Chromium and playwright.
"""

import argparse
import io
from pathlib import Path

from app_pictures import ARGUMENTS, CHROMIUM, OUT
from PIL import Image
from playwright.sync_api import sync_playwright

WIDTH, HEIGHT = 1200, 720
NEAREST = """() => {
  const { points, clusters } = JSON.parse(document.getElementById("data").textContent);
  const box = document.getElementById("map").getBoundingClientRect();
  const away = (point) => Math.hypot(point.x - clusters[0].x, point.y - clusters[0].y);
  const { x, y } = points.reduce((best, point) => (away(point) < away(best) ? point : best));
  const edge = 1.04; // of the map, in units of the places
  return [box.x + (box.width / 2) * (1 + x / edge), box.y + (box.height / 2) * (1 - y / edge)];
}"""


def main() -> None:
    """Take the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("map", type=Path)
    parser.add_argument("--out", type=Path, default=OUT / "clusters.png")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(options.map.resolve().as_uri())
        page.locator(".scatter-names span:not([hidden])").first.wait_for()
        x, y = page.evaluate(NEAREST)
        page.mouse.click(x, y)
        page.mouse.move(0, 0)
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        browser.close()
    picture.quantize(256, dither=Image.Dither.NONE).save(options.out, optimize=True)
    print(f"{options.out.name}: {options.out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
