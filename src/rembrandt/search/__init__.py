"""Settings searched for on held-out training rows within a time: candidates, rungs, the clock and what was tried."""

from rembrandt.search.halving import Found, Progress, Watch, search, unwatched
from rembrandt.search.options import parameters_of
from rembrandt.search.space import SEARCHED, Space, space_of

__all__ = ["SEARCHED", "Found", "Progress", "Space", "Watch", "parameters_of", "search", "space_of", "unwatched"]
