"""The scripts in examples/ run, each in a process of its own as a user starts it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SAYS = {
    "csv_to_service": ["P@1 on 100 other questions: ", "bread: "],
    "pandas_frames": ["pizza", "bread", "salmon"],
    "vectors_and_text": ["doughy: bread", "trouts: fish", "simmered: soup"],
    "vocabulary_with_names": ["rye: ", "Rye bread", "http://example.org/3"],
    "rerank_labels": ["learned weight: ", "with reranker: Bread machines"],
    "gpu": ["topic-"],
    "dask_cluster": ["topic-", "True"],
}


def test_every_example_is_run_and_listed() -> None:
    assert {file.stem for file in EXAMPLES.glob("*.py")} == SAYS.keys()
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"examples/{name}.py" in listed for name in SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_it_runs(name: str, tmp_path: Path) -> None:
    if name == "gpu":
        torch = pytest.importorskip("torch")
        if not torch.cuda.is_available():
            pytest.skip("no GPU here")
    environment = os.environ | {"PYTHONUTF8": "1"}
    ran = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    assert all(text in ran.stdout for text in SAYS[name]), ran.stdout
