"""Run the paper's experiments and write a report with the paper's numbers next to ours.

Finished measurements are kept: after an interruption, the same command continues. A folder that was
started on another machine can be continued too; each row of the report names its machine.

    python -m benchmarks.paper aloi --quick
    python -m benchmarks.paper all --data DIR --output report
    python -m benchmarks.paper report --output report --merge elsewhere/results.json
"""

import argparse
import json
import sys
import warnings
from pathlib import Path

from benchmarks.paper import NAMES, find, report, runner
from benchmarks.paper.experiment import Request, Row
from benchmarks.paper.fits import resolve_device
from benchmarks.paper.published import figure
from rembrandt.data.catalogue import VARIABLE
from rembrandt.errors import RembrandtError, RembrandtWarning
from rembrandt.progress import bars

ALL, REPORT = "all", "report"
FAILED, INTERRUPTED = 1, 130
DEFAULT_OUTPUT = Path("bench-results")


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line, run the experiments and return an exit code."""
    parser = _parser()
    given = parser.parse_args(arguments)
    rows = [name.strip() for name in (given.rows or "").split(",") if name.strip()]
    if rows and given.experiment in (ALL, REPORT):
        parser.error("--rows needs the name of one experiment")
    output = given.output or DEFAULT_OUTPUT / ("paper-quick" if given.quick else "paper")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", RembrandtWarning)
            _run(given, output, rows)
    except RembrandtError as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print(
            f"interrupted; finished rows are in {output}, and the same command continues",
            file=sys.stderr,
        )
        return INTERRUPTED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.paper",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    names = (*NAMES, ALL, REPORT)
    add(
        "experiment",
        choices=names,
        metavar="EXPERIMENT",
        help=f"One of {', '.join(NAMES)}; all runs every experiment; report only writes the report.",
    )
    add(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help=f"Folder of the report and its results [default: {DEFAULT_OUTPUT}/paper, with --quick paper-quick].",
    )
    add(
        "--data",
        type=Path,
        metavar="DIR",
        help=f"Folder of the data sets [default: the variable {VARIABLE}].",
    )
    add(
        "--quick",
        action="store_true",
        help="Use a part of the data and few epochs; all in under three minutes.",
    )
    add("--rows", metavar="NAMES", help="Run only these rows, separated by commas: RE+LR,CS+LR.")
    add(
        "--device",
        default="cpu",
        metavar="D",
        help="cpu, cuda, cuda:1, several with commas, or auto.",
    )
    add(
        "--merge",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="Add the finished rows of another results.json; may be repeated.",
    )
    add("--fresh", action="store_true", help="Discard earlier results of the experiment.")
    add("--no-report", action="store_true", help="Measure without writing the report.")
    add("--json", action="store_true", help="Print the results as one JSON document.")
    add("-q", "--quiet", action="store_true", help="Show no progress.")
    return parser


def _run(given: argparse.Namespace, output: Path, rows: list[str]) -> None:
    def say(*lines: str) -> None:
        for line in lines if not given.json else ():
            print(line, flush=True)

    if not given.no_report:
        report.check_plotting()
    chosen = {ALL: NAMES, REPORT: ()}.get(given.experiment, (given.experiment,))
    device = resolve_device(given.device)
    request = Request(given.data, given.quick, device)
    for file in given.merge:
        runner.merge(output, file)
    for name in chosen if given.fresh else ():
        runner.forget(output, name)
    for name in chosen:
        with bars(not given.quiet) as progress:
            plan = find(name).plan(request, progress)
            runner.run(
                find(name), plan, output, progress, lambda found: say(*_lines(found)), rows, device
            )
    document = runner.read_results(output / runner.RESULTS)
    for name in chosen:
        skipped = document["experiments"][name]["skipped"]
        for step, reason in skipped.items():
            say(f"Not run: {name}, {step}. {reason}.")
    if not given.no_report:
        text, *figures = report.write(output)
        say(f"The report is {text}, with {len(figures)} figures.")
    if given.json:
        print(json.dumps(document, indent=1))


def _lines(rows: list[Row]) -> list[str]:
    """Describe the rows of a step, unless they are the many points of a curve."""
    if len(rows) > 5:
        return []
    return [
        f"{row.system}, {row.metric}"
        + (f" at {row.at:g}" if row.at is not None else "")
        + f": {row.value:.6g}"
        + (
            ""
            if (paper := figure(row.experiment, row.system, row.metric)) is None
            else f" (paper: {paper:g})"
        )
        for row in rows
    ]


if __name__ == "__main__":
    sys.exit(main())
