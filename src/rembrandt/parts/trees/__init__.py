"""Trees of sparse linear classifiers."""
