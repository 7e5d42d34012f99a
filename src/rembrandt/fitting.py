"""From X, Y and a recipe to a model: prepare the rows, embed the labels, fit the decoder."""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy import sparse

from rembrandt import memory
from rembrandt import recipe as recipe_module
from rembrandt.checkpoints import NOTHING_KEPT, Checkpoints
from rembrandt.data.rows import as_rows
from rembrandt.data.stored import StoredRows
from rembrandt.decoders.decoder import Decoder
from rembrandt.decoders.logistic import LogisticSettings, fit_logistic
from rembrandt.decoders.moments import Moments
from rembrandt.decoders.ridge import fit_ridge
from rembrandt.decoders.transpose import fit_transpose
from rembrandt.embeddings import Embedding, Method, SolverName, choose_rank, embed, largest_rank, warn_if_fewer
from rembrandt.embeddings.regressor import FittedRegressor, embed_with_regressor
from rembrandt.engines.place import CPU, Place
from rembrandt.engines.protocol import Engine
from rembrandt.engines.statistics import RidgeStatistics
from rembrandt.errors import SettingsError
from rembrandt.features.fourier import FourierMap, Kernel, draw
from rembrandt.linalg.blocks import Block, as_numpy, in_rows
from rembrandt.linalg.sparse import Matrix, normalize_rows, used_columns
from rembrandt.model.model import Model
from rembrandt.packing import Arrays
from rembrandt.progress import Report, silent
from rembrandt.recipe import TreeSettings
from rembrandt.scorers.tree_fit import fit_trees

Array = NDArray[Any]
DecoderName = Literal["transpose", "ridge", "logistic"]
RIDGE_FLOPS = 1e11  # n (D + k)²: what a Gram matrix of mapped features may cost
DECODERS: tuple[DecoderName, ...] = ("transpose", "ridge", "logistic")


@dataclass(frozen=True)
class Settings:
    """How to embed; the defaults are the paper's."""

    method: Method = "rembrandt"
    n_components: int = 50
    at_most: bool = False  # n_components is a limit: no warning when fewer are found
    ridge: float = 1.0
    n_oversamples: int = 20
    n_iter: int = 1
    solver: SolverName = "auto"
    tol: float = 1e-3
    max_iter: int = 10
    seed: int = 0

    def recipe(self) -> "recipe_module.Recipe":
        own = {name: getattr(self, name) for name in ("n_oversamples", "n_iter", "solver", "tol", "max_iter")}
        embedding = recipe_module.EmbeddingSettings(**own)
        return recipe_module.Recipe(self.method, self.n_components, self.ridge, self.seed, embedding)


@dataclass(frozen=True)
class Recipe:
    """Every choice that a fit depends on.

    ``leave_out`` says how much of its own label is taken out of each training example's projection before the decoder
    sees it, from 0 to 1: a regression on many features half knows the labels it was fitted to, and a decoder that
    learns from such rows trusts them too much on new ones.
    """

    embedding: Settings
    auto_rank: bool = False  # embedding.n_components is the most to keep, not the number
    center: bool = False
    normalize: bool = False
    decoder: DecoderName = "ridge"
    decoder_ridge: float = 0.1
    kernel: Kernel | None = None
    kernel_scale: float = 1.0
    leave_out: float = 0.0
    n_random_features: int | None = None  # None: as many as the number of examples makes affordable
    max_epochs: int = 40
    tree: TreeSettings | None = None  # the sparse part
    blend: float = 0.5  # its share in the score
    growable: bool = False  # keep what labels that come later need
    regressor: Any = None  # what predicts embedded labels from features, where it is not linear

    def facts(self) -> dict[str, Any]:
        """The recipe as JSON."""
        return asdict(replace(self, regressor=None)) | {
            "regressor": None if self.regressor is None else repr(self.regressor)
        }

    @classmethod
    def of(cls, facts: dict[str, Any]) -> "Recipe":
        """The recipe that has these facts."""
        tree = facts["tree"]
        parts = {"embedding": Settings(**facts["embedding"]), "tree": None if tree is None else TreeSettings(**tree)}
        return cls(**facts | parts | {"regressor": None})


