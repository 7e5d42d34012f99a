"""An embedding as an eigenproblem."""

from dataclasses import dataclass
from typing import Literal, Protocol

from rembrandt.linalg.blocks import Block
from rembrandt.linalg.eigen import Operator


class Solver(Protocol):
    """Solves a ridge problem for every column of a block."""

    residual: float
    iterations: int

    def solve(self, B: Block) -> Block: ...

    def degrees_of_freedom(self, probes: Block) -> float: ...


@dataclass(frozen=True)
class Problem:
    """The eigenproblem whose top vectors are the embedding; without an operator the random start is the embedding."""

    operator: Operator | None
    over: Literal["labels", "features"] = "labels"
    metric: Operator | None = None
