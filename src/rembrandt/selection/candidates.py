"""What a search may change: the settings that a recipe leaves "auto", in the order in which they
are tried.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from rembrandt.data.examples import Examples
from rembrandt.embeddings import largest_rank
from rembrandt.linalg.sparse import row_sums_of_squares
from rembrandt.recipe import Recipe
from rembrandt.scorers.tree_fit import cluster_depths
from rembrandt.settings import EmbeddingSettings, ScorerName, TreeSettings

RANK = 300  # usual rank of an embedding
SCALINGS = ((0.25, 0.5), (0.0, 0.0), (0.5, 0.5))  # label_power and row_power that are tried
LOGISTIC_FLOPS = 2e13  # a larger logistic fit takes minutes on two cores and is not tried
SAMPLE = 2000  # rows that tell whether rows have unit length already
_EMBEDDING = {field.name for field in fields(EmbeddingSettings)}
_TREES = {field.name for field in fields(TreeSettings)}


@dataclass(frozen=True)
class Axis:
    """Alternatives of some settings of a scorer, the usual one first."""

    scorer: ScorerName
    names: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]

    def applied(self, recipe: Recipe, values: tuple[Any, ...]) -> Recipe:
        """Return the recipe with these values."""
        for name, value in zip(self.names, values, strict=True):
            if name in _EMBEDDING:
                recipe = recipe.with_embedding(**{name: value})
            elif name in _TREES:
                recipe = recipe.with_trees(**{name: value})
            else:
                recipe = replace(recipe, **{name: value})
        return recipe

    def promising(
        self, values: tuple[Any, ...], best: tuple[Any, ...], tried: list[tuple[Any, ...]]
    ) -> bool:
        """Whether a value may be better than the best so far; the quality has one peak along a
        single number.
        """
        if len(values) > 1:
            return True
        (value,), (peak,), (usual,) = values, best, self.values[0]
        if (value - peak) * (peak - usual) < 0:  # on the other side of the usual value
            return False
        return not any((known - peak) * (value - known) > 0 for (known,) in tried)

    def open_in(self, recipe: Recipe) -> "Axis":
        """Return the alternatives that ``recipe`` leaves open: those that agree with what it
        gives.
        """
        given = [_setting(recipe, name) for name in self.names]
        kept = dict.fromkeys(
            tuple(value if own == "auto" else own for own, value in zip(given, values, strict=True))
            for values in self.values
        )
        return replace(self, values=tuple(kept))


def axes(data: Examples, recipe: Recipe, effort: int) -> list[Axis]:
    """List what may be changed: little with effort 0, more with 1, everything with 2."""
    limit = largest_rank(data.n, data.X.shape[1] + 1, data.n_labels)
    # All directions of at most 1,000 labels gain up to 0.9 points of P@1 on left-out rows of five
    # sets, in at most 1.8 times the time. With more labels a rank of 1,000 doubles the time of a
    # blend and gains on one set of six.
    more = (1000, 100) if effort == 2 else (limit,) if effort and limit == data.n_labels else ()
    ranks = tuple(dict.fromkeys(min(rank, limit) for rank in (RANK, *more)))
    decoding = "decoder", "kernel", "kernel_scale", "decoder_ridge"
    closed: list[tuple[Any, ...]] = [
        ("ridge", None, 1.0, 0.1),
        ("discriminant", None, 1.0, 0.1),
    ]  # of the same sums
    decodings = [*closed[:1], ("ridge", "gaussian", 1.0, 0.3)]
    if effort and data.multiclass and 80.0 * data.n * RANK * data.n_labels <= LOGISTIC_FLOPS:
        decodings.append(("logistic", None, 1.0, 0.1))
    if effort == 2:
        decodings += [("ridge", "gaussian", scale, 0.3) for scale in (2.0, 0.5)] + [
            ("ridge", "laplacian", 1.0, 0.3)
        ]
        decodings += [] if recipe.method == "pca" else [("transpose", None, 1.0, 0.1)]
    clustered = bool(cluster_depths(data.n, data.n_labels, recipe.trees.pairs))
    found = [
        Axis("trees", ("cost",), ((1.0,), (0.3,), (0.1,), (0.03,), (3.0,))),
        Axis("trees", ("passes",), ((6,), (12,)) if clustered else ((6,),)),
        Axis("embedding", ("normalize",), ((False,),) if _unit_rows(data) else ((True,), (False,))),
        Axis("embedding", decoding, tuple(closed)),
        # These are cheap before there is a kernel.
        Axis("embedding", ("label_power", "row_power"), _scalings(data, recipe)),
        Axis("embedding", ("n_components",), tuple((rank,) for rank in ranks)),
        Axis("embedding", decoding, tuple(decodings)),
        Axis(
            "embedding",
            ("decoder_ridge",),
            ((0.1,), (0.3,), (1.0,), (0.03,))[: 4 if effort == 2 else 3],
        ),
        Axis("embedding", ("leave_out",), ((0.5,), (0.0,)) if effort == 2 else ((0.5,),)),
        Axis("embedding", ("ridge",), ((1.0,), (0.3,), (3.0,)) if effort == 2 else ((1.0,),)),
    ]
    return [axis.open_in(recipe) for axis in found]


def usual(recipe: Recipe, listed: list[Axis]) -> Recipe:
    """Replace "auto" by the usual values."""
    for axis in listed:
        recipe = axis.applied(recipe, axis.values[0])
    return recipe


def _scalings(data: Examples, recipe: Recipe) -> tuple[tuple[float, float], ...]:
    """Powers of the label counts and row lengths that differ on these data."""
    if recipe.method == "pca" or recipe.regressor is not None or recipe.growable:
        return ((0.0, 0.0),)
    counts, lengths = np.bincount(data.Y.indices, minlength=data.n_labels), np.diff(data.Y.indptr)
    labels, rows = len(np.unique(counts[counts > 0])) > 1, len(np.unique(lengths[lengths > 0])) > 1
    return tuple(dict.fromkeys((label * labels, row * rows) for label, row in SCALINGS))


def _setting(recipe: Recipe, name: str) -> Any:
    part: Any = (
        recipe.embedding if name in _EMBEDDING else recipe.trees if name in _TREES else recipe
    )
    return getattr(part, name)


def _unit_rows(data: Examples) -> bool:
    """Whether rows have unit length already, as those of tf-idf have."""
    lengths = row_sums_of_squares(data.X[:SAMPLE])
    lengths = lengths[lengths > 0]
    return len(lengths) == 0 or bool(np.allclose(lengths, 1, atol=1e-3))
