"""One part of the examples is held out; parts are fitted to the others, and the blend is learned
on it.
"""

from rembrandt.search.search import Progress, SearchResult, Watch, search, unwatched

__all__ = ["Progress", "SearchResult", "Watch", "search", "unwatched"]
