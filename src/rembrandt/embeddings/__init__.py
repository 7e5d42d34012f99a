"""Label embeddings: one short file per operator, and the search that is the same for all."""

from rembrandt.embeddings.fit import Embedding, certificate, embed
from rembrandt.embeddings.rank import choose_rank, largest_rank, warn_if_fewer

__all__ = ["Embedding", "certificate", "choose_rank", "embed", "largest_rank", "warn_if_fewer"]
