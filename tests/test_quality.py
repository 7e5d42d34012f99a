"""What the README promises, on real data: precision, and the memory that it takes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.data, pytest.mark.slow]

# Least precisions in per cent, and the most GB. Each fit runs in a process of its own, so that its
# memory is its own.
BARS = {
    "aloi, k = 50, linear": ((90.5,), 3),
    "bibtex": ((66.0, 41.0, 29.8), 3),
    "pubmed-mesh, fast": ((87.0, 74.5, 63.0), 3),
}


@pytest.mark.parametrize("name", BARS)
def test_promises(name: str, real_data: Path) -> None:
    precisions, gigabytes = BARS[name]
    command = [sys.executable, "-m", "benchmarks.quality", "--one", name]
    root = Path(__file__).parent.parent
    environment = os.environ | {"REMBRANDT_DATA": str(real_data)}
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=root, env=environment
    )
    found = json.loads(done.stdout)
    for k, bar in zip((1, 3, 5), precisions, strict=False):
        assert 100 * found[f"p@{k}"] >= bar
    assert found["gigabytes"] <= gigabytes
