"""Hierarchical precision, recall and F1 of label sets."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from rembrandt.metrics.hits import as_ranked, as_truth
from rembrandt.metrics.ranking import as_missing


def hierarchical_scores(
    truth: Any,
    labels: ArrayLike,
    above: Any,
    missing_labels: ArrayLike | None = None,
) -> dict[str, float]:
    """Return precision, recall and F1 of sets that are extended by all nodes above their labels.

    With the extended sets α of predictions and β of true labels, precision is Σ|α ∩ β| / Σ|α| and
    recall is Σ|α ∩ β| / Σ|β|, over all rows: the micro averages of hiclass, after Silla and
    Freitas (2011). A wrong label near the true one counts for what the two have above them.

    Parameters
    ----------
    truth : sparse matrix of shape (n_samples, n_labels)
        True labels.
    labels : ndarray of shape (n_samples, n_largest)
        Predicted label indices, -1 after the last one of a row.
    above : sparse matrix of shape (n_nodes, n_nodes)
        For each node, itself and all nodes above it; labels are the first nodes.
    missing_labels : ndarray of shape (n_samples,), optional
        Number of true labels of each row that have no column; each counts as one true node.

    Returns
    -------
    dict of str to float
        ``hierarchical_precision``, ``hierarchical_recall`` and ``hierarchical_f1``, as fractions.
    """
    Y = as_truth(truth)
    ranked = as_ranked(labels, Y)
    n_rows, n_labels = Y.shape
    links = sparse.csr_array(above)[:n_labels].astype(np.int64)
    is_label = ranked >= 0
    columns = ranked[is_label]
    ones = np.ones(len(columns), dtype=np.int64)
    ends = np.cumsum(is_label.sum(axis=1))
    indptr = np.concatenate([[0], ends])
    predicted = sparse.csr_array((ones, columns, indptr), shape=Y.shape)
    true_nodes = _closed(Y, links)
    predicted_nodes = _closed(predicted, links)
    n_hits = int(true_nodes.multiply(predicted_nodes).sum())
    missing = as_missing(missing_labels, n_rows)
    n_true = true_nodes.nnz + int(missing.sum())
    precision = n_hits / max(predicted_nodes.nnz, 1)
    recall = n_hits / max(n_true, 1)
    return {
        "hierarchical_precision": precision,
        "hierarchical_recall": recall,
        "hierarchical_f1": 2 * precision * recall / max(precision + recall, 1e-300),
    }


def _closed(sets: Any, links: sparse.csr_array) -> sparse.csr_array:
    """Sets of labels with all nodes above them, as a 0/1 matrix."""
    pattern = sparse.csr_array(sets).astype(np.int64)
    pattern.eliminate_zeros()
    pattern.data[:] = 1
    nodes = sparse.csr_array(pattern @ links)
    nodes.data[:] = 1
    return nodes
