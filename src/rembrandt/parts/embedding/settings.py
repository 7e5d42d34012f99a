"""Settings of the label embedding and its decoder."""

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from rembrandt.errors import SettingsError
from rembrandt.settings import (
    AUTO,
    PRESET_NAMES,
    UNSET,
    PartSettings,
    Preset,
    declare,
    document,
)
from rembrandt.settings.kinds import Choice, Number, Switch, WholeNumber

Method = Literal["rembrandt", "pca", "plst", "cs", "cca"]
DecoderName = Literal["transpose", "ridge", "discriminant", "logistic", "candidates"]
KernelName = Literal["gaussian", "laplacian", "matern3", "matern5"]
SolverName = Literal["auto", "cholesky", "pcg"]

METHODS: tuple[Method, ...] = get_args(Method)
DECODERS: tuple[DecoderName, ...] = get_args(DecoderName)
# Decoders without a kernel and a penalty.
PLAIN_DECODERS: tuple[DecoderName, ...] = ("transpose", "candidates")


@dataclass(frozen=True, repr=False)
class EmbeddingSettings(PartSettings):
    """Settings of the label embedding and its decoder.

    A setting that is not given has the value of the preset. Those that `RembrandtClassifier` has
    as parameters can be given there or here.
    """

    n_components: Any = declare(
        WholeNumber(1),
        "auto",
        words=AUTO,
        help="Rank of the embedding.",
        note="`auto` is 100 in the preset `fast`, 150 in `balanced` and 300 in `best`, or all "
        "directions where there are fewer.",
        panel="Model",
        is_parameter=True,
    )
    method: Method = declare(
        Choice(METHODS),
        "rembrandt",
        help="Method of the label embedding.",
        note="Those other than `rembrandt` are for comparison.",
        panel="Model",
        is_parameter=True,
    )
    ridge: Any = declare(
        Number(0),
        "auto",
        words=AUTO,
        help="Ridge penalty of the embedding's regression.",
        note="Relative to the mean squared length of a feature; `auto` is 1. Smaller for few "
        "features and many examples.",
        panel="Model",
        is_parameter=True,
    )
    decoder: Any = declare(
        Choice(DECODERS),
        "auto",
        words=AUTO,
        help="From the embedding to labels.",
        note="`auto` is `ridge`, or `candidates` where features are sparse, other parts list "
        "labels and the preset does not allow a kernel. `transpose` for the smallest model, "
        "`logistic` for Algorithm 3 of the paper, `candidates` for a logistic decoder of the "
        "labels that trees and centroids propose, which costs examples × candidates instead of "
        "examples × labels.",
        panel="Model",
        is_parameter=True,
    )
    decoder_ridge: Any = declare(
        Number(0),
        "auto",
        words=AUTO,
        help="Penalty of the decoder.",
        note="Relative to the mean squared length of a mapped example; for `logistic`, of an "
        "example with whitened features. `auto` is 0.3 with a kernel and 0.1 without.",
        panel="Advanced",
        is_parameter=True,
    )
    kernel: Any = declare(
        Choice(get_args(KernelName)),
        "auto",
        words=AUTO,
        allows_none=True,
        help="Kernel of the decoder.",
        note="By random Fourier features; `None` for a linear model. `auto` is `gaussian` where "
        "the preset allows enough random features, and `None` with `growable`.",
        panel="Model",
        is_parameter=True,
    )
    normalize: Any = declare(
        Switch(),
        "auto",
        words=AUTO,
        help="Scale examples to unit length.",
        note="`auto` does so unless they have unit length already.",
        panel="Advanced",
        is_parameter=True,
    )
    growable: bool = declare(
        Switch(),
        False,
        help="Keep what exact updates need.",
        note="4 D² bytes for D mapped features. The model then has the embedding alone, with a "
        "ridge decoder.",
        panel="Model",
        is_parameter=True,
    )
    kernel_scale: float = declare(
        Number(0, above=True),
        1.0,
        help="Bandwidth of the kernel, in median distances of examples.",
        panel="Advanced",
    )
    n_random_features: int | None = declare(
        WholeNumber(1),
        None,
        allows_none=True,
        help="Number of random Fourier features of the kernel.",
        note="`None` is as many as the preset allows, 1,000 to 4,000, and at most one for two "
        "examples.",
        panel="Advanced",
    )
    label_power: Any = declare(
        Number(0, 1),
        0.0,
        words=AUTO,
        help="Divide labels by this power of their counts.",
        note="The column of a label in Y is divided by this power of its number of examples "
        "before the labels are embedded. 0 is the paper's algorithm; ¼, which is `auto`, or ½ hold "
        "rare labels better.",
        panel="Advanced",
    )
    row_power: Any = declare(
        Number(0, 1),
        0.0,
        words=AUTO,
        help="Divide examples by this power of their number of labels.",
        note="½, which is `auto`, keeps examples with many labels from dominating the embedding.",
        panel="Advanced",
    )
    label_ridge: float | None = declare(
        Number(0),
        None,
        allows_none=True,
        help="Ridge of the whitening of the labels in the method cca.",
        note="Relative to the mean squared length of a label; `None` is that of the features. "
        "Near 0 rare labels count as much as frequent ones.",
    )
    projection_ridge: float | None = declare(
        Number(0),
        None,
        allows_none=True,
        help="Ridge of the projection of the features on a finished embedding.",
        note="`None` is that of the embedding. The authors' code uses a millionth of it.",
    )
    leave_out: float = declare(
        Number(0, 1),
        0.5,
        help="Share of own labels hidden from the decoder.",
        note="It is removed from the projection of an example before the decoder is fitted. A "
        "regression on many features fits its training examples too well; the decoder should not "
        "rely on it.",
        panel="Advanced",
    )
    retrieves_labels: Any = declare(
        Switch(),
        "auto",
        words=AUTO,
        help="Search all labels for the best.",
        note="Otherwise the embedding scores the labels that other parts list, which is much "
        "faster with many labels. `auto` searches where that takes at most a millisecond for each "
        "example, or three with dense features.",
    )
    n_oversamples: int = declare(
        WholeNumber(0), 20, help="Additional columns of the randomized eigensolver."
    )
    n_iter: int = declare(
        WholeNumber(0),
        1,
        help="Power iterations of the randomized eigensolver.",
        panel="Advanced",
    )
    solver: SolverName = declare(
        Choice(("cholesky", "pcg")),
        "auto",
        words=AUTO,
        help="Solver of the ridge regressions.",
        note="`cholesky` is exact, for few features; `pcg`, conjugate gradients, is for many.",
    )
    tol: float = declare(
        Number(0), 0.02, help="Relative residual at which conjugate gradients stop."
    )
    max_iter: int = declare(
        WholeNumber(1), 10, help="Maximum number of conjugate gradient iterations."
    )
    center: bool = declare(
        Switch(),
        False,
        help="Subtract the means of features and labels.",
        note="Otherwise a constant feature is appended.",
    )
    max_epochs: int = declare(
        WholeNumber(1), 40, help="Maximum number of passes of the logistic decoder."
    )


