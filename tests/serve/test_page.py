"""The web page in a real browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rembrandt.data import Dataset
from rembrandt.metrics.percent import percent
from tests.looks import check_looks
from tests.serve.conftest import EXAMPLE, HOSTILE, TOKEN, served, until


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """A new page; the test fails if it raises an error or sends a request to another host."""
    context = browser.new_context(color_scheme="light", viewport={"width": 1280, "height": 800})
    context.set_default_timeout(10_000)
    page = context.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on(
        "console",
        lambda said: troubles.append(said.text) if "Content Security" in said.text else None,
    )
    page.on(
        "request",
        lambda asked: None if asked.url.startswith(address) else troubles.append(asked.url),
    )
    page.on("dialog", lambda dialog: troubles.append(dialog.message))
    yield page
    context.close()
    assert troubles == []


def test_a_text_is_classified_and_explained(
    page: Any, address: str, documents: Dataset, client: httpx.Client
) -> None:
    text = "🜁 " + (documents.texts or [])[0]
    expected = client.post(
        "/v1/predict", json={"texts": [text], "top_k": 10, "explain": True}
    ).json()["predictions"][0]
    page.goto(address)
    page.get_by_label("What is this text about?").fill(text)
    page.get_by_role("button", name="Find labels").click()
    page.wait_for_selector("button.label")
    shown = [
        prediction["name"]
        + (prediction["label"] if prediction["label"] != prediction["name"] else "")
        for prediction in expected
    ]
    assert (
        page.locator("button.label .name").all_text_contents() == shown
    )  # with identifiers where they differ
    widths = page.locator("button.label .meter i").evaluate_all(
        "bars => bars.map(bar => parseFloat(bar.style.width))"
    )
    assert widths == pytest.approx(
        [100 * prediction["probability"] for prediction in expected], abs=0.01
    )  # bars are probabilities
    line = page.locator("li:has(button.label), li.threshold").evaluate_all(
        "entries => entries.findIndex(entry => entry.className === 'threshold')"
    )
    n_assigned = sum(prediction["assigned"] for prediction in expected)
    assert line == n_assigned < len(expected)
    page.locator("button.label").nth(1).click()
    assert page.locator("#why-title").text_content() == f"Why {expected[1]['name']}"
    assert page.locator(".reading").text_content() == text  # the marks do not change the text
    marks = page.locator("mark").all_text_contents()
    assert marks == [text[start:stop] for start, stop, _ in expected[1]["explanation"]["segments"]]
    strongest = expected[1]["explanation"]["words"][0]
    assert page.locator(".words th").first.text_content() == strongest["word"]
    page.locator("button.label").nth(1).press("ArrowDown")
    until(lambda: page.locator("#why-title").text_content() == f"Why {expected[2]['name']}")


def test_words_of_a_part_that_reads_texts_are_shown_as_estimates(
    page: Any, address: str, documents: Dataset
) -> None:
    def with_estimates(route: Any) -> None:
        answer = route.fetch()
        document = answer.json()
        words = [
            {"word": "<b>bold", "contribution": 1.25, "spans": []},
            {"word": "plain", "contribution": -0.5, "spans": []},
        ]
        for prediction in document["predictions"][0]:
            prediction["explanation"]["estimates"] = [{"part": "encoder", "words": words}]
        route.fulfill(response=answer, json=document)

    page.route("**/v1/predict", with_estimates)
    page.goto(address)
    page.get_by_label("What is this text about?").fill((documents.texts or [])[0])
    page.get_by_role("button", name="Find labels").click()
    page.get_by_role("heading", name="Estimated words of the encoder").wait_for()
    table = page.locator("table.words").last
    assert table.locator("th").all_text_contents() == ["<b>bold", "plain"]
    assert table.locator(".number").all_text_contents() == ["+1.250", "−0.500"]
    assert "They do not add up" in page.locator("main").text_content()
    check_looks(page)


@pytest.mark.parametrize("width", [1280, 390])
def test_a_long_name_without_spaces_stays_on_the_screen(
    browser: Any, address: str, documents: Dataset, width: int
) -> None:
    name = "a_name_without_any_space/" * 8

    def with_name(route: Any) -> None:
        answer = route.fetch()
        document = answer.json()
        for prediction in document["predictions"][0]:
            prediction["name"] = name
        route.fulfill(response=answer, json=document)

    with browser.new_context(viewport={"width": width, "height": 844}) as context:
        page = context.new_page()
        page.route("**/v1/predict", with_name)
        page.goto(address)
        page.get_by_label("What is this text about?").fill((documents.texts or [])[0])
        page.locator("#why-title").wait_for()
        check_looks(page)


def test_labels_are_searched_and_shown(page: Any, address: str, documents: Dataset) -> None:
    page.goto(f"{address}/#/labels")
    page.get_by_label("Find a label").fill("<img")
    until(lambda: page.locator(".found a").count() == 1)
    assert (
        page.locator(".found .name").text_content() == HOSTILE + documents.label_ids[0]
    )  # as text, not as an image
    page.get_by_label("Find a label").press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector(".label-page h2")
    assert page.locator(".label-page h2").text_content() == HOSTILE
    assert page.locator(".label-page .about").text_content() == f"About {HOSTILE}"
    assert page.locator("main img").count() == 0
    page.locator(".label-page .ranking a").first.click()
    topic = documents.label_ids[0].split("/")[0]
    until(
        lambda: (
            topic in str(page.locator(".label-page h2").text_content())
            or page.locator(".label-page p.id").count()
        )
    )


def test_the_map_is_zoomed_and_searched(
    page: Any, address: str, documents: Dataset, client: httpx.Client
) -> None:
    page.goto(f"{address}/#/map")
    page.wait_for_selector(".map[data-ready]")
    canvas = page.locator("canvas")
    drawn = "document.querySelector('canvas').toDataURL()"
    before = page.evaluate(drawn)
    canvas.press("+")
    until(lambda: page.evaluate(drawn) != before)
    canvas.press("0")
    label = documents.label_ids[7]
    page.get_by_label("Find a label on the map").fill(label)
    page.locator("aside .found button").first.click()
    page.wait_for_selector(".panel h2")
    assert page.locator(".panel h2").text_content() == label
    page.wait_for_timeout(700)  # the map moves to the label
    box = canvas.bounding_box()
    page.mouse.move(
        box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    )  # where the label is now
    until(page.locator(".tip").is_visible)
    assert page.locator(".tip b").text_content() == label


def test_the_map_keeps_other_labels_in_view(page: Any, address: str, documents: Dataset) -> None:
    def on_a_grid(route: Any) -> None:
        answer = route.fetch()
        document = answer.json()
        if document["state"] == "ready":
            document["x"] = [i % 5 for i in range(len(document["x"]))]
            document["y"] = [i // 5 for i in range(len(document["y"]))]
        route.fulfill(response=answer, json=document)

    page.route("**/v1/map*", on_a_grid)
    page.add_init_script("""
        window.written = new Set();
        const write = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
            window.written.add(text);
            write.call(this, text, ...place);
        };
    """)
    page.goto(f"{address}/#/map/{documents.label_ids[7]}")
    page.wait_for_selector(".panel .ranking")
    page.wait_for_timeout(700)  # the map moves to the label
    page.evaluate("written.clear(); dispatchEvent(new Event('theme'))")
    until(lambda: page.evaluate("written.size") > 0)
    written = page.evaluate("[...written]")
    assert documents.label_ids[7] in written
    assert len(written) >= len(documents.label_ids) / 2


def test_the_model_is_described(page: Any, address: str) -> None:
    page.goto(f"{address}/#/model")
    page.wait_for_selector(".chart .line")
    assert "P@1" in page.locator("main").text_content()
    assert len(page.locator(".chart .line").get_attribute("points").split()) == 12
    page.get_by_label("Model", exact=True).select_option("fast")
    until(lambda: page.locator("h1").text_content() == "fast")
    facts = page.locator("main").text_content()
    assert "label trees" in facts or "label centroids" in facts
    assert page.locator(".chart").count() == 0 and "[object" not in facts


def test_dark_and_light(page: Any, browser: Any, address: str) -> None:
    paper = "getComputedStyle(document.documentElement).getPropertyValue('--paper').trim()"
    page.goto(address)
    light = page.evaluate(paper)
    page.get_by_role("button", name="Switch between light and dark").click()
    dark = page.evaluate(paper)
    assert light != dark
    page.reload()
    assert page.evaluate(paper) == dark  # it is remembered
    with browser.new_context(color_scheme="dark") as context:
        other = context.new_page()
        other.goto(address)
        assert other.evaluate(paper) == dark  # as the system prefers


def test_errors_are_shown(page: Any, address: str) -> None:
    page.goto(address)
    page.get_by_label("What is this text about?").fill("word " * 50_000)
    page.get_by_role("alert").wait_for()
    assert "250,000 characters" in page.get_by_role("alert").text_content()
    page.get_by_role("button", name="Dismiss").click()
    assert page.get_by_role("alert").is_hidden()
    page.goto(f"{address}/#/labels/no%20such%20label")
    page.get_by_role("alert").wait_for()
    assert "'no such label'" in page.get_by_role("alert").text_content()
    assert "cannot be shown" in page.locator(".label-page").text_content()


def test_a_vector_is_classified(page: Any, address: str) -> None:
    page.goto(address)
    page.get_by_label("Model", exact=True).select_option("numbers")
    page.get_by_label("What is this example?").fill('{"1": 1')
    page.get_by_role("alert").wait_for()
    page.get_by_label("What is this example?").fill('{"1": 1}')
    page.wait_for_selector("button.label")
    assert page.locator("button.label .name").first.text_content() == "1"


def test_the_token_is_asked_for(browser: Any, model: Path) -> None:
    with served({"words": model}, token=TOKEN) as url, browser.new_context() as context:
        page = context.new_page()
        page.goto(url)
        page.get_by_label("Token", exact=True).fill("not the token at all")
        page.get_by_role("button", name="Continue").click()
        until(lambda: page.locator("#token").input_value() == "")  # asked again
        page.get_by_label("Token", exact=True).fill(TOKEN)
        page.get_by_role("button", name="Continue").click()
        page.get_by_label("What is this text about?").wait_for()


def test_the_first_view_is_small(page: Any, address: str) -> None:
    sizes: list[int] = []
    page.on("response", lambda response: sizes.append(len(response.body())))
    page.goto(address)
    page.get_by_label("What is this text about?").wait_for()
    assert len(sizes) <= 15 and sum(sizes) < 100_000


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_fits_a_phone_and_is_accessible(
    browser: Any, address: str, documents: Dataset, scheme: str
) -> None:
    with browser.new_context(
        color_scheme=scheme, viewport={"width": 390, "height": 844}
    ) as context:
        page = context.new_page()
        page.goto(address)
        page.get_by_role("button", name=EXAMPLE).click()  # an example that was saved with the model
        page.wait_for_selector(".why mark")
        assert page.locator("#text").input_value().startswith(EXAMPLE)
        check_looks(page)
        for view in ("labels/" + documents.label_ids[0], "map", "model"):
            page.goto(f"{address}/#/{view}")
            page.wait_for_selector(".view h1")
            check_looks(page)


def test_the_names_of_labels_are_examples_too(page: Any, address: str) -> None:
    page.goto(address)
    page.get_by_label("Model", exact=True).select_option("fast")  # it has no examples of its own
    page.get_by_role("button", name="The name of a label").click()
    until(lambda: page.locator("[role=status]").text_content() != "")


def test_no_probability_is_shown_as_certain(page: Any, address: str) -> None:
    page.goto(address)
    shown = page.evaluate("""async () => {
        const { formatPercent } = await import("/page/dom.js");
        return [1, 0.9999, 0.994, 0.1, 0.0123, 0.0001, 0].map(formatPercent);
    }""")
    assert shown == [f"{text}\u00a0%" for text in ("100", ">99", "99", "10", "1.2", "<0.1", "0.0")]
    steps = [
        0.0,
        1e-12,
        4e-4,
        6e-4,
        0.0123,
        0.4321,
        0.994,
        0.996,
        0.99949,
        0.99951,
        1 - 1e-12,
        1.0,
        None,
    ]
    asked = [[share, digits] for share in steps for digits in range(4)]
    same = page.evaluate(
        """async (asked) => {
        const { percent } = await import("/page/percent.js");
        return asked.map(([share, digits]) => percent(share, digits));
    }""",
        asked,
    )  # as in Python
    assert same == [
        percent(*arguments).replace(" ", "\u00a0").replace("-", "–") for arguments in asked
    ]


def test_the_first_key_skips_to_the_content(page: Any, address: str) -> None:
    page.goto(f"{address}/#/model")
    page.wait_for_selector(".chart")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
