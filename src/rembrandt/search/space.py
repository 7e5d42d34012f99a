"""What a search may choose among: candidates of the low-rank part and of the sparse part, the usual ones first.

Fields and keys are named after the parameters of the classifier, so that a candidate is a fit that anyone can repeat.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from rembrandt.blending import COSTS, POWERS, RARE_COST, SHARES
from rembrandt.data.stored import StoredRows
from rembrandt.features.fourier import Kernel
from rembrandt.fitting import DecoderName, Labelled, Recipe, n_random_features, rank_limit
from rembrandt.linalg.sparse import row_sums_of_squares
from rembrandt.model.ranking import LABELS
from rembrandt.selection import LEAVE_OUT, LOGISTIC_FLOPS, RIDGES, USUAL_LEAVE_OUT, USUAL_RIDGE

SEARCHED = (
    *("n_components", "ridge", "normalize", "kernel", "kernel_scale", "decoder", "decoder_ridge", "leave_out"),
    *("sparse", "sparse_trees", "sparse_cost", "sparse_power", "sparse_share"),
)
MOST = 36  # low-rank candidates
RANKS = (300, 1000, 100)  # the last is a third of what is possible where that is less
EMBEDDING_RIDGES = (1.0, 0.3, 3.0)
KERNELS: tuple[tuple[Kernel | None, float], ...] = (
    *((None, 1.0), ("gaussian", 1.0), ("gaussian", 2.0), ("gaussian", 0.5), ("laplacian", 1.0)),
)
SCALES = (1.0, 2.0, 0.5)
LOOKED_AT = 2000  # rows that tell whether all have length one


@dataclass(frozen=True)
class LowRank:
    """A low-rank part."""

    n_components: int
    ridge: float
    normalize: bool
    kernel: Kernel | None
    kernel_scale: float
    decoder: DecoderName
    decoder_ridge: float
    leave_out: float

    def recipe(self, base: Recipe) -> Recipe:
        """``base`` with this part."""
        own = {name: value for name, value in vars(self).items() if name not in ("n_components", "ridge")}
        embedding = replace(base.embedding, n_components=self.n_components, at_most=True, ridge=self.ridge)
        return replace(base, embedding=embedding, auto_rank=False, **own)


@dataclass(frozen=True)
class Sparse:
    """A sparse part; fewer trees and other powers of its hinge come with it for nothing."""

    sparse_cost: float


@dataclass(frozen=True)
class Space:
    """The candidates, and what is tried of each sparse part: numbers of trees, powers, and shares in the score."""

    low_rank: list[LowRank]
    sparse: list[Sparse]
    trees: tuple[int, ...] = (1,)
    pairs: float = 3e7
    powers: tuple[float, ...] = POWERS
    shares: tuple[float, ...] = SHARES  # 0 is low rank alone, 1 the sparse part alone

    @property
    def is_open(self) -> bool:
        """Whether there is anything to choose."""
        options = len(self.sparse) * len(self.trees) * len(self.powers) * len(self.shares)
        return len(self.low_rank) > 1 or options > 1


def space_of(data: Labelled, recipe: Recipe, asked: Mapping[str, Any], open_: frozenset[str]) -> Space:
    """The space of what is ``open_``; all else is as ``asked``, a classifier's parameters with nothing left to fill."""
    if asked["growable"] and "decoder" in open_:  # the only one that learns from more examples
        asked, open_ = {**asked, "decoder": "ridge"}, open_ - {"decoder"}
    shares = _shares(data, asked, open_)
    costs: tuple[Any, ...] = (asked["sparse_cost"],)
    powers: tuple[Any, ...] = (asked["sparse_power"],)
    trees: tuple[int, ...] = (int(asked["sparse_trees"]),)
    if "sparse_cost" in open_:
        costs = tuple(sorted(COSTS, key=lambda cost: (cost != (RARE_COST if shares == (1.0,) else 1.0), cost)))
    if "sparse_power" in open_:
        powers = POWERS
    if "sparse_trees" in open_:
        trees = tuple(sorted({1, *trees}))
    return Space(
        _low_rank(data, recipe, asked, open_) if shares != (1.0,) else [],
        [Sparse(float(cost)) for cost in costs] if shares != (0.0,) else [],
        trees,
        float(asked["sparse_pairs"]),
        tuple(map(float, powers)),
        shares,
    )


def _shares(data: Labelled, asked: Mapping[str, Any], open_: frozenset[str]) -> tuple[float, ...]:
    wanted = True if "sparse" in open_ else asked["sparse"]
    if not wanted or asked["growable"] or isinstance(data.X, StoredRows):
        return (0.0,)
    if wanted == "alone" or ("sparse_share" in open_ and data.Y.shape[1] > LABELS):
        return (1.0,)
    return SHARES if "sparse_share" in open_ else (float(asked["sparse_share"]),)


