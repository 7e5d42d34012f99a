"""Names of the views of an example that parts read."""

FEATURES = "features"
VECTORS = "vectors"
TEXTS = "texts"


def vector_views(n_blocks: int) -> list[str]:
    """Return the names of the views of ``n_blocks`` blocks of vectors beside the features."""
    return [VECTORS if number == 0 else f"{VECTORS}-{number + 1}" for number in range(n_blocks)]
