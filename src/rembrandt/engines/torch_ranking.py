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

GROUP = 64  # labels whose best score stands for them at first
LABELS = 1 << 17  # labels scored at a time
SCORES = 1 << 30  # entries of the largest block of scores
MANY = 1 << 12  # labels from which on rough scores come first
_LAST = 0x7FFFFFFF


class TorchRanker:
    """The best labels by ``Φ Q + b`` on a device; keeps copies of Q laid out for the search."""

    def __init__(self, weights: Tensor, bias: Tensor) -> None:
        self.weights, self.bias = weights, bias
        self.rough: Tensor | None = None  # Q in bfloat16, to find candidates with
        self.by_label: Tensor | None = None  # Qᵀ in full precision, to score them again
        if weights.is_cuda and weights.dtype == torch.float32 and weights.shape[1] >= MANY:
            self.rough, self.by_label = weights.to(torch.bfloat16), weights.T.contiguous()

    def top(
        self, rows: ScoredRows, k: int, allowed: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the ``k`` best labels of every row and their scores, best first, ties by label
        index.
        """
        weights, bias, H = self.weights, self.bias, rows.H
        if allowed is not None:
            chosen = torch.as_tensor(allowed, device=bias.device)
            weights, bias = weights[:, chosen], bias[chosen]
        n, c = H.shape[0], bias.shape[0]
        width = min(k, c)
        labels = torch.full((n, width), -1, dtype=torch.int64, device=H.device)
        scores = torch.full((n, width), -float("inf"), dtype=H.dtype, device=H.device)

        def work(span: slice) -> None:
            Phi = rows.features_of(H[span])
            if self.rough is None or self.by_label is None or allowed is not None or k > GROUP:
                labels[span], scores[span] = self._best(Phi, weights, bias, width)
            else:
                candidates, _ = self._best(
                    Phi.to(self.rough.dtype), self.rough, bias, min(c, 4 * width + 16)
                )
                labels[span], scores[span] = _scored_again(
                    Phi, self.by_label, bias, candidates, width
                )

        if width:
            halving(work, slice(0, n), max(1, SCORES // min(c, LABELS)), "the scores")
        found = labels.cpu().numpy()
        found = (
            found
            if allowed is None
            else np.where(found < 0, -1, allowed[found])
            if width
            else found
        )
        short = ((0, 0), (0, k - width))
        return np.pad(found, short, constant_values=-1), np.pad(
            scores.cpu().numpy(), short, constant_values=-np.inf
        )

    def _best(self, Phi: Tensor, weights: Tensor, bias: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The ``k`` best labels, by blocks of them that come in the order of labels."""
        found, values = [], []
        for span in spans(bias.shape[0], LABELS):
            block = torch.addmm(bias[span].to(Phi.dtype), Phi, weights[:, span])
            part, best = top_k(block, min(k, span.stop - span.start), GROUP)
            found.append(torch.where(part < 0, part, part + span.start))
            values.append(best)
        labels, scores = torch.cat(found, dim=1), torch.cat(values, dim=1)
        at = _best_keys(scores, k)
        return torch.gather(labels, 1, at), torch.gather(scores, 1, at)


def _scored_again(
    Phi: Tensor, by_label: Tensor, bias: Tensor, candidates: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """The ``k`` best of the candidates by their scores in full precision."""
    candidates = candidates.sort(
        dim=1
    ).values  # in the order of labels, which decides between equals
    known = candidates.clamp(min=0)
    scores = (by_label[known] @ Phi[:, :, None])[:, :, 0] + bias[known]
    scores = torch.where((candidates < 0) | torch.isnan(scores), -float("inf"), scores)
    at = _best_keys(scores, k)
    best = torch.gather(scores, 1, at)
    return torch.where(best == -float("inf"), -1, torch.gather(candidates, 1, at)), best


def top_k(scores: Tensor, k: int, group: int = GROUP) -> tuple[Tensor, Tensor]:
    """The k best columns of every row and their scores, exactly: best first, the lower column among
    equals.

    Every one of them is in one of the k groups with the best maxima: a label of another group has
    at least k before it. NaN and -inf mean "no prediction" and end a row as column -1.
    """
    n, c = scores.shape
    columns: Tensor | None = None
    if c > 4 * group * k:
        short = -c % group
        padded = (
            torch.nn.functional.pad(scores, (0, short), value=-float("inf")) if short else scores
        )
        groups = padded.view(n, -1, group)
        tops = groups.amax(dim=2)
        if torch.isnan(tops).any():  # it hides what else is in its group
            groups = torch.where(torch.isnan(groups), -float("inf"), groups)
            tops = groups.amax(dim=2)
        chosen = _best_keys(tops, k).sort(dim=1).values
        columns = (chosen[:, :, None] * group + torch.arange(group, device=scores.device)).view(
            n, -1
        )
        scores = torch.gather(groups, 1, chosen[:, :, None].expand(-1, -1, group)).view(n, -1)
    scores = torch.where(torch.isnan(scores), -float("inf"), scores)
    found = _best_keys(scores, k)
    best = torch.gather(scores, 1, found)
    labels = found if columns is None else torch.gather(columns, 1, found)
    return torch.where(best == -float("inf"), -1, labels), best


def _best_keys(values: Tensor, k: int) -> Tensor:
    """Positions of the k largest of each row, the first among equals: value and position in one
    whole number.
    """
    k = min(k, values.shape[1])
    if values.dtype == torch.float64:
        return torch.sort(values, dim=1, descending=True, stable=True).indices[:, :k]
    bits = (values.float() + 0.0).view(torch.int32)  # -0 and 0 are equal
    rising = bits ^ ((bits >> 31) & _LAST)
    order = torch.arange(values.shape[1], device=values.device)
    keys = (rising.to(torch.int64) << 32) | (_LAST - order)
    return torch.topk(keys, k, dim=1, sorted=True).indices
