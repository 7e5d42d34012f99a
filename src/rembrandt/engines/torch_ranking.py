"""The best labels of every row on a device.

On a GPU the scores of all labels are computed in bfloat16, which has three significant digits. The
few labels that may be among the best are then scored again in full precision.
"""

from dataclasses import dataclass

import torch
from torch.nn.functional import pad

from rembrandt.engines.ranking import ScoredRows
from rembrandt.engines.torch_memory import halving
from rembrandt.linalg import Array, Indices
from rembrandt.linalg.blocks import spans

Tensor = torch.Tensor
Best = tuple[Tensor, Tensor]  # labels of each row and their scores, best first

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
        self.exact = _Layer(weights, bias)
        self.n_labels = bias.shape[0]
        # With Q in bfloat16, to find candidates with.
        self.rough: _Layer | None = None
        # Qᵀ in full precision, to score them again.
        self.by_label: Tensor | None = None
        is_single = weights.dtype == torch.float32
        has_many_labels = self.n_labels >= MIN_ROUGH_LABELS
        if weights.is_cuda and is_single and has_many_labels:
            self.find_candidates_first()

    def find_candidates_first(self) -> None:
        """Score all labels roughly, and only candidates in full precision."""
        weights = self.exact.weights
        rough_weights = weights.to(torch.bfloat16)
        self.rough = _Layer(rough_weights, self.exact.bias)
        self.by_label = weights.T.contiguous()

    def top(self, rows: ScoredRows, k: int) -> tuple[Indices, Array]:
        """Return the ``k`` best labels of every row and their scores, best first, ties by label
        index.
        """
        H = rows.H
        n = H.shape[0]
        # There may be fewer labels than are asked for.
        width = min(k, self.n_labels)
        shape = (n, k)
        labels = H.new_full(shape, -1, dtype=torch.int64)
        scores = H.new_full(shape, NO_SCORE)
        use_rough = k <= GROUP and self.rough is not None

        def work(span: slice) -> None:
            Phi = rows.features_of(H[span])
            if use_rough:
                best_labels, best_scores = self._best_from_rough(Phi, width)
            else:
                best_labels, best_scores = self.exact.best(Phi, width)
            labels[span, :width] = best_labels
            scores[span, :width] = best_scores

        if width > 0:
            scores_of_a_row = min(self.n_labels, BLOCK_LABELS)
            block_rows = max(1, MAX_SCORES // scores_of_a_row)
            all_rows = slice(0, n)
            halving(work, all_rows, block_rows, "the scores")
        host_labels = labels.cpu().numpy()
        host_scores = scores.cpu().numpy()
        return host_labels, host_scores

    def _best_from_rough(self, Phi: Tensor, k: int) -> Best:
        """Return the ``k`` best of the candidates that rough scores find, several for each."""
        assert self.rough is not None
        n_candidates = min(4 * k + 16, self.n_labels)
        rough_Phi = Phi.to(self.rough.weights.dtype)
        candidates, _ = self.rough.best(rough_Phi, n_candidates)
        return self._best_of(candidates, Phi, k)

    def _best_of(self, candidates: Tensor, Phi: Tensor, k: int) -> Best:
        """Return the ``k`` best of the candidates by their scores in full precision."""
        assert self.by_label is not None
        # In the order of labels, which decides between equals.
        candidates, _ = candidates.sort(dim=1)
        # A missing candidate, -1, gets some label's score, which is replaced below.
        labels = candidates.clamp(min=0)
        vectors = Phi[:, :, None]
        label_vectors = self.by_label[labels]
        products = label_vectors @ vectors
        scores = products[:, :, 0]
        scores = scores + self.exact.bias[labels]
        scores = scores.masked_fill(candidates < 0, NO_SCORE)
        scores = scores.masked_fill(scores.isnan(), NO_SCORE)
        best_labels, best_scores = _first(candidates, scores, k)
        is_missing = best_scores == NO_SCORE
        best_labels = best_labels.masked_fill(is_missing, -1)
        return best_labels, best_scores


@dataclass(frozen=True)
class _Layer:
    """The scores ``Φ Q + b`` of all labels."""

    weights: Tensor
    bias: Tensor

    def best(self, Phi: Tensor, k: int) -> Best:
        """Return the ``k`` best labels, by blocks of them that come in the order of labels."""
        n_labels = self.bias.shape[0]
        block_labels = []
        block_scores = []
        for span in spans(n_labels, BLOCK_LABELS):
            bias = self.bias[span].to(Phi.dtype)
            weights = self.weights[:, span]
            scores = torch.addmm(bias, Phi, weights)
            block_k = min(k, scores.shape[1])
            columns, best_scores = top_k(scores, block_k, GROUP)
            is_missing = columns < 0
            labels = columns + span.start
            labels = labels.masked_fill(is_missing, -1)
            block_labels.append(labels)
            block_scores.append(best_scores)
        candidates = torch.cat(block_labels, dim=1)
        candidate_scores = torch.cat(block_scores, dim=1)
        return _first(candidates, candidate_scores, k)


def _first(labels: Tensor, scores: Tensor, k: int) -> Best:
    """Return the ``k`` labels with the largest scores of each row, the first among equals."""
    positions = _best_positions(scores, k)
    best_labels = torch.gather(labels, 1, positions)
    best_scores = torch.gather(scores, 1, positions)
    return best_labels, best_scores


def top_k(scores: Tensor, k: int, group: int = GROUP) -> Best:
    """Return the k best columns of every row and their scores, exactly: best first, the lower
    column among equals.

    Every one of them is in one of the k groups with the best maxima: a label of another group has
    at least k before it. NaN and -inf mean "no prediction" and end a row as column -1.
    """
    columns: Tensor | None = None
    n_of_few_groups = 4 * group * k
    if scores.shape[1] > n_of_few_groups:
        columns, scores = _best_groups(scores, k, group)
    scores = scores.masked_fill(scores.isnan(), NO_SCORE)
    best_columns = _best_positions(scores, k)
    best_scores = torch.gather(scores, 1, best_columns)
    if columns is not None:
        best_columns = torch.gather(columns, 1, best_columns)
    is_missing = best_scores == NO_SCORE
    best_columns = best_columns.masked_fill(is_missing, -1)
    return best_columns, best_scores


def _best_groups(scores: Tensor, k: int, group: int) -> Best:
    """Return the columns of the ``k`` groups with the best maxima, and their scores."""
    n = scores.shape[0]
    n_missing = -scores.shape[1] % group
    if n_missing > 0:
        on_the_right = (0, n_missing)
        scores = pad(scores, on_the_right, value=NO_SCORE)
    groups = scores.view(n, -1, group)
    maxima = groups.amax(dim=2)
    has_nan = maxima.isnan().any()
    if has_nan:
        # NaN hides what else is in its group.
        groups = groups.masked_fill(groups.isnan(), NO_SCORE)
        maxima = groups.amax(dim=2)
    best = _best_positions(maxima, k)
    chosen, _ = best.sort(dim=1)
    chosen = chosen[:, :, None]
    within_group = torch.arange(group, device=scores.device)
    columns = chosen * group + within_group
    groups_of_entries = chosen.expand(-1, -1, group)
    chosen_scores = torch.gather(groups, 1, groups_of_entries)
    by_row = (n, -1)
    return columns.view(by_row), chosen_scores.view(by_row)


def _best_positions(values: Tensor, k: int) -> Tensor:
    """Return the positions of the k largest of each row, the first among equals: value and position
    in one whole number.
    """
    n_values = values.shape[1]
    k = min(k, n_values)
    if values.dtype == torch.float64:
        order = values.argsort(dim=1, descending=True, stable=True)
        return order[:, :k]
    # Adding zero makes -0 and 0 equal.
    without_negative_zero = values.float() + 0.0
    bits = without_negative_zero.view(torch.int32)
    # Negative numbers have their other bits flipped, so that integers are ordered as values are.
    bits ^= (bits >> 31) & _LARGEST_INT32
    positions = torch.arange(n_values, device=values.device)
    # Among equals the first position has the largest key.
    keys = bits.to(torch.int64) << 32
    keys |= _LARGEST_INT32 - positions
    _, best_positions = keys.topk(k, dim=1, sorted=True)
    return best_positions