@dataclass(frozen=True)
class Labelled:
    """The training data of a model."""

    X: Matrix
    Y: sparse.csr_array
    classes: Array
    multiclass: bool
    weights: Array | None = None
    place: Place = CPU  # where it is fitted

    def rows(self, index: Array) -> "Labelled":
        weights = None if self.weights is None else self.weights[index]
        return replace(self, X=self.X[index], Y=self.Y[index], weights=weights, place=self.place.in_memory())


@dataclass(frozen=True)
class Embedded:
    """Labels embedded, and the projection of the features on them with its constant row last."""

    embedding: Embedding
    projection: Block
    reason: str = ""
    place: Place = CPU
    lift: FittedRegressor | None = None  # what rows go through before the projection

    def project(self, X: Matrix) -> Block:
        return self.place.project(as_rows(X if self.lift is None else self.lift(X)), self.projection)

    def over(self, used: Array, d: int) -> "Embedded":
        """The same for ``d`` features, of which these were the ``used`` ones; the others count for nothing."""
        found = self.projection
        projection = array_namespace(found).zeros((d + 1, found.shape[1]), dtype=found.dtype, device=found.device)
        projection[self.place.asarray(np.append(used, d))] = found
        return replace(self, projection=projection)

    def in_rows(self) -> "Embedded":
        """The same, laid out as it will be when it is read back."""
        e = self.embedding
        V = in_rows(e.V)
        back = V if e.back is e.V else None if e.back is None else in_rows(e.back)
        return replace(self, embedding=replace(e, V=V, back=back), projection=in_rows(self.projection))

    def packed(self) -> tuple[Arrays, dict[str, Any]]:
        """As named arrays and JSON, to be written to a file."""
        e = self.embedding
        blocks = {"V": e.V, "sigma": e.sigma, "projection": self.projection, "means": e.means}
        if e.back is not e.V:
            blocks["back"] = e.back
        arrays = {name: as_numpy(block) for name, block in blocks.items() if block is not None}
        facts = {name: getattr(e, name) for name in ("residual", "leverage", "iterations")}
        if self.lift is not None:
            self.lift.refuse_saving()
        return arrays, {"facts": facts, "reason": self.reason, "has_back": e.back is not None}

    @classmethod
    def unpacked(cls, arrays: Arrays, facts: dict[str, Any], place: Place) -> "Embedded":
        """What `packed` packed; the projection stands for the regression that it was made of."""
        blocks = {name: place.asarray(array) for name, array in arrays.items()}
        V, projection = blocks["V"], blocks["projection"]
        back = blocks.get("back", V) if facts["has_back"] else None
        e = Embedding(V, blocks["sigma"], projection, back, **facts["facts"], means=blocks.get("means"))
        return cls(e, projection, facts["reason"], place)


def fit_model(
    data: Labelled, recipe: Recipe, report: Report = silent, checkpoints: Checkpoints = NOTHING_KEPT
) -> Model:
    """The model that ``recipe`` makes of ``data``."""
    estimate = check_memory(data, recipe)
    X = normalized(data.X) if recipe.normalize else data.X
    embedded = checkpoints.stage(
        "embedding",
        lambda: fit_used_features(replace(data, X=X), recipe, report).in_rows(),
        Embedded.packed,
        lambda arrays, facts: Embedded.unpacked(arrays, facts, data.place),
    )
    decoder = checkpoints.stage(
        "decoder",
        # To project the rows again costs no more than to read them, so they are not kept.
        lambda: fit_decoder(embedded.embedding, embedded.project(X), data, recipe, report, checkpoints),
        Decoder.packed,
        Decoder.unpacked,
    )
    moments = None
    if recipe.growable:
        with data.place.session():
            seen = left_out(embedded.embedding, embedded.project(X), data, recipe.leave_out)
            moments = Moments.of(data.place.statistics(seen, None, decoder.fourier, data.weights))
    forest = None
    if recipe.tree is not None and recipe.blend > 0:
        forest = fit_trees(
            as_rows(X), data.Y, recipe.tree, recipe.embedding.seed, data.weights, report, checkpoints, data.place
        )
    rank = int(embedded.projection.shape[1])
    settings = recipe.facts() | {"rank": rank, "rank_reason": embedded.reason, "memory_estimate": estimate}
    return Model(
        classes=data.classes,
        multiclass=data.multiclass,
        normalize=recipe.normalize,
        projection=as_numpy(embedded.projection),
        lift=embedded.lift,
        decoder=decoder.moved(as_numpy),
        embedding=as_numpy(embedded.embedding.V),
        singular_values=as_numpy(embedded.embedding.sigma),
        label_counts=np.bincount(data.Y.indices, minlength=data.Y.shape[1]),
        n_train=data.X.shape[0],
        forest=forest,
        moments=moments,
        blend=0.0 if forest is None else recipe.blend,
        settings=settings | {"residual": embedded.embedding.residual, "iterations": embedded.embedding.iterations},
    )


