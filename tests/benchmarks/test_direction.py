"""The package does not depend on the benchmarks."""

import ast
from pathlib import Path

import rembrandt


def test_the_package_never_imports_the_benchmarks() -> None:
    for file in Path(rembrandt.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] == "benchmarks" for name in names), file
