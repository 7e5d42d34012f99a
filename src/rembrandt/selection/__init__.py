"""Settings chosen on held-out training examples: candidates, trials, and a successive-halving
search.
"""

from rembrandt.selection.halving import Choice, Progress, Watch, choose, unwatched

__all__ = ["Choice", "Progress", "Watch", "choose", "unwatched"]
