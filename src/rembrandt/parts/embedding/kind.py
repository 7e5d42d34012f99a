"""The label embedding as a kind of part."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from rembrandt.data.examples import Examples
from rembrandt.errors import SettingsError
from rembrandt.linalg.sparse import is_sparse, row_sums_of_squares
from rembrandt.memory import Shape
from rembrandt.parts.allowance import DENSE_RATE, Allowance, Work
from rembrandt.parts.embedding.fit import (
    N_LISTED_LABELS,
    fit_embedding,
    n_random_features,
)
from rembrandt.parts.embedding.part import LabelEmbedding
from rembrandt.parts.embedding.rank import largest_rank
from rembrandt.parts.embedding.settings import (
    PLAIN_DECODERS,
    PRESETS,
    EmbeddingSettings,
    check_together,
    with_powers,
)
from rembrandt.parts.embedding.update import updated, with_empty_labels
from rembrandt.parts.protocol import Choice, Fitting, Part, PartKind, Update, Updated

# Random features of a kernel: with fewer it is no better than none, and more gain little.
FEWEST_RANDOM_FEATURES = 1000
MOST_RANDOM_FEATURES = 4000
RANDOM_FEATURES_STEP = 100
# Examples for each random feature, at least. On held-out training rows of six data sets two are
# level with none, with 300 and with 3,000 examples; a solution takes the cube of their number.
EXAMPLES_PER_RANDOM_FEATURE = 2
# Penalties of a decoder with and without a kernel.
KERNEL_PENALTY = 0.3
LINEAR_PENALTY = 0.1
# Rows that tell whether rows have unit length already.
N_SAMPLED_ROWS = 2000
# Tolerance of the squared length of a row that has unit length.
UNIT_TOLERANCE = 1e-3
# Products of blocks as wide as the embedding, over examples, features and labels, that one takes:
# those with the data, which are sparse, and the orthogonalizations.
BLOCK_PRODUCTS = 9
# What it costs that other parts list the labels of an example, which the decoder of candidates
# learns from, in multiply-adds: a tenth of a millisecond, which was measured on NVD products.
LISTING_WORK = 3e6
# Features up to which their Gram matrix is formed.
MAX_EXACT_COLUMNS = 4096


class EmbeddingKind(PartKind):
    """The label embedding with its decoder; see `rembrandt.parts.embedding.part`."""

    name = "embedding"
    title = "label embedding"
    settings_type = EmbeddingSettings
    part_type = LabelEmbedding
    presets: ClassVar = PRESETS
    reads_vectors = True

    def resolve(
        self,
        settings: EmbeddingSettings,
        data: Examples,
        allowance: Allowance,
        is_alone: bool,
    ) -> EmbeddingSettings:
        check_together(settings)
        settings = _with_usual_values(settings, data, allowance)
        # What a growable model keeps for updates is quadratic in the number of random features.
        has_no_kernel = settings.decoder in PLAIN_DECODERS or settings.growable
        if settings.kernel == "auto" and has_no_kernel:
            settings = replace(settings, kernel=None)
        if settings.n_random_features is None and settings.kernel is not None:
            affordable = self._affordable_random_features(settings, data, allowance, is_alone)
            if settings.kernel == "auto" and affordable < FEWEST_RANDOM_FEATURES:
                settings = _without_kernel(settings, data, is_alone)
            else:
                n_features = np.clip(affordable, FEWEST_RANDOM_FEATURES, MOST_RANDOM_FEATURES)
                if not settings.growable:  # which may see many more examples
                    enough = max(1, data.n // EXAMPLES_PER_RANDOM_FEATURE)
                    n_features = min(n_features, enough)
                settings = replace(settings, n_random_features=int(n_features))
        if settings.decoder == "auto":
            settings = replace(settings, decoder="ridge")
        if settings.kernel == "auto":
            settings = replace(settings, kernel="gaussian")
        if settings.decoder_ridge == "auto":
            penalty = LINEAR_PENALTY if settings.kernel is None else KERNEL_PENALTY
            settings = replace(settings, decoder_ridge=penalty)
        if settings.retrieves_labels == "auto":
            is_fast = _mapped_features(settings) <= _searchable_features(data, allowance)
            searches = settings.decoder != "candidates" and is_fast
            settings = replace(settings, retrieves_labels=is_alone or searches)
        if is_alone and (settings.decoder == "candidates" or not settings.retrieves_labels):
            raise SettingsError(
                "decoder='candidates' and retrieves_labels=False score labels that other parts "
                "list; add parts",
                "decoder",
            )
        return settings

    def alternatives(
        self, settings: EmbeddingSettings, data: Examples, allowance: Allowance
    ) -> list[EmbeddingSettings]:
        """See `PartKind`. Without a kernel the embedding costs less."""
        if settings.kernel is None:
            return []
        return [replace(settings, kernel=None, decoder_ridge=LINEAR_PENALTY)]

    def _affordable_random_features(
        self,
        settings: EmbeddingSettings,
        data: Examples,
        allowance: Allowance,
        is_alone: bool,
    ) -> int:
        """Return how many random features the allowance has time for, after the embedding itself
        and when all labels of a row are searched; 0 where a kernel is not worth having.
        """
        linear = self.work(replace(settings, kernel=None), data)
        seconds = allowance.seconds - linear.seconds
        numbers = np.arange(FEWEST_RANDOM_FEATURES, MOST_RANDOM_FEATURES + 1, RANDOM_FEATURES_STEP)
        costs = _closed_form_work(data, settings.n_components + numbers)
        is_affordable = costs <= seconds * DENSE_RATE
        if not is_alone:
            n_mapped = settings.n_components + numbers
            is_affordable &= n_mapped <= _searchable_features(data, allowance)
        affordable = numbers[is_affordable]
        return int(affordable.max(initial=0))

    def work(self, settings: EmbeddingSettings, data: Examples) -> Work:
        """See `PartKind`. The regressions and orthogonalizations of the embedding, and the
        decoder.
        """
        n, d = data.X.shape
        c = data.n_labels
        rank = min(settings.n_components, n, d + 1, c)
        width = rank + settings.n_oversamples
        n_columns = min(d, data.X.nnz)  # hashing leaves most columns empty
        regression = float(BLOCK_PRODUCTS * (n + n_columns + c) * width**2)
        if n_columns <= MAX_EXACT_COLUMNS:
            # The Gram matrix of the features and its factor.
            regression += float(data.X.nnz) * n_columns + float(n_columns) ** 3
        mapped = _mapped_features(settings)
        decoding = 0.0
        if settings.decoder not in PLAIN_DECODERS:
            decoding = float(_closed_form_work(data, mapped))
        if settings.decoder == "candidates":
            decoding = LISTING_WORK * n
        if settings.decoder == "logistic":
            decoding += 2.0 * settings.max_epochs * n * mapped * c
        return Work(dense=regression + decoding)

    def shape(self, shape: Shape, settings: EmbeddingSettings, data: Examples) -> Shape:
        n, d = data.X.shape
        rank = settings.n_components
        if rank == "auto":
            rank = largest_rank(n, d + 1, data.n_labels)
        decoder = "ridge" if settings.decoder == "discriminant" else settings.decoder
        n_listed = 0
        if settings.decoder == "candidates":
            n_listed = 4 * n * N_LISTED_LABELS * 2
        mapped = rank
        if settings.kernel is not None:
            mapped = rank + n_random_features(settings)
        return replace(
            shape,
            k=max(shape.k, rank),
            width=max(shape.width, rank + settings.n_oversamples),
            mapped=max(shape.mapped, mapped),
            decoder=decoder,
            lists=shape.lists + n_listed,
        )

    def learns_from_earlier(self, settings: EmbeddingSettings) -> bool:
        """See `PartKind`. Candidates are what other parts list."""
        return bool(settings.decoder == "candidates")

    def fit(self, data: Examples, settings: EmbeddingSettings, fitting: Fitting) -> LabelEmbedding:
        return fit_embedding(data, settings, fitting)

    def update(self, part: LabelEmbedding, update: Update) -> Updated:
        return updated(part, update)

    def with_labels(self, part: LabelEmbedding, update: Update) -> Part:
        return with_empty_labels(part, update.examples.n_labels - part.n_labels)

    def choices(self, settings: EmbeddingSettings, data: Examples) -> list[Choice]:
        choices: list[Choice] = []
        if settings.decoder not in PLAIN_DECODERS:
            choices.append(_decoders(settings, data))
            choices.append(Choice(("decoder_ridge",), ((0.1,), (1.0,))))
            choices.append(Choice(("leave_out",), ((0.0,),)))
        if settings.method != "pca" and not settings.growable:
            choices.append(Choice(("label_power", "row_power"), ((0.0, 0.0), (0.5, 0.5))))
        limit = largest_rank(data.n, data.X.shape[1] + 1, data.n_labels)
        if limit > settings.n_components:
            choices.append(Choice(("n_components",), ((limit,),)))
        return choices

    def words(self, settings: EmbeddingSettings, part: Part | None = None) -> str:
        rank = settings.n_components
        if part is not None:
            rank = part.facts()["rank"]
        words = [f"rank {rank}", f"ridge {settings.ridge:g}", f"decoder {settings.decoder}"]
        if settings.kernel:
            words.append(f"{settings.kernel} kernel × {settings.kernel_scale:g}")
        if settings.decoder not in PLAIN_DECODERS:
            words.append(f"penalty {settings.decoder_ridge:g}")
        if settings.normalize:
            words.append("rows of unit length")
        if settings.leave_out:
            words.append(f"{settings.leave_out:g} left out")
        powers = [
            f"{name} {getattr(settings, name):g}"
            for name in ("label_power", "row_power")
            if getattr(settings, name)
        ]
        if powers:
            words.append(f"labels scaled by {', '.join(powers)}")
        return ", ".join(words)


def _decoders(settings: EmbeddingSettings, data: Examples) -> Choice:
    """Return the decoders that a search tries."""
    alternatives: list[tuple[Any, ...]] = [("ridge", None, LINEAR_PENALTY)]
    if not settings.growable:
        alternatives.append(("ridge", "gaussian", KERNEL_PENALTY))
        alternatives.append(("ridge", "laplacian", KERNEL_PENALTY))
        if data.multiclass:
            alternatives.append(("logistic", None, LINEAR_PENALTY))
    return Choice(("decoder", "kernel", "decoder_ridge"), tuple(alternatives))


def _with_usual_values(
    settings: EmbeddingSettings, data: Examples, allowance: Allowance
) -> EmbeddingSettings:
    """Replace what is "auto" by values that depend on the features alone."""
    if settings.n_components == "auto":
        limit = largest_rank(data.n, data.X.shape[1] + 1, data.n_labels)
        settings = replace(settings, n_components=min(allowance.rank, limit))
    if settings.ridge == "auto":
        settings = replace(settings, ridge=1.0)
    if settings.normalize == "auto":
        settings = replace(settings, normalize=not has_unit_rows(data))
    return with_powers(settings)


def _without_kernel(
    settings: EmbeddingSettings, data: Examples, is_alone: bool
) -> EmbeddingSettings:
    """Return the form without a kernel.

    Of sparse features, a linear decoder of all labels finds hardly any label that the trees do not
    list, so it learns to rank those that they list. On held-out training rows that is worth 0.8
    points of P@1 on NVD products and 1.3 on tibkat, and is level on average on six other sets.
    """
    settings = replace(settings, kernel=None)
    is_free = settings.decoder == "auto" and settings.retrieves_labels == "auto"
    if is_alone or not is_free or settings.growable or not is_sparse(data.X[:0]):
        return settings
    return replace(settings, decoder="candidates")


def _searchable_features(data: Examples, allowance: Allowance) -> float:
    """Return with how many features of a row all labels can be searched."""
    seconds = allowance.row_seconds
    if not is_sparse(data.X[:0]):
        seconds = allowance.vector_row_seconds
    return seconds * DENSE_RATE / data.n_labels


def _closed_form_work(data: Examples, n_mapped: Any) -> Any:
    """Count the multiply-adds of a decoder in closed form with D mapped features: n D² for the Gram
    matrix, D³/3 for its factor and c D² to solve for every label.
    """
    return float(data.n + data.n_labels) * n_mapped**2 + n_mapped**3 / 3


def _mapped_features(settings: EmbeddingSettings) -> int:
    """Return the number of input features of the decoder."""
    mapped = int(settings.n_components)
    if settings.kernel not in (None, "auto"):
        mapped += n_random_features(settings)
    return mapped


def has_unit_rows(data: Examples) -> bool:
    """Whether rows have unit length already, as those of tf-idf have."""
    squared_lengths = row_sums_of_squares(data.X[:N_SAMPLED_ROWS])
    squared_lengths = squared_lengths[squared_lengths > 0]
    return len(squared_lengths) == 0 or bool(np.allclose(squared_lengths, 1, atol=UNIT_TOLERANCE))
