"""The shape of the package: rooms import only from rooms before them, nothing asks which kind a part
is, functions stay short, and the architecture describes files that exist.
"""

import ast
import re
from pathlib import Path

import pytest

import rembrandt

PACKAGE = Path(rembrandt.__file__).parent
REPOSITORY = Path(__file__).parents[1]
ARCHITECTURE = REPOSITORY / "docs/architecture.md"
# The order of docs/architecture.md. A room may import from those in the lines above it, and from
# its own line.
ROOMS = (
    ("errors", "progress", "checks", "memory", "deferred", "forks", "scikit"),
    ("settings",),
    ("kernels",),
    ("linalg",),
    ("storage",),
    ("metrics",),
    ("features",),
    ("data",),
    ("engines",),
    ("parts",),
    ("declarations",),
    ("settings_page",),
    ("candidates",),
    ("blend", "thresholds"),
    ("model",),
    ("probabilities",),
    ("nodes",),
    ("predict",),
    ("reranking",),
    ("explanations",),
    ("fitting",),
    ("planning",),
    ("search",),
    ("updating", "suggesting"),
    ("estimators",),
    ("evaluation", "sharing"),
    ("explore",),
    ("serve", "annif"),
    ("cli", "__main__"),
)
RANK = {room: rank for rank, rooms in enumerate(ROOMS) for room in rooms}
FILES = sorted(PACKAGE.rglob("*.py"))
FUNCTION_LINES = 70
PART_CLASSES = {"Trees", "Centroids", "LabelEmbedding", "Names", "EncoderPart"}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path: Path) -> list[tuple[int, str]]:
    """Line and dotted name of every import in a file, those inside functions too."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            if node.module == "rembrandt":
                names += [(node.lineno, f"rembrandt.{alias.name}") for alias in node.names]
            else:
                names.append((node.lineno, node.module or ""))
    return names


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
        room = room_of(path)
        if room in ROOMS[0] or room in ("__main__", "__init__"):
            continue
        for line, name in imports(path):
            package, _, rest = name.partition(".")
            other = rest.split(".")[0]
            if package != "rembrandt" or other not in RANK or other == room:
                continue
            assert RANK[other] < RANK[room], f"{path.relative_to(PACKAGE)}:{line} imports {name}"


def class_checks(path: Path) -> list[tuple[int, str]]:
    """Line and class of every ``isinstance`` and ``issubclass`` of a class of a part."""
    checks = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id not in ("isinstance", "issubclass") or len(node.args) < 2:
            continue
        for child in ast.walk(node.args[1]):
            name = child.attr if isinstance(child, ast.Attribute) else getattr(child, "id", "")
            if name in PART_CLASSES:
                checks.append((node.lineno, name))
    return checks


@pytest.mark.parametrize("path", FILES, ids=str)
def test_nothing_outside_its_folder_asks_which_kind_a_part_is(path):
    checks = class_checks(path)
    relative = path.relative_to(PACKAGE)
    is_of_a_part = relative.parts[0] == "parts" and len(relative.parts) > 2
    if not is_of_a_part:
        assert checks == [], relative
    for line, name in checks:
        folder = path.parent
        while folder.parent.name != "parts":
            folder = folder.parent
        defined = definitions(folder / "part.py")
        assert name in defined, f"{relative}:{line} asks for {name} of another part"


def test_the_classes_of_all_parts_are_known():
    from rembrandt.parts.registry import KINDS

    assert {kind.part_type.__name__ for kind in KINDS.values()} == PART_CLASSES


def definitions(path: Path) -> set[str]:
    """Names that a file defines: functions, classes, constants, and methods with and without the
    name of their class.
    """
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        if isinstance(node, ast.ClassDef):
            methods = [child.name for child in node.body if isinstance(child, ast.FunctionDef)]
            names.update(methods)
            names |= {f"{node.name}.{method}" for method in methods}
    return names


def described_paths() -> list[tuple[int, str, Path]]:
    """Line, text and path of each path that the architecture names.

    A path is relative to the package, to the repository, or to the folder of a path before it in
    the same line.
    """
    paths = []
    lines = ARCHITECTURE.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        folders = [PACKAGE, REPOSITORY]
        for text in re.findall(r"`([\w./]+(?:\.py|/))`", line):
            candidates = [folder / text for folder in folders]
            existing = [path for path in candidates if path.exists()]
            path = existing[0] if existing else candidates[0]
            paths.append((number, text, path))
            folders.append(path if path.is_dir() else path.parent)
    return paths


def test_the_architecture_names_files_that_exist():
    paths = described_paths()
    assert len(paths) > 50
    missing = [f"line {number}: {text}" for number, text, path in paths if not path.exists()]
    assert missing == []


def test_the_architecture_names_functions_that_exist():
    """Names in backticks that follow a path are defined in that file."""
    path_of = {text: path for _, text, path in described_paths()}
    name = r"`[A-Za-z_]\w*(?:\.[a-z_]\w*)?`"
    after_path = re.compile(rf"`([\w./]+\.py)`((?:(?:,? | or ){name})+)")
    n_names = 0
    for match in after_path.finditer(ARCHITECTURE.read_text(encoding="utf-8")):
        path = path_of[match[1]]
        for described in re.findall(r"`([^`]+)`", match[2]):
            if described.endswith(".py"):
                break
            n_names += 1
            assert described in definitions(path), f"{match[1]} has no {described}"
    assert n_names > 25


def described_rooms() -> list[str]:
    """Rooms in the first column of the table of rooms, in its order."""
    text = ARCHITECTURE.read_text(encoding="utf-8")
    section = text.split("## Rooms")[1].split("\n## ")[0]
    rooms = []
    for cell in re.findall(r"^\| (`.*?) \|", section, flags=re.MULTILINE):
        rooms += re.findall(r"`(\w+)(?:\.py|/)`", cell)
    return [room for room in rooms if room != "benchmarks"]


def test_every_room_is_in_the_architecture_in_this_order():
    rooms = described_rooms()
    assert set(rooms) == set(RANK) - {"__main__"}
    ranks = [RANK[room] for room in rooms]
    assert ranks == sorted(ranks)


def is_compiled(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is a kernel, in which a call would cost more than a line."""
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    return any("jit" in decorator or "kernel(" in decorator for decorator in decorators)


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
