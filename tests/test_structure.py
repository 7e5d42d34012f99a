"""The shape of the package: rooms import only from rooms before them, and files and functions stay
small.
"""

import ast
from pathlib import Path

import pytest

import rembrandt

PACKAGE = Path(rembrandt.__file__).parent
# The order of docs/architecture.md. A room may import from those in the lines above it, and from
# its own line.
ROOMS = (
    ("errors", "progress", "checks", "memory"),
    ("linalg",),
    ("storage",),
    ("metrics",),
    ("features",),
    ("data",),
    ("settings",),
    ("recipe",),
    ("engines",),
    ("embeddings",),
    ("decoders",),
    ("scorers",),
    ("model",),
    ("predict",),
    ("fitting",),
    ("selection",),
    ("updating",),
    ("estimators",),
    ("evaluation",),
    ("explore",),
    ("serve", "annif"),
    ("cli", "__main__"),
)
RANK = {room: rank for rank, rooms in enumerate(ROOMS) for room in rooms}
FILES = sorted(PACKAGE.rglob("*.py"))
FUNCTION_LINES = 70


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path: Path) -> list[tuple[int, str]]:
    """Line and dotted name of every import in a file, those inside functions too."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            names = (
                [f"{node.module}.{alias.name}" for alias in node.names]
                if node.module == "rembrandt"
                else []
            )
            found += [(node.lineno, name) for name in names or [node.module or ""]]
    return found


@pytest.mark.parametrize(
    "path", [p for p in FILES if p.name != "__init__.py" or p.parent != PACKAGE], ids=str
)
def test_imports_come_from_rooms_before(path):
    room = room_of(path)
    for line, name in imports(path):
        parts = name.split(".")
        assert parts[0] not in ("benchmarks", "tests"), f"{path}:{line} imports {name}"
        if parts[0] != "rembrandt" or len(parts) == 1 or parts[1] == "__version__":
            continue
        assert RANK[parts[1]] <= RANK[room], (
            f"{path.relative_to(PACKAGE)}:{line}: {room} imports {name}"
        )


def test_every_room_has_a_rank():
    assert {room_of(path) for path in FILES} - {"__init__"} == set(RANK)


def test_rooms_on_one_line_do_not_import_each_other():
    for path in FILES:
        for line, name in imports(path):
            parts = name.split(".")
            if (
                parts[0] == "rembrandt"
                and len(parts) > 1
                and parts[1] in RANK
                and room_of(path) in RANK
            ):
                room, other = room_of(path), parts[1]
                allowed = (
                    room == other
                    or RANK[other] < RANK[room]
                    or room in ROOMS[0]
                    or room == "__main__"
                )
                assert allowed, f"{path.relative_to(PACKAGE)}:{line} imports {name}"


def is_compiled(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is a kernel, in which a call would cost more than a line."""
    return any("jit" in ast.unparse(decorator) for decorator in node.decorator_list)


def first_line(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """First line of code: a signature and a docstring are declarations."""
    documented = ast.get_docstring(node) is not None and len(node.body) > 1
    return node.body[1 if documented else 0].lineno


@pytest.mark.parametrize("path", FILES, ids=str)
def test_functions_stay_short(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_compiled(node):
            length = node.end_lineno - first_line(node) + 1
            assert length <= FUNCTION_LINES, f"{path}:{node.lineno} {node.name} has {length} lines"
