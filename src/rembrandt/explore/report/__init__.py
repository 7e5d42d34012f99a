"""A report about a model and its test as one HTML page: `gather` computes the contents, `render`
makes the page.
"""

from rembrandt.explore.report.contents import gather
from rembrandt.explore.report.page import render

__all__ = ["gather", "render"]
