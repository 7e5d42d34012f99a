"""The documentation as a site: it is built without a warning, and its search works when it is opened from
disk, without a network.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="the site needs pip install 'rembrandt[docs]'")
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert built.returncode == 0 and built.stderr == "", built.stderr
    return folder


def test_search_from_disk(site: Path, browser: Any) -> None:
    # A page in a folder of its own, from which other pages have another path.
    for start in ("index.html", "reproduction/report.html"):
        requested = []
        with browser.new_context() as context:
            page = context.new_page()
            page.on("request", lambda request, requested=requested: requested.append(request.url))
            page.goto((site / start).as_uri())
            page.keyboard.press("f")
            page.keyboard.type("shortlist")
            page.wait_for_selector("a.md-search-result__link", timeout=30_000)
            links = page.locator("a.md-search-result__link").all()
            results = [link.get_attribute("href") for link in links]
        assert any(
            result.endswith("guide.html?h=shortlist#a-shortlist-of-labels") for result in results
        )
        assert all(url.startswith(("file:", "data:", "about:")) for url in requested), requested
