"""The scikit-learn face: validation, fitted attributes, and the rooms joined into a pipeline."""

import rembrandt.deferred  # noqa: F401  before SciPy is imported
from rembrandt.estimators.classifier import RembrandtClassifier
from rembrandt.estimators.embedder import LabelEmbedder
from rembrandt.estimators.loading import load

__all__ = ["LabelEmbedder", "RembrandtClassifier", "load"]
