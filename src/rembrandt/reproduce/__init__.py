"""The paper's experiments, run again: each a file of its own, its numbers beside those of the paper.

An experiment is a module that holds an `Experiment` named ``EXPERIMENT``; its name in `NAMES` is all that is needed to
offer it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rembrandt.reproduce.experiment import Experiment

NAMES = ("aloi", "odp", "lshtc", "siblings", "spectra", "timing")


def find(name: str) -> "Experiment":
    """The experiment of this name."""
    found: Experiment = import_module(f"rembrandt.reproduce.{name}").EXPERIMENT
    return found