def _low_rank(data: Labelled, recipe: Recipe, asked: Mapping[str, Any], open_: frozenset[str]) -> list[LowRank]:
    """The usual candidate, those that differ from it in one thing, and others at random."""

    def among(name: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return values if name in open_ else (asked[name],)

    limit = rank_limit(data)
    ranks = tuple(dict.fromkeys((min(RANKS[0], limit), min(RANKS[1], limit), min(RANKS[2], -(-limit // 3)))))
    ranks = among("n_components", ranks)
    ridges = among("ridge", EMBEDDING_RIDGES)
    scalings = among("normalize", (False,) if _unit(data) else (True, False))
    kernels = _kernels(asked, open_)
    places: dict[LowRank, tuple[int, ...]] = {}  # of each value among those of its kind, the usual one at 0
    for (r, rank), (g, ridge), (s, scaling), (k, (kernel, scale)) in product(
        *(enumerate(values) for values in (ranks, ridges, scalings, kernels))
    ):
        for d, decoding in enumerate(_decodings(data, recipe, asked, open_, int(rank), kernel)):
            part = LowRank(int(rank), float(ridge), bool(scaling), kernel, float(scale), *decoding)
            places.setdefault(part, (k, d, s, g, r))
    parts = list(places)
    changes = {part: len([place for place in places[part] if place > 0]) for part in parts}
    order = np.random.default_rng(recipe.embedding.seed).permutation(len(parts)).tolist()
    first = [part for part in parts if changes[part] == 0]
    # The first other kernel, the first other decoding, and so on; then the second ones.
    near = sorted((p for p in parts if changes[p] == 1), key=lambda p: (sum(places[p]), [-at for at in places[p]]))
    far = [parts[i] for i in order if changes[parts[i]] > 1]
    return [*first, *near, *far][:MOST]


def _kernels(asked: Mapping[str, Any], open_: frozenset[str]) -> list[tuple[Kernel | None, float]]:
    if asked["decoder"] == "transpose" and "decoder" not in open_:
        return [(None, 1.0)] if "kernel" in open_ else [(asked["kernel"], 1.0)]
    scales = SCALES if "kernel_scale" in open_ else (float(asked["kernel_scale"]),)
    if "kernel" not in open_:
        return [(asked["kernel"], scale) for scale in (scales if asked["kernel"] is not None else scales[:1])]
    return (
        [(kernel, scale) for kernel, scale in KERNELS if scale in scales]
        if len(scales) > 1
        else [(kernel, scales[0]) for kernel in dict.fromkeys(kernel for kernel, _ in KERNELS)]
    )


def _decodings(
    data: Labelled, recipe: Recipe, asked: Mapping[str, Any], open_: frozenset[str], rank: int, kernel: Kernel | None
) -> list[tuple[DecoderName, float, float]]:
    """Decoders that go with a kernel, each with its penalty and how much it leaves out; the usual one first."""
    left_out = 0.0 if "leave_out" in open_ else float(asked["leave_out"])
    penalty = None if "decoder_ridge" in open_ else float(asked["decoder_ridge"])
    ridges = (USUAL_RIDGE, *(value for value in RIDGES if value != USUAL_RIDGE)) if penalty is None else (penalty,)
    shares = (USUAL_LEAVE_OUT, *(v for v in LEAVE_OUT if v != USUAL_LEAVE_OUT)) if "leave_out" in open_ else (left_out,)
    found: list[tuple[DecoderName, float, float]] = []
    for name in _decoders(data, recipe, rank, kernel) if "decoder" in open_ else [asked["decoder"]]:
        if name == "ridge":
            found += [(name, strength, share) for share in shares for strength in ridges]
        else:
            found.append((name, 0.0 if penalty is None else penalty, left_out))
    return found


def _decoders(data: Labelled, recipe: Recipe, rank: int, kernel: Kernel | None) -> list[DecoderName]:
    names: list[DecoderName] = ["ridge"]
    if kernel is None and recipe.embedding.method != "pca":
        names.append("transpose")
    n, c = data.Y.shape
    width = rank
    if kernel is not None:
        width += n_random_features(replace(recipe, decoder="logistic"), n, rank)
    if data.multiclass and 80.0 * n * width * c <= LOGISTIC_FLOPS:
        names.append("logistic")
    return names


def _unit(data: Labelled) -> bool:
    """Rows of length one already, as tf-idf makes them, leave nothing to choose."""
    lengths = row_sums_of_squares(data.X[:LOOKED_AT])
    lengths = lengths[lengths > 0]
    return len(lengths) == 0 or np.allclose(lengths, 1, atol=1e-3)
