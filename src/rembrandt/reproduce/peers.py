"""The tree methods that the paper compares with: FastXML and LPSR over naive Bayes.

Neither has a maintained package. They are written under ``benchmarks/peers`` in the source repository, which the
package does not carry: run from a checkout they are there, elsewhere their rows are left out with a sentence.
"""

import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from rembrandt.data import Dataset
from rembrandt.evaluation import KS
from rembrandt.progress import Report
from rembrandt.reproduce.experiment import Row, SkippedError
from rembrandt.reproduce.fits import SEED, precision_rows, precisions

PEERS = {"FastXML": ("benchmarks.peers.fastxml", "FastXML"), "LPSR-NB": ("benchmarks.peers.lpsr", "LPSR")}
CHECKOUT = Path(__file__).resolve().parents[3]


def find(system: str, checkout: Path = CHECKOUT) -> Any:
    """The class of a peer."""
    module, name = PEERS[system]
    if not checkout.joinpath(*module.split(".")).with_suffix(".py").is_file():
        raise SkippedError(
            f"{system} is under benchmarks/peers in the source repository, which an installed package does not have; "
            "install from a checkout with pip install --editable"
        )
    if str(checkout) not in sys.path:
        sys.path.append(str(checkout))
    return getattr(import_module(module), name)


def rows(
    row: Callable[..., Row], system: str, train: Dataset, test: Dataset, settings: dict[str, Any], report: Report
) -> list[Row]:
    """Fit a peer and measure its precision."""
    peer = find(system)
    report(f"fitting {system}", 0, 2)
    peer(seed=SEED).fit(np.eye(400), np.eye(400)).top_k(np.eye(400), 1)  # compile before the clock runs
    begun = time.perf_counter()
    model = peer(seed=SEED, **settings).fit(train.X, train.Y)
    seconds = time.perf_counter() - begun
    report(f"fitting {system}", 1, 2)
    labels, _ = model.top_k(test.X, max(KS))
    report(f"fitting {system}", 2, 2)
    return precision_rows(row, precisions(test, labels), seconds)
