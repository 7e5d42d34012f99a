"""Run all benchmarks, or the named ones, in turn; the results also go to
bench-results/results.json.

python -m benchmarks [NAME ...]

The comparisons with other programs are last: they take longest, and continue after the last stored
result.
"""

import json
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.results import described, machine

NAMES = (
    "sparse_products",
    "parse_rate",
    "text_features",
    "quality",
    "tail",
    "ablation",
    "shortlist",
    "paper.regressors",
    "update",
    "out_of_core",
    "scale",
    "survive",
    "annif",
    "generalize",
    "table",
)


def main(names: list[str]) -> None:
    """Run the benchmarks and store their results."""
    unknown = set(names) - set(NAMES)
    if unknown:
        sys.exit(
            f"there is no benchmark {', '.join(sorted(unknown))}; choose from {', '.join(NAMES)}"
        )
    here = machine()
    print(described(here))
    folder = Path("bench-results")
    folder.mkdir(exist_ok=True)
    stored = folder / "results.json"
    results = json.loads(stored.read_text()) if stored.exists() else {}
    for name in names or NAMES:
        print(f"\n== {name}", flush=True)
        results[name] = {"machine": here, "result": import_module(f"benchmarks.{name}").main()}
        stored.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
