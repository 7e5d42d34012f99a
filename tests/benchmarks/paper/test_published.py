"""The report in the repository."""

from pathlib import Path

from benchmarks.paper.experiment import Table
from benchmarks.paper.published import FIGURES, SECONDS, figure
from benchmarks.paper.runner import read_results

from benchmarks.paper import find, report

DOCS = Path(__file__).parents[3] / "docs" / "reproduction"


def test_it_is_made_from_its_results() -> None:
    document = read_results(DOCS / "results.json")
    assert not document["experiments"]["aloi"]["settings"]["quick"]
    text = (DOCS / "report.md").read_text(encoding="utf-8")
    assert text == report.markdown(document, report.scaling_lines(DOCS))
    figures = {file.name: file.stat().st_size for file in DOCS.glob("*.png")}
    assert figures and all(size < 200_000 and name in text for name, size in figures.items())
    assert text.count(".png)") == len(figures)


def test_every_figure_of_the_paper_is_shown_as_the_table_has_it() -> None:
    """Read the tables of the report back, and compare their columns of the paper with the one table
    in the code.
    """
    text = (DOCS / "report.md").read_text(encoding="utf-8")
    shown: dict[tuple[str, str, str], str] = {}
    formats: dict[tuple[str, str], str] = {}
    for name in ("aloi", "odp", "lshtc", "siblings", "timing"):
        experiment = find(name)
        part = text.split(f"\n## {experiment.title}\n", 1)[1].split("\n## ", 1)[0]
        for table in (section for section in experiment.sections if isinstance(section, Table)):
            formats |= {(name, column.metric): column.format for column in table.columns}
        head: list[str] = []
        for line in part.splitlines():
            cells = (
                [cell.strip() for cell in line.strip("| ").split(" | ")]
                if line.startswith("| ")
                else []
            )
            if not cells:
                head = []
            elif not head:
                head = cells
            elif not cells[0].startswith("---"):
                row = dict(zip(head, cells, strict=True))
                metric = row.get("measure") or head[2].removeprefix("ours, ")
                shown[name, row["system"], metric] = row["paper"]
                if "paper, seconds to fit" in row:
                    shown[name, row["system"], SECONDS] = row["paper, seconds to fit"]
    assert shown
    for (name, system, metric), cell in shown.items():
        value = figure(name, system, metric)
        spec = ",.0f" if metric == SECONDS else formats[name, metric]
        assert cell == ("–" if value is None else format(value, spec)), (name, system, metric)
    found = {
        (name, key, metric)
        for name, system, metric in shown
        for key in (system, system.partition(":")[0])
    }
    assert FIGURES.keys() <= found
