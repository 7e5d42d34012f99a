"""Candidates of a search: recipes with one scorer each, the usual settings first.

A candidate differs from the recipe of the fit only in what that leaves "auto".
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from rembrandt.data.examples import Examples
from rembrandt.embeddings import largest_rank
from rembrandt.linalg.sparse import row_sums_of_squares
from rembrandt.recipe import DecoderName, Recipe
from rembrandt.scorers.embedding_fit import n_random_features
from rembrandt.selection.scaling import label_scalings

MOST = 36  # embedding candidates of a search with a budget
RANKS = (300, 1000, 100)
RIDGES = (1.0, 0.3, 3.0)
KERNELS: tuple[tuple[Any, float], ...] = (
    *((None, 1.0), ("gaussian", 1.0), ("gaussian", 2.0), ("gaussian", 0.5), ("laplacian", 1.0)),
)
# Penalties of the decoder. A linear decoder has few directions, each with the weight of many rows: below 0.3 a penalty
# changes nothing, above it only takes away. With one class a row a logistic decoder wants none, with several a little.
LINEAR_RIDGES = (0.1,)
KERNEL_RIDGES = (0.1, 0.3, 1.0, 0.03)
LOGISTIC_RIDGES = (0.0, 3.0)
LEAVE_OUT = (0.5, 0.0)
COSTS = (1.0, 0.3, 3.0)
POWERS = (3.0, 2.0)
LOGISTIC_FLOPS = 2e13  # a larger logistic fit takes minutes on two cores and is not tried
SAMPLE = 2000  # rows that tell whether rows have unit length already


@dataclass(frozen=True)
class Candidates:
    """What a search may choose from."""

    embedding: list[Recipe]
    trees: list[Recipe]
    others: list[Recipe]  # scorers without open settings
    powers: tuple[float, ...] = POWERS
    n_trees: tuple[int, ...] = (1,)

    @property
    def all(self) -> list[Recipe]:
        return [*self.others, *self.trees, *self.embedding]


def candidates(data: Examples, recipe: Recipe, budget: bool) -> Candidates:
    """List the candidates for what ``recipe`` leaves open: a short list, or with a budget a long one."""
    trees = recipe.trees
    powers = POWERS if trees.power == "auto" else (trees.power,)
    n_trees = tuple(sorted({1, trees.n_trees})) if budget else (1,)  # a trial without a budget has one tree
    costs = COSTS if trees.cost == "auto" else (trees.cost,)
    alone = {name: replace(recipe, scorers=(name,), blend=(1.0,)) for name in recipe.scorers}
    return Candidates(
        _embedding(data, alone["embedding"], budget) if "embedding" in alone else [],
        [alone["trees"].with_trees(cost=cost, power=powers[0], n_trees=n_trees[-1]) for cost in costs]
        if "trees" in alone
        else [],
        [one for name, one in alone.items() if name == "centroids"],
        powers,
        n_trees,
    )


# What "auto" means where there are too few examples to hold any out; a rank is read off the spectrum.
_USUAL: dict[str, Any] = {"decoder": "ridge", "kernel": None, "decoder_ridge": 0.1, "normalize": False, "ridge": 1.0}
_USUAL_EMBEDDING: dict[str, Any] = {"kernel_scale": 1.0, "leave_out": 0.0, "label_power": 0.0, "row_power": 0.0}
_USUAL_TREES: dict[str, Any] = {"cost": COSTS[0], "power": POWERS[0]}


def is_open(recipe: Recipe) -> bool:
    """Whether there is anything to choose. ``leave_out`` by itself is not worth a trial."""
    parts: list[tuple[Any, Any]] = [(recipe, ("blend",))]
    if "embedding" in recipe.scorers:
        parts += [(recipe, _USUAL), (recipe.embedding, ("kernel_scale", "label_power", "row_power"))]
    if "trees" in recipe.scorers:
        parts.append((recipe.trees, _USUAL_TREES))
    return any(_is_auto(getattr(part, name)) for part, names in parts for name in names)


def usual(recipe: Recipe) -> Recipe:
    """Replace "auto" by usual values."""

    def filled(part: Any, values: dict[str, Any]) -> Any:
        return replace(part, **{name: value for name, value in values.items() if _is_auto(getattr(part, name))})

    recipe = filled(recipe, _USUAL | {"blend": recipe.weights})
    embedding, trees = filled(recipe.embedding, _USUAL_EMBEDDING), filled(recipe.trees, _USUAL_TREES)
    return replace(recipe, embedding=embedding, trees=trees)


def _embedding(data: Examples, recipe: Recipe, budget: bool) -> list[Recipe]:
    """The usual candidate, those that differ from it in one setting, then the others in random order."""
    position: dict[Recipe, tuple[int, ...]] = {}  # of each value among its alternatives; the usual one is 0
    for places, candidate in _grid(data, recipe, budget):
        position.setdefault(candidate, places)
    found = list(position)
    if not budget:
        return found
    changes = {one: sum(place > 0 for place in position[one]) for one in found}
    order = np.random.default_rng(recipe.seed).permutation(len(found)).tolist()
    near = sorted(
        (one for one in found if changes[one] == 1), key=lambda one: (sum(position[one]), [-at for at in position[one]])
    )
    first, far = [one for one in found if changes[one] == 0], [found[i] for i in order if changes[found[i]] > 1]
    return [*first, *near, *far][:MOST]


def _grid(data: Examples, recipe: Recipe, budget: bool) -> Iterator[tuple[tuple[int, ...], Recipe]]:
    """All combinations of open settings, each with its position among the alternatives."""

    def among(value: Any, alternatives: tuple[Any, ...]) -> tuple[Any, ...]:
        return alternatives if _is_auto(value) else (value,)

    limit = largest_rank(data.n, data.X.shape[1] + 1, data.n_labels)
    ranks: tuple[Any, ...] = (recipe.n_components,)
    if budget and recipe.n_components == "auto":
        ranks = tuple(dict.fromkeys((min(RANKS[0], limit), min(RANKS[1], limit), min(RANKS[2], -(-limit // 3)))))
    ridges = among(recipe.ridge, RIDGES)
    scalings = among(recipe.normalize, (False,) if _unit_rows(data) else (True, False))
    powers = label_scalings(data, recipe)
    for (k, (kernel, scale)), (p, (label_power, row_power)), (s, scaling), (g, ridge), (r, rank) in product(
        *map(enumerate, (_kernels(recipe, budget), powers, scalings, ridges, ranks))
    ):
        for d, (decoder, penalty, left_out) in enumerate(_decodings(data, recipe, rank, kernel, limit)):
            one = replace(
                recipe,
                n_components=rank,
                ridge=ridge,
                normalize=scaling,
                kernel=kernel,
                decoder=decoder,
                decoder_ridge=penalty,
            )
            inner = {"kernel_scale": scale, "leave_out": left_out, "label_power": label_power, "row_power": row_power}
            yield (k, d, p, s, g, r), one.with_embedding(**inner)


def _kernels(recipe: Recipe, budget: bool) -> list[tuple[Any, float]]:
    scale: Any = recipe.embedding.kernel_scale
    scales = (1.0, 2.0, 0.5) if _is_auto(scale) else (scale,)
    if recipe.kernel is None or recipe.decoder == "transpose":
        return [(None, scales[0])]
    if recipe.kernel != "auto":
        return [(recipe.kernel, each) for each in scales]
    if len(scales) > 1:
        return list(KERNELS)
    names = dict.fromkeys(kernel for kernel, _ in KERNELS) if budget else (None, "gaussian")
    return [(kernel, scales[0]) for kernel in names]


def _decodings(
    data: Examples, recipe: Recipe, rank: Any, kernel: Any, limit: int
) -> Iterator[tuple[DecoderName, float, float]]:
    """Decoders for a kernel with their penalty and what they leave out; the usual one first."""
    open_penalty, open_share = _is_auto(recipe.decoder_ridge), _is_auto(recipe.embedding.leave_out)
    penalties: Any = LINEAR_RIDGES if kernel is None else KERNEL_RIDGES
    penalties = penalties if open_penalty else (recipe.decoder_ridge,)
    shares: Any = LEAVE_OUT if open_share else (recipe.embedding.leave_out,)
    width = min(limit, RANKS[0]) if rank == "auto" else rank
    if recipe.decoder != "auto":
        names: list[DecoderName] = [recipe.decoder]
    else:
        names = ["ridge"]
        if kernel is None and recipe.method != "pca":
            names.append("transpose")
        if kernel is not None:
            width += n_random_features(replace(recipe, decoder="logistic"), data.n, width)
        if data.multiclass and 80.0 * data.n * width * data.n_labels <= LOGISTIC_FLOPS:
            names.append("logistic")
    for name in names:
        if name == "ridge":
            yield from ((name, penalty, share) for share in shares for penalty in penalties)
        else:
            several = LOGISTIC_RIDGES if name == "logistic" and not data.multiclass else LOGISTIC_RIDGES[:1]
            yield from (
                (name, each, 0.0 if open_share else shares[0]) for each in (several if open_penalty else penalties)
            )


def _unit_rows(data: Examples) -> bool:
    """Whether rows have unit length already, as those of tf-idf have."""
    lengths = row_sums_of_squares(data.X[:SAMPLE])
    lengths = lengths[lengths > 0]
    return len(lengths) == 0 or bool(np.allclose(lengths, 1, atol=1e-3))


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"
