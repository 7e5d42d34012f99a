"""An embedding as an eigenproblem."""

from dataclasses import dataclass
from typing import Literal

from rembrandt.linalg.eigen import Operator
from rembrandt.linalg.ridge import CholeskyRidge, ConjugateGradientRidge

Solver = CholeskyRidge | ConjugateGradientRidge


@dataclass(frozen=True)
class Problem:
    """The eigenproblem whose top vectors are the embedding; without an operator the random start is
    the embedding.
    """

    operator: Operator | None
    over: Literal["labels", "features"] = "labels"
    metric: Operator | None = None
