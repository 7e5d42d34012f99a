"""Settings and scores for tests of parts."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rembrandt.parts.embedding.settings import EmbeddingSettings
from rembrandt.parts.protocol import Part
from rembrandt.parts.trees import fit as tree_fit
from rembrandt.parts.trees.settings import TreeSettings


def tree_settings(**changes: Any) -> TreeSettings:
    """Return complete settings of one tree."""
    settings = {"n_trees": 1, "max_example_node_pairs": 3e7, "passes": 4} | changes
    return TreeSettings(**settings).with_defaults()


def embedding_settings(**changes: Any) -> EmbeddingSettings:
    """Return complete settings of a linear embedding, which is solved nearly exactly."""
    settings = {
        "ridge": 1.0,
        "decoder": "ridge",
        "decoder_ridge": 0.1,
        "kernel": None,
        "normalize": False,
        "retrieves_labels": True,
        "tol": 1e-3,
    }
    return EmbeddingSettings(**settings | changes).with_defaults()


@contextmanager
def small_clusters(n_labels: int) -> Iterator[None]:
    """Let trees have clusters of this many labels at most: usually they are much larger."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_fit, "LARGEST_CLUSTER", n_labels)
        yield


def all_scores(part: Part, rows: Any) -> NDArray[Any]:
    """Return the scores of all labels, n × c."""
    n = len(part.top(rows, 1)[0])
    return part.at(rows, np.tile(np.arange(part.n_labels), (n, 1)))


def all_likelihoods(part: Part, rows: Any) -> NDArray[Any]:
    """Return the likelihoods of all labels, n × c."""
    scores = all_scores(part, rows)
    labels = np.tile(np.arange(part.n_labels), (len(scores), 1))
    return part.likelihood(rows, labels, scores)
