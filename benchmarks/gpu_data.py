"""Generated data with the shape of LSHTC and learnable labels, made on a device in seconds.

1.78 M examples with 1.62 M features and 68 M non-zeros; 325,056 labels, three for each example.
Features and labels have Zipf distributions. Labels form groups of eight, and the labels of an
example belong to one group. The features of an example come from its labels, their group and a
background distribution. They have tf-idf weights and unit length.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import sparse

ROWS, FEATURES, LABELS = 1_780_000, 1_620_000, 325_056
DRAWS = 42  # features drawn for an example, with repetitions
OWN, SHARED, GROUP = 16, 32, 8  # features of a label, of a group, and labels of a group
HEAD = 200  # offset of the ranks: the frequency of label r is proportional to 1 / (r + HEAD)
STEP = 1 << 18  # examples generated at a time


@dataclass(frozen=True)
class Data:
    """Training and held-out examples."""

    X: sparse.csr_array
    Y: sparse.csr_array
    held_X: sparse.csr_array
    held_Y: sparse.csr_array


def generate(scale: float, device: torch.device, seed: int = 0, held_out: float = 0.01) -> Data:
    """Generate training examples and a held-out part."""
    n, d, c = (
        max(least, round(scale * full))
        for full, least in ((ROWS, 500), (FEATURES, 200), (LABELS, 40))
    )
    draw = _Draws(d, c, device, seed)
    held = max(100, round(held_out * n))
    parts = [draw.examples(min(STEP, n + held - start)) for start in range(0, n + held, STEP)]
    keys, labels = (
        torch.cat([_shift(part[i], j, m) for j, part in enumerate(parts)])
        for i, m in ((0, d), (1, c))
    )
    counts = torch.bincount(keys % d, minlength=d)
    idf = torch.log((n + held) / (1 + counts)).clamp(min=0.1)
    values = idf[keys % d] * (1 + torch.rand(len(keys), generator=draw.generator, device=device))
    rows = keys // d
    lengths = torch.zeros(n + held, device=device).index_add_(0, rows, values * values).sqrt()
    values = values / lengths[rows]
    X = _csr(rows, keys % d, values, (n + held, d))
    Y = _csr(labels // c, labels % c, torch.ones(len(labels), device=device), (n + held, c))
    return Data(X[:n], Y[:n], X[n:], Y[n:])


class _Draws:
    def __init__(self, d: int, c: int, device: torch.device, seed: int) -> None:
        self.d, self.c, self.device = d, c, device
        self.generator = torch.Generator(device).manual_seed(seed)
        self.own = self._zipf((c, OWN), d, d // 100 + 1)
        self.shared = self._zipf((-(-c // GROUP), SHARED), d, d // 200 + 1)

    def examples(self, n: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw ``n`` examples; return the sorted keys of features and labels, row × number of
        columns + column.
        """
        first = self._zipf((n, 1), self.c, HEAD)
        group = first // GROUP
        second = self._below(GROUP - 1, (n, 1))
        third = (second + 1 + self._below(GROUP - 2, (n, 1))) % (GROUP - 1)
        others = (
            group * GROUP + (first + 1 + torch.cat([second, third], dim=1)) % GROUP
        )  # three different labels
        labels = torch.cat([first, others], dim=1).clamp(max=self.c - 1)
        chosen = torch.gather(labels, 1, self._below(3, (n, DRAWS)))
        features = self.own[chosen, self._below(OWN, (n, DRAWS))]
        kind = torch.rand((n, DRAWS), generator=self.generator, device=self.device)
        shared = self.shared[group.expand(-1, DRAWS), self._below(SHARED, (n, DRAWS))]
        features = torch.where(
            kind < 0.4, features, torch.where(kind < 0.6, shared, self._zipf((n, DRAWS), self.d, 1))
        )
        return _keys(features, self.d), _keys(labels, self.c)

    def _zipf(self, shape: tuple[int, int], size: int, head: int) -> torch.Tensor:
        """Draw integers below ``size`` with probabilities proportional to 1 / (number + head)."""
        u = torch.rand(shape, generator=self.generator, device=self.device, dtype=torch.float64)
        return (head * ((size + head) / head) ** u - head).long().clamp(0, size - 1)

    def _below(self, size: int, shape: tuple[int, int]) -> torch.Tensor:
        return torch.randint(size, shape, generator=self.generator, device=self.device)


def _keys(columns: torch.Tensor, width: int) -> torch.Tensor:
    rows = torch.arange(columns.shape[0], device=columns.device)[:, None]
    return torch.unique(rows * width + columns)


def _shift(keys: torch.Tensor, part: int, width: int) -> torch.Tensor:
    return keys + part * STEP * width


def _csr(
    rows: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, shape: tuple[int, int]
) -> sparse.csr_array:
    starts = torch.zeros(shape[0] + 1, dtype=torch.int64, device=rows.device)
    starts[1:] = torch.cumsum(torch.bincount(rows, minlength=shape[0]), 0)
    arrays: Any = (
        values.float().cpu().numpy(),
        columns.int().cpu().numpy(),
        starts.cpu().numpy().astype(np.int32),
    )
    matrix = sparse.csr_array(arrays, shape=shape)
    matrix.has_canonical_format = (
        True  # the keys were sorted and unique; a check would read all data
    )
    return matrix