def normalized(X: Matrix) -> Matrix:
    """Rows of length one."""
    return X.normalized() if isinstance(X, StoredRows) else normalize_rows(X)


def fit_embedding(data: Labelled, recipe: Recipe, report: Report = silent) -> Embedded:
    """Embed the labels; an intercept comes from a constant feature or, with ``center``, from the means."""
    if recipe.regressor is not None:
        return _fit_plugged(data, recipe, report)
    with data.place.session():
        return embed_by(make_engine(data, recipe.center), recipe, data.place, report)


def embed_by(engine: Engine, recipe: Recipe, place: Place = CPU, report: Report = silent) -> Embedded:
    """What `fit_embedding` makes of the data that ``engine`` stands for."""
    embedding = embed(engine, recipe.embedding.recipe(), report)
    _warn_if_fewer(embedding, recipe)
    reason = ""
    if recipe.auto_rank:
        rank, reason = choose_rank(as_numpy(embedding.sigma))
        embedding = embedding.truncated(rank)
    return Embedded(embedding, embedding.W, reason, place)


def _warn_if_fewer(embedding: Embedding, recipe: Recipe) -> None:
    if not recipe.embedding.at_most:
        warn_if_fewer(embedding.sigma.shape[0], recipe.embedding.n_components)


def _fit_plugged(data: Labelled, recipe: Recipe, report: Report) -> Embedded:
    if recipe.center:
        raise SettingsError("center=True is for a linear regression; this regressor has an intercept of its own")
    X = _in_memory(data)
    embedding, lift = embed_with_regressor(X, data.Y, data.weights, recipe.regressor, recipe.embedding.recipe(), report)
    _warn_if_fewer(embedding, recipe)
    reason = ""
    if recipe.auto_rank:
        rank, reason = choose_rank(as_numpy(embedding.sigma))
        embedding = embedding.truncated(rank)
    move = data.place.asarray
    placed = replace(embedding, V=move(embedding.V), back=move(embedding.V), W=move(embedding.W))
    return Embedded(placed, placed.W, reason, data.place, lift)


def _in_memory(data: Labelled) -> Matrix:
    if isinstance(data.X, StoredRows):
        raise SettingsError("a regressor needs all rows in memory, and a store has them on disk: use regressor=None")
    return data.X


def fit_used_features(data: Labelled, recipe: Recipe, report: Report = silent) -> Embedded:
    """As `fit_embedding`, passing over features that no row has: hashed text leaves most columns empty."""
    if recipe.regressor is not None:
        return fit_embedding(data, recipe, report)
    d = data.X.shape[1]
    used = data.X.used_columns() if isinstance(data.X, StoredRows) else used_columns(data.X)
    if len(used) == d:
        return fit_embedding(data, recipe, report)
    return fit_embedding(replace(data, X=data.X[:, used]), recipe, report).over(used, d)


def make_engine(data: Labelled, center: bool) -> Engine:
    return data.place.engine(as_rows(data.X), data.Y, data.weights, center)


