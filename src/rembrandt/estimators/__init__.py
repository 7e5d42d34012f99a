"""The scikit-learn face: validation, fitted attributes, and the rooms joined into a pipeline."""

from rembrandt.estimators.classifier import RembrandtClassifier, load
from rembrandt.estimators.embedder import LabelEmbedder

__all__ = ["LabelEmbedder", "RembrandtClassifier", "load"]
