"""From the embedding to scores of labels."""
