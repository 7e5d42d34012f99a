"""Settings for tests of trees."""

from typing import Any

from rembrandt.recipe import TreeSettings


def tree_settings(**changes: Any) -> TreeSettings:
    """Settings of one tree with nothing left open."""
    return TreeSettings(**{"n_trees": 1, "pairs": 3e7, "cost": 1.0, "power": 3.0} | changes)
