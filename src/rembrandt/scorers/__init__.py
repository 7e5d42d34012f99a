"""Ways to score labels for rows, and the blend that combines them."""
