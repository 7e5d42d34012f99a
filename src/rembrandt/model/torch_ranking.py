"""The best labels on a device: one pass over the scores, for the best of each small group; the rest is small.

On a GPU the scores of all labels are products in bfloat16, good to three digits. They say which few labels may be among
the best; those are scored again in full precision.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rembrandt.decoders.decoder import Decoder
from rembrandt.engines.torch_memory import halving
from rembrandt.linalg.blocks import spans

Tensor = torch.Tensor

GROUP = 64  # labels whose best score stands for them at first
LABELS = 1 << 17  # labels scored at a time
SCORES = 1 << 30  # entries of the largest block of scores
MANY = 1 << 12  # labels from which on rough scores come first
_LAST = 0x7FFFFFFF


@dataclass(frozen=True)
class _Rough:
    """Weights in bfloat16 to look for candidates with, and by labels to score those again."""

    weights: Tensor  # D × c
    by_label: Tensor  # c × D


def best_of_blocks(
    decoder: Decoder, H: Tensor, k: int, allowed: NDArray[Any] | None
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The ``k`` best labels and their scores, best first, equal scores by label index."""
    weights, bias = decoder.weights, decoder.bias
    rough = _rough(decoder) if allowed is None and k <= GROUP else None
    if allowed is not None:
        chosen = torch.as_tensor(allowed, device=bias.device)
        weights, bias = weights[:, chosen], bias[chosen]
    n, c = H.shape[0], bias.shape[0]
    width = min(k, c)
    labels = torch.full((n, width), -1, dtype=torch.int64, device=H.device)
    scores = torch.full((n, width), -float("inf"), dtype=H.dtype, device=H.device)

    def work(rows: slice) -> None:
        Phi = decoder.features(H[rows])
        if rough is None:
            labels[rows], scores[rows] = _best(Phi, weights, bias, width)
        else:
            candidates, _ = _best(Phi.to(rough.weights.dtype), rough.weights, bias, min(c, 4 * width + 16))
            labels[rows], scores[rows] = _scored_again(Phi, rough.by_label, bias, candidates, width)

    if width:
        halving(work, slice(0, n), max(1, SCORES // min(c, LABELS)), "the scores")
    answer = labels.cpu().numpy()
    return answer if allowed is None else np.where(answer < 0, -1, allowed[answer]), scores.cpu().numpy()


def _rough(decoder: Decoder) -> _Rough | None:
    """The copies of a decoder's weights, made once; they are kept with the decoder."""
    weights = decoder.weights
    if not (weights.is_cuda and weights.dtype == torch.float32 and weights.shape[1] >= MANY):
        return None
    if "rough" not in decoder.derived:
        decoder.derived["rough"] = _Rough(weights.to(torch.bfloat16), weights.T.contiguous())
    found: _Rough = decoder.derived["rough"]
    return found


def _best(Phi: Tensor, weights: Tensor, bias: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The ``k`` best labels, by blocks of them that come in the order of labels."""
    found, values = [], []
    for span in spans(bias.shape[0], LABELS):
        block = torch.addmm(bias[span].to(Phi.dtype), Phi, weights[:, span])
        part, best = top_k(block, min(k, span.stop - span.start))
        found.append(torch.where(part < 0, part, part + span.start))
        values.append(best)
    labels, scores = torch.cat(found, dim=1), torch.cat(values, dim=1)
    at = _best_keys(scores, k)
    return torch.gather(labels, 1, at), torch.gather(scores, 1, at)


def _scored_again(Phi: Tensor, by_label: Tensor, bias: Tensor, candidates: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The ``k`` best of the candidates by their scores in full precision."""
    candidates = candidates.sort(dim=1).values  # in the order of labels, which decides between equals
    known = candidates.clamp(min=0)
    scores = (by_label[known] @ Phi[:, :, None])[:, :, 0] + bias[known]
    scores = torch.where((candidates < 0) | torch.isnan(scores), -float("inf"), scores)
    at = _best_keys(scores, k)
    best = torch.gather(scores, 1, at)
    return torch.where(best == -float("inf"), -1, torch.gather(candidates, 1, at)), best


def top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best columns of every row and their scores, exactly: best first, the lower column among equals.

    Every one of them is in one of the k groups with the best maxima: a label of another group has at least k before it.
    NaN and -inf mean "no prediction" and end a row as column -1.
    """
    n, c = scores.shape
    columns: Tensor | None = None
    if c > 4 * GROUP * k:
        short = -c % GROUP
        padded = torch.nn.functional.pad(scores, (0, short), value=-float("inf")) if short else scores
        groups = padded.view(n, -1, GROUP)
        tops = groups.amax(dim=2)
        if torch.isnan(tops).any():  # it hides what else is in its group
            groups = torch.where(torch.isnan(groups), -float("inf"), groups)
            tops = groups.amax(dim=2)
        chosen = _best_keys(tops, k).sort(dim=1).values
        columns = (chosen[:, :, None] * GROUP + torch.arange(GROUP, device=scores.device)).view(n, -1)
        scores = torch.gather(groups, 1, chosen[:, :, None].expand(-1, -1, GROUP)).view(n, -1)
    scores = torch.where(torch.isnan(scores), -float("inf"), scores)
    found = _best_keys(scores, k)
    best = torch.gather(scores, 1, found)
    labels = found if columns is None else torch.gather(columns, 1, found)
    return torch.where(best == -float("inf"), -1, labels), best


def _best_keys(values: Tensor, k: int) -> Tensor:
    """Positions of the k largest of each row, the first among equals: value and position in one whole number."""
    k = min(k, values.shape[1])
    if values.dtype == torch.float64:
        return torch.sort(values, dim=1, descending=True, stable=True).indices[:, :k]
    bits = (values.float() + 0.0).view(torch.int32)  # -0 and 0 are equal
    rising = bits ^ ((bits >> 31) & _LAST)
    order = torch.arange(values.shape[1], device=values.device)
    keys = (rising.to(torch.int64) << 32) | (_LAST - order)
    return torch.topk(keys, k, dim=1, sorted=True).indices
