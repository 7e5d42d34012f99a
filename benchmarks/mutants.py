"""Small changes of a source file, each of which a test should notice.

A mutant replaces one piece of the text, so that the rest of the file, comments included, stays as
it is. Messages, annotations and decorators are not changed.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

NEGATED = {
    ast.Lt: ("<", ">="),
    ast.LtE: ("<=", ">"),
    ast.Gt: (">", "<="),
    ast.GtE: (">=", "<"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
}
BOUNDARY = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
}
ARITHMETIC = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
}
OPPOSITE_NAMES = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "argmin": "argmax",
    "argmax": "argmin",
    "floor": "ceil",
    "ceil": "floor",
}
DROPPED = (ast.Add, ast.Sub, ast.Mult)
UNCHANGED = (ast.Raise, ast.JoinedStr, ast.Assert, ast.FunctionDef, ast.ClassDef)
KINDS = ("comparison", "boundary", "sign", "axis", "off by one", "dropped term", "min and max")


@dataclass(frozen=True)
class Mutant:
    """One change of a file: the bytes from ``start`` to ``stop`` become ``text``."""

    file: str
    kind: str
    line: int
    start: int
    stop: int
    text: str
    lines: range  # of the statement; only its head if it has a body

    def applied(self, source: bytes) -> bytes:
        """Return the source with the change."""
        return source[: self.start] + self.text.encode() + source[self.stop :]

    def describe(self, source: bytes) -> str:
        """Return the place and the change in one line."""
        before = source[self.start : self.stop].decode()
        line = source.splitlines()[self.line - 1].decode().strip()
        change = f"{_short(before)} → {_short(self.text)}"
        return f"{self.file}:{self.line} {self.kind}: {change}   in: {line}"


def _short(text: str) -> str:
    return " ".join(text.split())


def mutants(file: str, source: bytes) -> list[Mutant]:
    """Return all mutants of a file, in the order of its text."""
    return sorted(_Finder(file, source).mutants(), key=lambda mutant: (mutant.start, mutant.kind))


class _Finder:
    """Walks through the functions of a file."""

    def __init__(self, file: str, source: bytes) -> None:
        self.file = file
        self.source = source
        self.lines = range(0)
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def mutants(self) -> Iterator[Mutant]:
        tree = ast.parse(self.source)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                for statement in node.body:
                    if not isinstance(statement, ast.FunctionDef):
                        yield from self._walk(statement)

    def _walk(self, node: ast.AST) -> Iterator[Mutant]:
        """Mutants of a node and of those below it."""
        if isinstance(node, UNCHANGED):
            return
        if isinstance(node, ast.stmt):
            self.lines = _lines(node)
        yield from self._mutants_of(node)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            if isinstance(node, ast.keyword) and node.arg in ("axis", "ndmin", "stacklevel"):
                continue
            children = value if isinstance(value, list) else [value]
            for child in children:
                if isinstance(child, ast.AST):
                    yield from self._walk(child)

    def _mutants_of(self, node: ast.AST) -> Iterator[Mutant]:
        """Mutants of a node alone."""
        if isinstance(node, ast.Compare):
            yield from self._comparisons(node)
        elif isinstance(node, ast.BinOp):
            yield from self._arithmetic(node)
        elif isinstance(node, ast.AugAssign):
            yield from self._operator(ARITHMETIC, node, node.op, node.target, node.value, "=")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            yield self._replaced("sign", node, self._text(node.operand))
        elif isinstance(node, ast.keyword) and node.arg == "axis":
            yield from self._axis(node.value)
        elif isinstance(node, ast.Call):
            yield from self._opposite(node.func)
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            yield self._replaced("off by one", node, str(node.value + 1))

    def _comparisons(self, node: ast.Compare) -> Iterator[Mutant]:
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            for kind, table in (("comparison", NEGATED), ("boundary", BOUNDARY)):
                yield from self._operator(table, node, operator, left, right, "", kind)
            left = right

    def _arithmetic(self, node: ast.BinOp) -> Iterator[Mutant]:
        if _is_text(node.left) or _is_text(node.right):
            return
        yield from self._operator(ARITHMETIC, node, node.op, node.left, node.right)
        if isinstance(node.op, DROPPED):
            yield self._replaced("dropped term", node, f"({self._text(node.left)})")

    def _operator(
        self,
        table: dict[type, tuple[str, str]],
        node: ast.AST,
        operator: ast.AST,
        left: ast.AST,
        right: ast.AST,
        suffix: str = "",
        kind: str = "sign",
    ) -> Iterator[Mutant]:
        """The mutant that has another operator between two operands."""
        if type(operator) not in table or _is_text(right):
            return
        symbol, replacement = table[type(operator)]
        between = self.source[self._stop(left) : self._start(right)].decode()
        code = "\n".join(line.split("#")[0] for line in between.split("\n"))
        at = code.find(symbol + suffix)
        if at < 0 or code != between:
            return  # a comment stands between the operands
        start = self._stop(left) + len(code[:at].encode())
        line = self._line(start)
        yield self._mutant(kind, line, start, start + len(symbol), replacement)

    def _axis(self, node: ast.expr) -> Iterator[Mutant]:
        if isinstance(node, ast.Constant) and node.value in (0, 1):
            yield self._replaced("axis", node, str(1 - node.value))

    def _opposite(self, node: ast.expr) -> Iterator[Mutant]:
        """The mutant that calls ``max`` instead of ``min`` and so on."""
        name = ""
        if isinstance(node, ast.Name):
            name = node.id
        elif isinstance(node, ast.Attribute):
            name = node.attr
        if name in OPPOSITE_NAMES:
            stop = self._stop(node)
            start = stop - len(name)
            opposite = OPPOSITE_NAMES[name]
            yield self._mutant("min and max", self._line(start), start, stop, opposite)

    def _replaced(self, kind: str, node: ast.expr, text: str) -> Mutant:
        return self._mutant(kind, node.lineno, self._start(node), self._stop(node), text)

    def _mutant(self, kind: str, line: int, start: int, stop: int, text: str) -> Mutant:
        return Mutant(self.file, kind, line, start, stop, text, self.lines)

    def _text(self, node: ast.AST) -> str:
        return self.source[self._start(node) : self._stop(node)].decode()

    def _start(self, node: ast.AST) -> int:
        return self.starts[node.lineno - 1] + node.col_offset

    def _stop(self, node: ast.AST) -> int:
        return self.starts[node.end_lineno - 1] + node.end_col_offset

    def _line(self, position: int) -> int:
        return self.source.count(b"\n", 0, position) + 1


def _lines(node: ast.stmt) -> range:
    """Return the lines of a statement that are executed with it."""
    last = node.end_lineno or node.lineno
    body = getattr(node, "body", None)
    if body:
        last = max(node.lineno, body[0].lineno - 1)
    return range(node.lineno, last + 1)


def _is_text(node: ast.AST) -> bool:
    if isinstance(node, ast.JoinedStr):
        return True
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
