"""Examples, their labels and the files they come from."""

import rembrandt.deferred  # noqa: F401  before SciPy is imported
from rembrandt.data.dataset import Dataset, Notes
from rembrandt.data.reader import read

__all__ = ["Dataset", "Notes", "read"]
