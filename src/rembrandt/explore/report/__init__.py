"""A model and its test in one page for people: what was found (`contents`) and how it is shown (`page`)."""

from rembrandt.explore.report.contents import gather
from rembrandt.explore.report.page import render

__all__ = ["gather", "render"]
