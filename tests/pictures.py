"""Pictures of the service's page and of the report, for the documentation and to look at.

``python -m tests.pictures MODEL REPORT`` writes those of docs/images, for the model and the report of
docs/quickstart.md; with ``--all FOLDER``, every view in two widths, light and dark.
"""

import argparse
import io
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rembrandt.serve import running
from rembrandt.serve.app import create_app

IMAGES = Path(__file__).parent.parent / "docs" / "images"
NEW_TEXTS = Path(__file__).parent.parent / "docs" / "garden-new.txt"
TEXT = "White powder on the leaves of my cucumbers, and slugs ate the young lettuce over night"
WIDTHS = {"wide": 1400, "phone": 390}
SCHEMES = ("light", "dark")
COLOURS = 256  # of the palette


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("report", type=Path)
    parser.add_argument("--all", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        corrections = Path(folder) / "corrections.jsonl"
        with _served(options.model, corrections) as address, _chromium() as browser:
            camera = Camera(browser, address, options.report)
            if options.all is None:
                _documentation(camera)
            else:
                options.all.mkdir(parents=True, exist_ok=True)
                _everything(camera, options.all)


class Camera:
    """A browser that shows the service and the report."""

    def __init__(self, browser: Any, address: str, report: Path) -> None:
        self._browser = browser
        self._address = address
        self._report = report.resolve()

    @contextmanager
    def page(self, scheme: str, width: int, height: int = 900) -> Iterator[Any]:
        """A page of this look."""
        viewport = {"width": width, "height": height}
        with self._browser.new_context(color_scheme=scheme, viewport=viewport) as context:
            yield context.new_page()

    def show(self, page: Any, view: str) -> None:
        """Open a view and bring it into the state that is worth a picture."""
        if view == "report":
            page.goto(self._report.as_uri())
            page.wait_for_selector("#settings")
            return
        if view == "docs":
            page.goto(f"{self._address}/docs")
            return
        page.goto(f"{self._address}/#/{view}")
        if view == "classify":
            page.get_by_label("What is this text about?").fill(TEXT)
            page.wait_for_selector(".why mark")
        elif view == "review":
            texts = page.get_by_label("Which texts do you want to review?")
            texts.fill(NEW_TEXTS.read_text(encoding="utf-8"))
            page.get_by_role("button", name="Start reviewing").click()
            page.wait_for_selector(".verdict")
            page.locator(".verdict .reject").nth(4).click()
        elif view == "map":
            page.wait_for_selector(".map[data-ready]", timeout=120_000)
            page.get_by_label("Find a label on the map").fill("slugs")
            page.locator("aside .found button").first.click()
            page.wait_for_selector(".panel h2")
        page.wait_for_timeout(800)  # transitions end


def save(page: Any, file: Path, full_page: bool = False) -> None:
    """Save what a page shows, with few colours."""
    from PIL import Image

    picture = Image.open(io.BytesIO(page.screenshot(full_page=full_page))).convert("RGB")
    palette = picture.quantize(COLOURS, kmeans=1, dither=Image.Dither.NONE)
    palette.save(file, optimize=True)
    print(f"{file}: {picture.width} × {picture.height}, {file.stat().st_size / 1000:.0f} kB")


def _documentation(camera: Camera) -> None:
    """Take the pictures of docs/images."""
    pictures = [
        ("page-light", "classify", "light", 900),
        ("page-dark", "map", "dark", 900),
        ("review-light", "review", "light", 900),
        ("report", "report", "light", 1250),
    ]
    for name, view, scheme, height in pictures:
        with camera.page(scheme, WIDTHS["wide"], height) as page:
            camera.show(page, view)
            save(page, IMAGES / f"{name}.png")


def _everything(camera: Camera, folder: Path) -> None:
    """Take pictures of whole pages, every view in every look."""
    views = ["classify", "review", "labels/slugs", "map", "model", "docs", "report"]
    for scheme in SCHEMES:
        for size, width in WIDTHS.items():
            for view in views:
                with camera.page(scheme, width) as page:
                    camera.show(page, view)
                    name = view.split("/")[0]
                    save(page, folder / f"{name}-{size}-{scheme}.png", full_page=True)


@contextmanager
def _served(model: Path, corrections: Path) -> Iterator[str]:
    """Serve a model at a free port and yield the address."""
    listening = running.listen("127.0.0.1", 0)
    app = create_app({"garden": model}, corrections=corrections)
    server = running.Server(app)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        listening.close()


@contextmanager
def _chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    executable = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser
        browser.close()


if __name__ == "__main__":
    main()
