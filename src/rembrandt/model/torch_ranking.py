"""The best labels on a device: one pass over the scores, for the best of each small group; the rest is small."""

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
_LAST = 0x7FFFFFFF


def best_of_blocks(
    decoder: Decoder, H: Tensor, k: int, allowed: NDArray[Any] | None
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The ``k`` best labels and their scores, best first, equal scores by label index."""
    weights, bias = decoder.weights, decoder.bias
    if allowed is not None:
        chosen = torch.as_tensor(allowed, device=bias.device)
        weights, bias = weights[:, chosen], bias[chosen]
    n, c = H.shape[0], bias.shape[0]
    width = min(k, c)
    labels = torch.full((n, width), -1, dtype=torch.int64, device=H.device)
    scores = torch.full((n, width), -float("inf"), dtype=H.dtype, device=H.device)

    def work(rows: slice) -> None:
        Phi = decoder.features(H[rows])
        found, values = [], []
        for span in spans(c, LABELS):
            part, best = top_k(torch.addmm(bias[span], Phi, weights[:, span]), min(k, span.stop - span.start))
            found.append(torch.where(part < 0, part, part + span.start))
            values.append(best)
        labels[rows], scores[rows] = _merged(torch.cat(found, dim=1), torch.cat(values, dim=1), width)

    if width:
        halving(work, slice(0, n), max(1, SCORES // min(c, LABELS)), "the scores")
    answer = labels.cpu().numpy()
    return answer if allowed is None else np.where(answer < 0, -1, allowed[answer]), scores.cpu().numpy()


def top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best columns of every row and their scores, exactly: best first, the lower column among equals.

    Every one of them is in one of the k groups with the best maxima: a label of another group has at least k before it.
    NaN and -inf mean "no prediction" and end a row as column -1.
    """
    n, c = scores.shape
    if c > 4 * GROUP * k:
        padded = torch.nn.functional.pad(scores, (0, -c % GROUP), value=-float("inf")).view(n, -1, GROUP)
        tops = padded.amax(dim=2)
        if torch.isnan(tops).any():  # it hides what else is in its group
            padded = torch.where(torch.isnan(padded), -float("inf"), padded)
            tops = padded.amax(dim=2)
        groups = _best_keys(tops, k).sort(dim=1).values
        columns = (groups[:, :, None] * GROUP + torch.arange(GROUP, device=scores.device)).view(n, -1)
        candidates = torch.gather(padded.view(n, -1), 1, columns)
    else:
        columns, candidates = None, scores
    candidates = torch.where(torch.isnan(candidates), -float("inf"), candidates)
    found = _best_keys(candidates, k)
    best = torch.gather(candidates, 1, found)
    labels = found if columns is None else torch.gather(columns, 1, found)
    return torch.where(best == -float("inf"), -1, labels), best


def _merged(labels: Tensor, scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Answers of several blocks as one; blocks come in the order of their labels, so position breaks ties."""
    at = _best_keys(scores, k)
    return torch.gather(labels, 1, at), torch.gather(scores, 1, at)


def _best_keys(values: Tensor, k: int) -> Tensor:
    """Positions of the k largest of each row, the first among equals: value and position in one whole number."""
    k = min(k, values.shape[1])
    if values.dtype != torch.float32:
        return torch.sort(values, dim=1, descending=True, stable=True).indices[:, :k]
    bits = (values + 0.0).contiguous().view(torch.int32)  # -0 and 0 are equal
    rising = bits ^ ((bits >> 31) & _LAST)
    order = torch.arange(values.shape[1], device=values.device)
    keys = (rising.to(torch.int64) << 32) | (_LAST - order)
    return torch.topk(keys, k, dim=1, sorted=True).indices
