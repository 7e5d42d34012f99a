"""Looking into an embedding: which labels lie together."""
