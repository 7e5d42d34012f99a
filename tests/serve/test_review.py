"""Review on the page, in a real browser: what is accepted, rejected and added is kept."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rembrandt import read
from rembrandt.data import Dataset
from rembrandt.data.corrections import read_corrections
from tests.looks import check_looks
from tests.serve.conftest import served, until

TEXTS = 4


@pytest.fixture
def corrections(tmp_path: Path) -> Path:
    return tmp_path / "corrections.jsonl"


@pytest.fixture
def reviewing(model: Path, feature_model: Path, corrections: Path) -> Iterator[str]:
    """A service that keeps corrections."""
    with served({"words": model, "numbers": feature_model}, corrections=corrections) as url:
        yield url


@pytest.fixture
def page(browser: Any, reviewing: str) -> Iterator[Any]:
    """The review page; the test fails if it raises an error."""
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        context.set_default_timeout(30_000)
        page = context.new_page()
        troubles: list[str] = []
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("dialog", lambda dialog: troubles.append(dialog.message))
        page.goto(f"{reviewing}/#/review")
        yield page
    assert troubles == []


def start(page: Any, texts: list[str]) -> None:
    page.get_by_label("Which texts do you want to review?").fill("\n".join(texts))
    page.get_by_role("button", name="Start reviewing").click()
    page.wait_for_selector(".verdict")


def checked(page: Any) -> list[str]:
    """Labels with a check."""
    pressed = page.locator(".verdict .label[aria-pressed=true]")
    return [button.get_attribute("value") for button in pressed.all()]


def saved(page: Any, n: int) -> None:
    until(lambda: page.locator(".texts .saved").count() == n)
    page.wait_for_selector(".verdicts:not([aria-busy]) .adding")


def wait_until_held(page: Any, held: list[Any]) -> None:
    """Wait for a request that a route holds; the route is called only while the page is asked."""
    until(lambda: page.evaluate("true") and bool(held))


def test_texts_are_reviewed_with_the_keyboard(
    page: Any, documents: Dataset, corrections: Path, model: Path, reviewing: str
) -> None:
    texts = (documents.texts or [])[:TEXTS]
    start(page, texts)
    page.wait_for_function("document.activeElement.matches('.verdict .label')")
    assigned = checked(page)  # those above the threshold are checked
    predicted = page.request.post(
        f"{reviewing}/v1/predict", data={"texts": texts[:1], "top_k": 10}
    ).json()["predictions"][0]
    assert assigned == [each["label"] for each in predicted if each["assigned"]]
    assert 0 < len(assigned) < 10

    page.keyboard.press("x")  # the first label is wrong
    page.keyboard.press("9")  # the ninth is right
    page.keyboard.press("a")
    page.keyboard.type("a label of my own")
    page.keyboard.press("Enter")
    until(lambda: "a label of my own" in checked(page))
    page.locator(".verdict .label").first.focus()
    page.keyboard.press("Enter")
    saved(page, 1)
    [answer] = read_corrections(corrections)
    assert answer.text == texts[0]
    expected = {"a label of my own", *assigned[1:], predicted[8]["label"]}
    assert set(answer.labels) == expected
    assert answer.rejected == (assigned[0],)
    assert page.locator(".texts [aria-current] .line").text_content() == texts[1][:200]

    page.keyboard.press("s")
    until(lambda: page.locator(".texts .skipped").count() == 1)
    page.wait_for_selector(".verdicts:not([aria-busy]) .adding")
    page.keyboard.press("p")
    until(lambda: texts[1] == page.locator(".sheet .reading").text_content())
    data = read(corrections)  # and fit reads it
    assert "a label of my own" in data.label_ids


def test_the_state_survives_a_reload(page: Any, documents: Dataset, corrections: Path) -> None:
    texts = (documents.texts or [])[:TEXTS]
    start(page, texts)
    page.get_by_role("button", name="Save and next").click()
    saved(page, 1)
    page.locator(".verdict .label").nth(5).click()
    page.locator(".verdict .reject").nth(0).click()
    marks = checked(page)
    page.reload()
    page.wait_for_selector(".verdict")
    assert page.locator(".texts .saved").count() == 1
    assert page.locator(".sheet .reading").text_content() == texts[1]
    assert checked(page) == marks
    assert page.locator(".verdict.rejected").count() == 1
    page.locator(".texts button").first.click()  # an answer can be changed
    until(lambda: texts[0] == page.locator(".sheet .reading").text_content())
    page.wait_for_selector(".verdicts:not([aria-busy]) .adding")
    page.locator(".verdict .reject").first.click()
    page.get_by_role("button", name="Save and next").click()
    until(lambda: len(corrections.read_text().splitlines()) == 2)
    [answer] = read_corrections(corrections)
    assert len(answer.rejected) == 1


def test_files_are_read_and_answers_are_downloaded(page: Any, tmp_path: Path) -> None:
    table = tmp_path / "texts.csv"
    table.write_text('number;body\r\n1;"a ""first"" text; with\r\ntwo lines"\r\n2;=SUM(A1)\r\n')
    page.set_input_files("#file", table)
    page.get_by_role("button", name="Review 2 texts").click()
    page.wait_for_selector(".adding")
    assert page.locator(".sheet .reading").text_content() == 'a "first" text; with\r\ntwo lines'
    for number in (1, 2):
        page.get_by_label("Add a label", exact=True).fill(f"label {number}")
        page.keyboard.press("Enter")
        until(lambda wanted=f"label {number}": wanted in checked(page))
        page.get_by_role("button", name="Save and next").click()
        saved(page, number)
    assert page.locator(".sheet h1").text_content() == "All texts are reviewed"
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    content = Path(download.value.path()).read_text()
    assert "'=SUM(A1)" in content and 'a ""first"" text' in content
    with page.expect_download() as download:
        page.get_by_role("button", name="Download JSONL").click()
    copy = tmp_path / "answers.jsonl"
    copy.write_bytes(Path(download.value.path()).read_bytes())
    answers = read_corrections(copy)
    assert [answer.text for answer in answers][1] == "=SUM(A1)"
    assert [set(answer.labels) for answer in answers] == [{"label 1"}, {"label 2"}]
    assert "label 1" in read(copy).label_ids


def test_a_search_does_not_outlive_the_label_that_it_added(
    page: Any, documents: Dataset, corrections: Path
) -> None:
    start(page, (documents.texts or [])[:2])
    searches: list[str] = []
    page.on("request", lambda sent: searches.append(sent.url) if "/v1/labels" in sent.url else None)
    page.clock.install()
    page.clock.pause_at(time.time() + 3600)  # what waits for a pause in typing waits on
    for number in (1, 2):
        page.get_by_label("Add a label", exact=True).fill(f"label {number}")
        page.keyboard.press("Enter")
        until(lambda wanted=f"label {number}": wanted in checked(page))
        page.get_by_role("button", name="Save and next").click()
        saved(page, number)
    page.clock.run_for(10_000)
    page.get_by_role("button", name="Back").click()  # whatever was started has ended
    until(lambda: page.locator(".sheet .reading").get_attribute("aria-label") == "Text 1")
    assert len(searches) == 2
    assert page.locator(".texts .saved").count() == 2
    first, second = read_corrections(corrections)
    assert "label 1" in first.labels and "label 1" not in second.labels


def test_labels_that_arrive_late_are_not_added_to_the_next_text(
    page: Any, documents: Dataset, corrections: Path
) -> None:
    start(page, (documents.texts or [])[:2])
    held: list[Any] = []
    page.route("**/v1/labels?*", lambda route: held.append(route), times=1)
    page.get_by_label("Add a label", exact=True).fill("of the first")
    page.keyboard.press("Enter")
    page.locator(".adding").wait_for()
    wait_until_held(page, held)
    page.get_by_role("button", name="Save and next").click()
    saved(page, 1)
    with page.expect_event("requestfinished", lambda sent: "/v1/labels" in sent.url):
        held[0].continue_()
    page.get_by_label("Add a label", exact=True).fill("of the second")
    page.keyboard.press("Enter")
    until(lambda: "of the second" in checked(page))
    assert "of the first" not in checked(page)
    page.get_by_role("button", name="Save and next").click()
    saved(page, 2)
    assert all("of the first" not in answer.labels for answer in read_corrections(corrections))


def test_a_failure_is_shown_and_nothing_is_marked_as_saved(
    page: Any, documents: Dataset, corrections: Path
) -> None:
    start(page, (documents.texts or [])[:2])
    page.route("**/v1/corrections", lambda route: route.abort())
    page.get_by_role("button", name="Save and next").click()
    page.get_by_role("alert").wait_for()
    assert "Not saved" in page.get_by_role("alert").text_content()
    assert page.locator(".texts .saved").count() == 0
    page.unroute("**/v1/corrections")
    page.get_by_role("button", name="Save and next").click()
    saved(page, 1)
    assert len(read_corrections(corrections)) == 1


def test_a_label_clicked_while_a_save_is_under_way_is_saved_next(
    page: Any, documents: Dataset, corrections: Path
) -> None:
    start(page, (documents.texts or [])[:2])
    held: list[Any] = []
    page.route("**/v1/corrections", lambda route: held.append(route), times=1)
    before = set(checked(page))
    page.get_by_role("button", name="Save and next").click()
    wait_until_held(page, held)
    other = page.locator(".verdict .label[aria-pressed=false]").first
    label = other.get_attribute("value")
    other.click()
    held[0].continue_()
    page.get_by_role("alert").wait_for()
    assert "text 1 was changed while it was being saved" in page.get_by_role("alert").text_content()
    assert page.locator(".texts .saved").count() == 0
    assert page.locator(".sheet .reading").get_attribute("aria-label") == "Text 1"
    assert set(checked(page)) == before | {label}
    assert set(read_corrections(corrections)[0].labels) == before
    page.get_by_role("button", name="Save and next").click()
    saved(page, 1)
    assert page.locator("[role=alert]").is_hidden()
    assert set(read_corrections(corrections)[0].labels) == before | {label}


def test_a_text_chosen_while_a_save_is_under_way_stays(
    page: Any, documents: Dataset, corrections: Path
) -> None:
    start(page, (documents.texts or [])[:TEXTS])
    held: list[Any] = []
    page.route("**/v1/corrections", lambda route: held.append(route), times=1)
    page.get_by_role("button", name="Save and next").click()
    wait_until_held(page, held)
    page.locator(".texts button").nth(2).click()
    until(lambda: page.locator(".sheet .reading").get_attribute("aria-label") == "Text 3")
    held[0].continue_()
    until(lambda: page.locator(".texts .saved").count() == 1)
    assert page.locator(".sheet .reading").get_attribute("aria-label") == "Text 3"
    assert "1 of 4 reviewed" in page.locator(".sheet").text_content()
    assert [answer.text for answer in read_corrections(corrections)] == [(documents.texts or [])[0]]


def test_without_a_file_answers_are_downloaded(page: Any, address: str, documents: Dataset) -> None:
    page.goto(f"{address}/#/review")
    start(page, (documents.texts or [])[:2])
    assert "--corrections FILE" in page.locator(".list .note").text_content()
    page.get_by_role("button", name="Save and next").click()
    until(lambda: page.locator(".texts .saved").count() == 1)
    page.get_by_label("Model", exact=True).select_option("numbers")
    until(lambda: "only texts" in str(page.locator("main").text_content()))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_review_fits_a_phone_and_is_accessible(
    browser: Any, reviewing: str, documents: Dataset, scheme: str
) -> None:
    with browser.new_context(
        color_scheme=scheme, viewport={"width": 390, "height": 844}
    ) as context:
        page = context.new_page()
        page.goto(f"{reviewing}/#/review")
        page.wait_for_selector("#texts")
        check_looks(page)
        start(page, (documents.texts or [])[:TEXTS])
        page.locator(".verdict .reject").first.click()
        page.get_by_label("Add a label", exact=True).fill("topic")
        page.wait_for_selector(".adding .found button")
        check_looks(page)
