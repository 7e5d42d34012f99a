"""The best labels of every row on a device.

On a GPU the scores of all labels are computed in bfloat16, which has three significant digits. The
few labels that may be among the best are then scored again in full precision.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rembrandt.engines.ranking import ScoredRows
from rembrandt.engines.torch_memory import halving
from rembrandt.linalg.blocks import spans

Tensor = torch.Tensor

# Labels whose best score stands for them at first.
GROUP = 64
# Labels scored at a time.
BLOCK_LABELS = 1 << 17
# Entries of the largest block of scores.
MAX_SCORES = 1 << 30
# Number of labels from which rough scores come first: with fewer, exact scores are as quick.
MIN_ROUGH_LABELS = 1 << 12
# Score of a label that is no prediction.
NO_SCORE = -float("inf")
# Largest integer of 32 bits: all bits but the sign.
_LARGEST_INT32 = 0x7FFFFFFF


class TorchRanker:
    """The best labels by ``Φ Q + b`` on a device; keeps copies of Q laid out for the search."""

    def __init__(self, weights: Tensor, bias: Tensor) -> None:
        self.weights = weights
        self.bias = bias
        # Q in bfloat16, to find candidates with.
        self.rough: Tensor | None = None
        # Qᵀ in full precision, to score them again.
        self.by_label: Tensor | None = None
        single = weights.dtype == torch.float32
        if weights.is_cuda and single and weights.shape[1] >= MIN_ROUGH_LABELS:
            self.rough = weights.to(torch.bfloat16)
            self.by_label = weights.T.contiguous()

    def top(self, rows: ScoredRows, k: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the ``k`` best labels of every row and their scores, best first, ties by label
        index.
        """
        H = rows.H
        n = H.shape[0]
        c = self.bias.shape[0]
        width = min(k, c)
        labels = torch.full((n, width), -1, dtype=torch.int64, device=H.device)
        scores = torch.full((n, width), NO_SCORE, dtype=H.dtype, device=H.device)

        def work(span: slice) -> None:
            Phi = rows.features_of(H[span])
            if k <= GROUP and self.rough is not None:
                labels[span], scores[span] = self._best_from_rough(Phi, width)
            else:
                labels[span], scores[span] = _best(Phi, self.weights, self.bias, width)

        if width > 0:
            block_rows = max(1, MAX_SCORES // min(c, BLOCK_LABELS))
            halving(work, slice(0, n), block_rows, "the scores")
        host_labels = labels.cpu().numpy()
        host_scores = scores.cpu().numpy()
        # Columns for the labels that are missing where there are fewer than k.
        missing = ((0, 0), (0, k - width))
        host_labels = np.pad(host_labels, missing, constant_values=-1)
        host_scores = np.pad(host_scores, missing, constant_values=NO_SCORE)
        return host_labels, host_scores

    def _best_from_rough(self, Phi: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return the ``k`` best of the candidates that rough scores find, several for each."""
        assert self.rough is not None
        assert self.by_label is not None
        n_candidates = min(self.bias.shape[0], 4 * k + 16)
        rough_Phi = Phi.to(self.rough.dtype)
        candidates, _ = _best(rough_Phi, self.rough, self.bias, n_candidates)
        return _scored_again(Phi, self.by_label, self.bias, candidates, k)


def _best(Phi: Tensor, weights: Tensor, bias: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the ``k`` best labels, by blocks of them that come in the order of labels."""
    block_labels = []
    block_scores = []
    for span in spans(bias.shape[0], BLOCK_LABELS):
        block = torch.addmm(bias[span].to(Phi.dtype), Phi, weights[:, span])
        block_width = span.stop - span.start
        columns, best = top_k(block, min(k, block_width), GROUP)
        block_labels.append(torch.where(columns < 0, columns, columns + span.start))
        block_scores.append(best)
    labels = torch.cat(block_labels, dim=1)
    scores = torch.cat(block_scores, dim=1)
    at = _best_keys(scores, k)
    best_labels = torch.gather(labels, 1, at)
    best_scores = torch.gather(scores, 1, at)
    return best_labels, best_scores


def _scored_again(
    Phi: Tensor, by_label: Tensor, bias: Tensor, candidates: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """Return the ``k`` best of the candidates by their scores in full precision."""
    # In the order of labels, which decides between equals.
    candidates = candidates.sort(dim=1).values
    # A missing candidate, -1, gets some label's score, which is replaced below.
    labels = candidates.clamp(min=0)
    products = by_label[labels] @ Phi[:, :, None]
    scores = products[:, :, 0] + bias[labels]
    is_missing = (candidates < 0) | torch.isnan(scores)
    scores = torch.where(is_missing, NO_SCORE, scores)
    at = _best_keys(scores, k)
    best_scores = torch.gather(scores, 1, at)
    best_labels = torch.gather(candidates, 1, at)
    best_labels = torch.where(best_scores == NO_SCORE, -1, best_labels)
    return best_labels, best_scores


def top_k(scores: Tensor, k: int, group: int = GROUP) -> tuple[Tensor, Tensor]:
    """Return the k best columns of every row and their scores, exactly: best first, the lower
    column among equals.

    Every one of them is in one of the k groups with the best maxima: a label of another group has
    at least k before it. NaN and -inf mean "no prediction" and end a row as column -1.
    """
    columns: Tensor | None = None
    if scores.shape[1] > 4 * group * k:
        columns, scores = _best_groups(scores, k, group)
    scores = torch.where(torch.isnan(scores), NO_SCORE, scores)
    best_columns = _best_keys(scores, k)
    best_scores = torch.gather(scores, 1, best_columns)
    if columns is not None:
        best_columns = torch.gather(columns, 1, best_columns)
    best_columns = torch.where(best_scores == NO_SCORE, -1, best_columns)
    return best_columns, best_scores


def _best_groups(scores: Tensor, k: int, group: int) -> tuple[Tensor, Tensor]:
    """Return the columns of the ``k`` groups with the best maxima, and their scores."""
    n, c = scores.shape
    n_missing = -c % group
    if n_missing > 0:
        scores = torch.nn.functional.pad(scores, (0, n_missing), value=NO_SCORE)
    groups = scores.view(n, -1, group)
    maxima = groups.amax(dim=2)
    if torch.isnan(maxima).any():
        # NaN hides what else is in its group.
        groups = torch.where(torch.isnan(groups), NO_SCORE, groups)
        maxima = groups.amax(dim=2)
    chosen = _best_keys(maxima, k).sort(dim=1).values[:, :, None]
    columns = chosen * group + torch.arange(group, device=scores.device)
    chosen_scores = torch.gather(groups, 1, chosen.expand(-1, -1, group))
    return columns.view(n, -1), chosen_scores.view(n, -1)


def _best_keys(values: Tensor, k: int) -> Tensor:
    """Return the positions of the k largest of each row, the first among equals: value and position
    in one whole number.
    """
    k = min(k, values.shape[1])
    if values.dtype == torch.float64:
        return torch.sort(values, dim=1, descending=True, stable=True).indices[:, :k]
    # Adding zero makes -0 and 0 equal.
    bits = (values.float() + 0.0).view(torch.int32)
    # Negative numbers have their other bits flipped, so that integers are ordered as values are.
    rising = bits ^ ((bits >> 31) & _LARGEST_INT32)
    positions = torch.arange(values.shape[1], device=values.device)
    keys = (rising.to(torch.int64) << 32) | (_LARGEST_INT32 - positions)
    return torch.topk(keys, k, dim=1, sorted=True).indices
