"""Every benchmark, one after the other; the results also go to bench-results/results.json.

python -m benchmarks [NAME ...]
"""

import json
import os
import platform
import sys
from importlib import import_module
from pathlib import Path

NAMES = ("sparse_products", "parse_rate", "text_features", "quality")


def main(names: list[str]) -> None:
    unknown = set(names) - set(NAMES)
    if unknown:
        sys.exit(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    machine = {"processor": _processor(), "cores": len(os.sched_getaffinity(0)), "python": platform.python_version()}
    print(f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']}")
    folder = Path("bench-results")
    folder.mkdir(exist_ok=True)
    stored = folder / "results.json"
    results = json.loads(stored.read_text()) if stored.exists() else {}
    for name in names or NAMES:
        print(f"\n== {name}", flush=True)
        results[name] = {"machine": machine, "result": import_module(f"benchmarks.{name}").main()}
        stored.write_text(json.dumps(results, indent=2))


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    main(sys.argv[1:])
