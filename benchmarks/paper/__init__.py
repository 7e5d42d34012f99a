"""The experiments of the paper, with the paper's numbers beside ours.

Each experiment is a module of this package that defines ``EXPERIMENT``, an `Experiment`. ``python
-m benchmarks.paper`` runs them and writes the report; ``make paper`` updates the report in
``docs/reproduction``.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.paper.experiment import Experiment

NAMES = ("aloi", "odp", "lshtc", "siblings", "spectra", "timing")


def find(name: str) -> "Experiment":
    """Return the experiment with this name."""
    experiment: Experiment = import_module(f"benchmarks.paper.{name}").EXPERIMENT
    return experiment
