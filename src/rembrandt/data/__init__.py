"""Examples, their labels and the files they come from."""

from rembrandt.data.dataset import Dataset, Notes
from rembrandt.data.reader import read

__all__ = ["Dataset", "Notes", "read"]