def fit_decoder(
    embedding: Embedding,
    H: Block,
    data: Labelled,
    recipe: Recipe,
    report: Report = silent,
    checkpoints: Checkpoints = NOTHING_KEPT,
) -> Decoder:
    """The decoder of ``recipe`` on the projected rows ``H``."""
    if recipe.decoder == "transpose":
        if embedding.back is None:
            raise SettingsError(
                f"decoder={recipe.decoder!r} needs a label basis, and method='pca' has none: it embeds features. "
                "Use decoder='ridge' or 'logistic', or another method."
            )
        if recipe.kernel is not None:
            raise SettingsError(f"decoder={recipe.decoder!r} has nothing to fit on a kernel map; use kernel=None")
        return fit_transpose(embedding.back, embedding.unreached_means())
    with data.place.session():
        H = left_out(embedding, H, data, recipe.leave_out)
        fourier = fourier_map(H, recipe)
        if recipe.decoder == "ridge":
            return fit_ridge(ridge_statistics(H, data, fourier, report), recipe.decoder_ridge)
        settings = logistic_settings(data, recipe)
        return fit_logistic(H, data.Y, settings, fourier, data.weights, report, data.place, checkpoints)


def ridge_statistics(H: Block, data: Labelled, fourier: FourierMap | None, report: Report = silent) -> RidgeStatistics:
    return data.place.statistics(H, data.Y, fourier, data.weights, report)


def left_out(embedding: Embedding, H: Block, data: Labelled, strength: float) -> Block:
    """Training rows as they would be projected had they been left out of the regression, ``strength`` of the way.

    For ridge regression leaving row i out gives ``(hᵢ − lᵢ yᵢV) / (1 − lᵢ)`` with ``lᵢ`` its leverage; the mean
    leverage stands for each, as it serves no worse and costs a few columns more instead of a pass.
    """
    share = share_left_out(embedding, strength)
    return H if share == 0 else data.place.leave_out(H, share, data.Y, embedding.V)


def share_left_out(embedding: Embedding, strength: float) -> float:
    """How much of its own label is taken out of a row's projection."""
    return 0.0 if embedding.back is None else strength * min(embedding.leverage, 0.9)


def logistic_settings(data: Labelled, recipe: Recipe) -> LogisticSettings:
    return LogisticSettings(
        multiclass=data.multiclass,
        max_epochs=recipe.max_epochs,
        dropout=0.0 if recipe.kernel is None else 0.5,
        l2=recipe.decoder_ridge,
        seed=recipe.embedding.seed,
    )


def fourier_map(H: Block, recipe: Recipe) -> FourierMap | None:
    if recipe.kernel is None:
        return None
    return draw(recipe.kernel, H, n_random_features(recipe, *H.shape), recipe.kernel_scale, recipe.embedding.seed)


def n_random_features(recipe: Recipe, n: int, k: int) -> int:
    """As asked; else what two cores map and factor in seconds: few examples need, and can pay for, more of them."""
    if recipe.n_random_features is not None:
        return recipe.n_random_features
    if recipe.decoder == "logistic":
        return 2000
    return int(np.clip((RIDGE_FLOPS / n) ** 0.5 - k, 1000, 4000))


def check_memory(data: Labelled, recipe: Recipe) -> int:
    """Refuse what would not fit in memory before it begins; a device has a memory of its own."""
    rows, k = as_rows(data.X), recipe.embedding.n_components
    n, d = rows.shape
    resident, entries = rows.resident()
    trees = recipe.tree is not None
    shape = memory.Shape(
        n=resident,
        d=d + 1,
        c=data.Y.shape[1],
        nonzeros=max(entries, rows.nnz if trees else 0) + data.Y.nnz,
        k=k,
        width=k + recipe.embedding.n_oversamples,
        mapped=k if recipe.kernel is None else k + n_random_features(recipe, n, k),
        decoder=recipe.decoder,
        itemsize=rows.dtype.itemsize,
        together=rows.label_feature_pairs(data.Y) if trees else 0,
    )
    return data.place.check_memory(shape, independent=not data.multiclass)


def rank_limit(data: Labelled, regressor: Any = None) -> int:
    """The most directions that there can be; those of a regressor that is not linear are no matter of features."""
    n, d = data.X.shape
    return largest_rank(n, d + 1 if regressor is None else n, data.Y.shape[1])
