"""Every benchmark, one after the other; the results also go to bench-results/results.json.

The table of peers comes last: it is the longest, and goes on where an earlier run stopped.

python -m benchmarks [NAME ...]
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
    "regressors",
    "update",
    "out_of_core",
    "scale",
    "survive",
    "annif",
    "table",
)


def main(names: list[str]) -> None:
    unknown = set(names) - set(NAMES)
    if unknown:
        sys.exit(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
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
