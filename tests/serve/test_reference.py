"""The reference of the API at /docs: complete, and without a request to another host."""

import re
from typing import Any

import httpx
import pytest

from rembrandt.serve.reference import reference_page
from tests.looks import check_looks


def test_it_has_every_operation_and_field(client: httpx.Client) -> None:
    description = client.get("/openapi.json").json()
    answer = client.get("/docs")
    assert answer.headers["content-type"].startswith("text/html")
    page = answer.text
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            assert f"<h2><code>{method.upper()} {path}</code></h2>" in page
            for parameter in operation.get("parameters", ()):
                assert f"<code>{parameter['name']}</code>" in page
    for name, field in description["components"]["schemas"]["PredictResponse"][
        "properties"
    ].items():
        assert f"<code>{name}</code>" in page, field
    assert "At least 1." in page and "1.0" not in page
    assert "By default false." in page and "False" not in page
    assert "min_probability" in page and "Only labels with this probability or more." in page
    links = re.findall(r'(?:href|src)="([^"]+)"', page)
    assert links and all(link.startswith(("/", "#")) for link in links)
    anchors = {link[1:] for link in links if link.startswith("#")}
    assert anchors == set(re.findall(r'<section class="card" id="([^"]+)"', page))


def test_what_a_description_says_is_text() -> None:
    hostile = "<script>alert(1)</script>"
    operation = {"operationId": "a", "summary": hostile, "responses": {"200": {}}}
    info = {"title": hostile, "version": "1", "description": hostile}
    page = reference_page({"info": info, "paths": {f"/{hostile}": {"get": operation}}})
    assert hostile not in page and "&lt;script&gt;" in page


@pytest.mark.parametrize(("scheme", "width"), [("light", 1400), ("dark", 390)])
def test_a_browser_draws_it(browser: Any, address: str, scheme: str, width: int) -> None:
    requested = []
    with browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 844}
    ) as context:
        page = context.new_page()
        page.on("request", lambda request: requested.append(request.url))
        page.goto(f"{address}/docs")
        check_looks(page)
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background != "rgba(0, 0, 0, 0)"
    assert len(requested) > 1 and all(url.startswith(address) for url in requested)
