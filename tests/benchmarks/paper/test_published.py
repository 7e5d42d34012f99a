"""The report in the repository."""

from pathlib import Path

from benchmarks.paper.runner import read_results

from benchmarks.paper import report

DOCS = Path(__file__).parents[3] / "docs" / "reproduction"


def test_it_is_made_from_its_results() -> None:
    document = read_results(DOCS / "results.json")
    assert not document["experiments"]["aloi"]["settings"]["quick"]
    text = (DOCS / "report.md").read_text(encoding="utf-8")
    assert text == report.markdown(document)
    figures = {file.name: file.stat().st_size for file in DOCS.glob("*.png")}
    assert figures and all(size < 200_000 and name in text for name, size in figures.items())
    assert text.count(".png)") == len(figures)
