"""The report that is checked in."""

from pathlib import Path

from rembrandt.reproduce import report
from rembrandt.reproduce.runner import read_results

DOCS = Path(__file__).parents[2] / "docs" / "reproduction"


def test_it_is_made_of_its_results() -> None:
    document = read_results(DOCS / "results.json")
    assert not document["experiments"]["aloi"]["settings"]["quick"]
    text = (DOCS / "report.md").read_text(encoding="utf-8")
    assert text == report.markdown(document)
    figures = {file.name: file.stat().st_size for file in DOCS.glob("*.png")}
    assert figures and all(size < 200_000 and name in text for name, size in figures.items())
    assert text.count(".png)") == len(figures)