# Powers of label counts and of numbers of labels that are "auto": the best of three pairs on
# average over ten data sets.
USUAL_LABEL_POWER = 0.25
USUAL_ROW_POWER = 0.5
# A loose tolerance is as good in a blend, in half the time.
PRESETS: dict[Preset, EmbeddingSettings] = dict.fromkeys(
    PRESET_NAMES, EmbeddingSettings(label_power="auto", row_power="auto", tol=0.25)
)
document(EmbeddingSettings, PRESETS)


def check_together(settings: EmbeddingSettings) -> None:
    """Raise SettingsError for settings that do not go together."""
    decoder = settings.decoder
    if decoder in PLAIN_DECODERS and settings.kernel not in (None, "auto", UNSET):
        raise SettingsError(f"decoder={decoder!r} does not use a kernel; set kernel=None", "kernel")
    if settings.growable is True and decoder not in ("auto", "ridge", UNSET):
        raise SettingsError(
            "growable=True needs decoder='ridge', which can be updated in closed form", "decoder"
        )
    if decoder == "candidates" and settings.retrieves_labels is True:
        raise SettingsError(
            "decoder='candidates' scores labels that other parts list; leave "
            "retrieves_labels=False",
            "decoder",
        )
    for name in ("label_power", "row_power"):
        power = getattr(settings, name)
        if settings.method == "pca" and power not in (0, "auto", UNSET):
            raise SettingsError(
                f"{name}={power!r} scales labels, and method='pca' embeds the features; use "
                f"{name}=0",
                name,
            )


def with_powers(settings: EmbeddingSettings) -> EmbeddingSettings:
    """Replace powers that are "auto"."""
    label_power = settings.label_power
    row_power = settings.row_power
    # PCA embeds the features, and updates do not know how labels were scaled.
    is_scaled = settings.method != "pca" and not settings.growable
    if label_power == "auto":
        label_power = USUAL_LABEL_POWER if is_scaled else 0.0
    if row_power == "auto":
        row_power = USUAL_ROW_POWER if is_scaled else 0.0
    return replace(settings, label_power=label_power, row_power=row_power)
