"""The declaration of every setting, the values of the presets, and how the two and a user's
settings are merged.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from textwrap import fill
from typing import Any, Literal, TypeVar, get_args

from rembrandt.errors import SettingsError
from rembrandt.settings.kinds import (
    Choice,
    Kind,
    Names,
    Number,
    Seconds,
    Seed,
    Switch,
    Text,
    WholeNumber,
)
from rembrandt.settings.setting import UNSET, Group, Panel, Setting

Auto = Literal["auto"]
Preset = Literal["fast", "balanced", "best"]
ScorerName = Literal["trees", "centroids", "embedding"]
Method = Literal["rembrandt", "pca", "plst", "cs", "cca"]
DecoderName = Literal["transpose", "ridge", "discriminant", "logistic", "candidates"]
KernelName = Literal["gaussian", "laplacian", "matern3", "matern5"]
SolverName = Literal["auto", "cholesky", "pcg"]
Threshold = float | Literal["micro", "macro"]
Open = Any  # a value, or "auto" until it is chosen

PRESET_NAMES: tuple[Preset, ...] = get_args(Preset)
SCORERS: tuple[ScorerName, ...] = get_args(ScorerName)  # the order in which they are fitted
METHODS: tuple[Method, ...] = get_args(Method)
DECODERS: tuple[DecoderName, ...] = get_args(DecoderName)
AUTO = ("auto",)

GENERAL: tuple[Setting, ...] = (
    Setting(
        name="preset",
        kind=Choice(PRESET_NAMES),
        default="balanced",
        help="Trade training time for accuracy.",
        note="`fast` has trees and centroids, and the embedding instead of trees where features "
        "are dense or few; `balanced` has all three scorers; `best` has more trees and tries more "
        "settings.",
        panel="Model",
    ),
    Setting(
        name="budget",
        kind=Seconds(),
        default=None,
        allows_none=True,
        help="Search this long for settings: 90s, 5m, 1h.",
        note="In Python a number of seconds. The fit comes after the search.",
        panel="Model",
    ),
    Setting(
        name="scorers",
        kind=Names(SCORERS),
        default="auto",
        words=AUTO,
        help="Parts of the model: trees, centroids, embedding.",
        note="On the command line separated by commas. `auto` has those of the preset, and those "
        "whose settings are set.",
        panel="Model",
    ),
    Setting(
        name="n_components",
        kind=WholeNumber(1),
        default="auto",
        words=AUTO,
        help="Rank of the embedding.",
        note="`auto` keeps the directions that hold nearly all of the spectrum.",
        panel="Model",
    ),
    Setting(
        name="method",
        kind=Choice(METHODS),
        default="rembrandt",
        help="Method of the label embedding.",
        note="Those other than `rembrandt` are for comparison.",
        panel="Model",
    ),
    Setting(
        name="ridge",
        kind=Number(0),
        default="auto",
        words=AUTO,
        help="Ridge penalty of the embedding's regression.",
        note="Relative to the mean squared length of a feature. Smaller for few features and many "
        "examples.",
        panel="Model",
    ),
    Setting(
        name="decoder",
        kind=Choice(DECODERS),
        default="auto",
        words=AUTO,
        help="From the embedding to labels.",
        note="`transpose` for the smallest model, `logistic` for Algorithm 3 of the paper, "
        "`candidates` for a logistic decoder of the labels that trees and centroids propose, "
        "which costs examples × candidates instead of examples × labels.",
        panel="Model",
    ),
    Setting(
        name="decoder_ridge",
        kind=Number(0),
        default="auto",
        words=AUTO,
        help="Penalty of the decoder.",
        note="Relative to the mean squared length of a mapped example; for `logistic`, of an "
        "example with whitened features.",
        panel="Advanced",
    ),
    Setting(
        name="kernel",
        kind=Choice(get_args(KernelName)),
        default="auto",
        words=AUTO,
        allows_none=True,
        help="Kernel of the decoder.",
        note="By random Fourier features; `None` for a linear model.",
        panel="Model",
    ),
    Setting(
        name="normalize",
        kind=Switch(),
        default="auto",
        words=AUTO,
        help="Scale examples to unit length.",
        note="For examples of very different lengths.",
        panel="Advanced",
    ),
    Setting(
        name="threshold",
        kind=Number(0, 1),
        default="micro",
        words=("micro", "macro"),
        help="Least probability of predicted labels; micro, macro: for the best F1.",
        note="`micro` and `macro` choose it on held-out examples, for the F1 of all labels "
        "together or of each label.",
        panel="Model",
    ),
    Setting(
        name="growable",
        kind=Switch(),
        default=False,
        help="Keep what exact updates need.",
        note="The model then has the embedding alone, with a ridge decoder.",
        panel="Model",
    ),
    Setting(
        name="random_state",
        kind=Seed(),
        default=None,
        allows_none=True,
        help="Random seed; the same seed gives the same result.",
        note="On the command line and in Annif it is 0 by default.",
        panel="Model",
        flat_name="seed",
    ),
    Setting(
        name="device",
        kind=Text(),
        default="cpu",
        help="cpu, cuda, cuda:1, several separated by commas, or auto.",
        note="For a store also `dask` or `dask:tcp://host:port`.",
        panel="Model",
    ),
)


def _field(
    kind: Kind,
    default: Any,
    help: str,
    note: str = "",
    words: tuple[str, ...] = (),
    allows_none: bool = False,
    panel: Panel | None = None,
) -> Any:
    """Return a field that is unset by default, with the declaration of its setting."""
    setting = Setting(
        kind=kind,
        default=default,
        help=help,
        note=note,
        words=words,
        allows_none=allows_none,
        panel=panel,
    )
    return field(default=UNSET, metadata={"setting": setting})


class PartSettings:
    """Base class of the settings of a part of a model."""

    def __repr__(self) -> str:
        values = [f"{name}={value!r}" for name, value in set_values(self).items()]
        return f"{type(self).__name__}({', '.join(values)})"


@dataclass(frozen=True, repr=False)
class EmbeddingSettings(PartSettings):
    """Rarely used settings of the label embedding and its decoder.

    A setting that is not given has the value of the preset.
    """

    kernel_scale: Open = _field(
        Number(0, above=True),
        "auto",
        words=AUTO,
        help="Bandwidth of the kernel, in median distances of examples.",
        panel="Advanced",
    )
    n_random_features: int | None = _field(
        WholeNumber(1),
        None,
        allows_none=True,
        help="Number of random Fourier features of the kernel.",
        note="`None` chooses 1,000 to 4,000 by the number of examples and the preset.",
        panel="Advanced",
    )
    label_power: Open = _field(
        Number(0, 1),
        0.0,
        words=AUTO,
        help="Divide labels by this power of their counts.",
        note="The column of a label in Y is divided by this power of its number of examples "
        "before the labels are embedded. 0 is the paper's algorithm; ¼ or ½ hold rare labels "
        "better. `auto` chooses on held-out examples.",
        panel="Advanced",
    )
    row_power: Open = _field(
        Number(0, 1),
        0.0,
        words=AUTO,
        help="Divide examples by this power of their number of labels.",
        note="½ keeps examples with many labels from dominating the embedding.",
        panel="Advanced",
    )
    label_ridge: float | None = _field(
        Number(0),
        None,
        allows_none=True,
        help="Ridge of the whitening of the labels in the method cca.",
        note="Relative to the mean squared length of a label; `None` is that of the features. "
        "Near 0 rare labels count as much as frequent ones.",
    )
    projection_ridge: float | None = _field(
        Number(0),
        None,
        allows_none=True,
        help="Ridge of the projection of the features on a finished embedding.",
        note="`None` is that of the embedding. The authors' code uses a millionth of it.",
    )
    leave_out: Open = _field(
        Number(0, 1),
        "auto",
        words=AUTO,
        help="Share of own labels hidden from the decoder.",
        note="It is removed from the projection of an example before the decoder is fitted. A "
        "regression on many features fits its training examples too well; the decoder should not "
        "rely on it.",
        panel="Advanced",
    )
    proposes: Open = _field(
        Switch(),
        "auto",
        words=AUTO,
        help="Search all labels for the best.",
        note="Otherwise the embedding scores the labels that other scorers propose, which is much "
        "faster with many labels. `auto` searches up to some ten thousand labels.",
    )
    n_oversamples: int = _field(
        WholeNumber(0), 20, help="Additional columns of the randomized eigensolver."
    )
    n_iter: int = _field(
        WholeNumber(0),
        1,
        help="Power iterations of the randomized eigensolver.",
        panel="Advanced",
    )
    solver: SolverName = _field(
        Choice(("cholesky", "pcg")),
        "auto",
        words=AUTO,
        help="Solver of the ridge regressions.",
        note="`cholesky` is exact, for few features; `pcg`, conjugate gradients, is for many.",
    )
    tol: float = _field(
        Number(0), 0.02, help="Relative residual at which conjugate gradients stop."
    )
    max_iter: int = _field(
        WholeNumber(1), 10, help="Maximum number of conjugate gradient iterations."
    )
    center: bool = _field(
        Switch(),
        False,
        help="Subtract the means of features and labels.",
        note="Otherwise a constant feature is appended.",
    )
    max_epochs: int = _field(
        WholeNumber(1), 40, help="Maximum number of passes of the logistic decoder."
    )


@dataclass(frozen=True, repr=False)
class TreeSettings(PartSettings):
    """Settings of the trees of sparse linear classifiers.

    A setting that is not given has the value of the preset.
    """

    n_trees: Open = _field(
        WholeNumber(1),
        "auto",
        words=AUTO,
        help="Number of trees.",
        note="Each has its own clusters of labels, and their scores are averaged. `auto` is that "
        "of the preset; fewer for a large store, whose trees would not fit in memory.",
        panel="Advanced",
    )
    pairs: Open = _field(
        Number(0, above=True),
        "auto",
        words=AUTO,
        help="Examples × nodes on a tree's first level.",
        note="Larger is slower and more accurate. Where all examples × labels fit into it, there "
        "are no clusters and each label is learned against all examples. `auto` is that of the "
        "preset; `fast` lowers it for rows with many non-zero features.",
        panel="Advanced",
    )
    cost: Open = _field(
        Number(0, above=True),
        "auto",
        words=AUTO,
        help="Weight of the loss against the penalty.",
        note="The C of the squared hinge loss.",
        panel="Advanced",
    )
    power: float = _field(
        Number(0, above=True), 3.0, help="Power of the hinge in the probability of a node."
    )
    threshold: float = _field(
        Number(0),
        0.1,
        help="Weights smaller than this are dropped.",
        note="With a cost below 1, those smaller than this times the cost.",
    )
    tolerance: float = _field(
        Number(0, above=True),
        0.2,
        help="Projected gradient at which coordinate descent stops.",
    )
    passes: Open = _field(
        WholeNumber(1),
        "auto",
        words=AUTO,
        help="Passes over the examples of a node.",
        note="Few passes stop early, which helps where labels have few examples. `auto` tries 6 "
        "and 12 on held-out examples where labels are clustered, and is 6 where they are not; 10 "
        "where the cost is set.",
        panel="Advanced",
    )
    beam: int = _field(
        WholeNumber(1), 10, help="Number of clusters that prediction visits for each row."
    )


Part = TypeVar("Part", EmbeddingSettings, TreeSettings)


def set_values(settings: Any) -> dict[str, Any]:
    """Return the settings of a part that are set, by name."""
    return {name: value for name, value in vars(settings).items() if value is not UNSET}


def _declared(part: type[Part], group: Group) -> tuple[Setting, ...]:
    """Return the declarations of the fields of a part."""
    settings = []
    for part_field in fields(part):
        name = part_field.name
        flat_name = name
        if group == "trees" and name != "n_trees":
            flat_name = f"tree_{name}"
        declaration: Setting = part_field.metadata["setting"]
        settings.append(replace(declaration, name=name, group=group, flat_name=flat_name))
    return tuple(settings)


EMBEDDING = _declared(EmbeddingSettings, "embedding")
TREES = _declared(TreeSettings, "trees")
SETTINGS: tuple[Setting, ...] = GENERAL + EMBEDDING + TREES
FLAT: dict[str, Setting] = {setting.flat_name: setting for setting in SETTINGS}

_DEFAULTS: dict[type, Any] = {
    EmbeddingSettings: EmbeddingSettings(**{each.name: each.default for each in EMBEDDING}),
    TreeSettings: TreeSettings(**{each.name: each.default for each in TREES}),
}
# What presets set. A loose tolerance is as good in a blend, in half the time.
PRESET_EMBEDDING: dict[Preset, EmbeddingSettings] = dict.fromkeys(
    PRESET_NAMES, EmbeddingSettings(label_power="auto", row_power="auto", tol=0.25)
)
PRESET_TREES: dict[Preset, TreeSettings] = {
    "fast": TreeSettings(n_trees=3, pairs=3e7),
    "balanced": TreeSettings(n_trees=5, pairs=3e7),
    "best": TreeSettings(n_trees=8, pairs=3e8),
}


def merged(settings: Part, overriding: Part | None) -> Part:
    """Return ``settings`` with the values that are set in ``overriding``.

    Parameters
    ----------
    settings : EmbeddingSettings or TreeSettings
        Settings, such as those of a preset.
    overriding : EmbeddingSettings, TreeSettings or None
        Settings of the same part that take precedence. None is the same as nothing set.

    Returns
    -------
    EmbeddingSettings or TreeSettings
    """
    if overriding is None:
        return settings
    return replace(settings, **set_values(overriding))


def with_defaults(settings: Part) -> Part:
    """Return ``settings`` with the declared default of each setting that is not set."""
    defaults: Part = _DEFAULTS[type(settings)]
    return merged(defaults, settings)


def preset_values(setting: Setting) -> dict[Preset, Any]:
    """Return the value that a setting has in each preset if a user does not set it."""
    values: dict[Preset, Any] = {}
    for preset in PRESET_NAMES:
        if setting.group == "embedding":
            embedding = with_defaults(PRESET_EMBEDDING[preset])
            values[preset] = getattr(embedding, setting.name)
        elif setting.group == "trees":
            trees = with_defaults(PRESET_TREES[preset])
            values[preset] = getattr(trees, setting.name)
        else:
            values[preset] = setting.default
    return values


# LabelEmbedder has some fields of EmbeddingSettings as parameters.
_PARAMETERS = {setting.name: setting for setting in EMBEDDING + GENERAL}
_PARTS: dict[str, tuple[type, tuple[Setting, ...]]] = {
    "embedding": (EmbeddingSettings, EMBEDDING),
    "trees": (TreeSettings, TREES),
}


def check_values(params: Mapping[str, Any]) -> None:
    """Raise SettingsError for a parameter of an estimator that is out of range.

    Parameters that are no settings, such as ``text``, are not checked.
    """
    for name, value in params.items():
        if name in _PARAMETERS:
            _PARAMETERS[name].check(value)
    for name, (part, settings) in _PARTS.items():
        value = params.get(name)
        if value is None:
            continue
        if not isinstance(value, part):
            raise SettingsError(f"{name}={value!r} must be None or {part.__name__}(...)", name)
        for setting in settings:
            part_value = getattr(value, setting.name)
            if part_value is not UNSET:
                setting.check(part_value)


def default_words(setting: Setting) -> str:
    """Return the default as code; where presets differ, with the preset of each value."""
    values = preset_values(setting)
    first, *others = values.values()
    if all(value == first for value in others):
        return _code(first)
    return ", ".join(f"{_code(value)} ({preset})" for preset, value in values.items())


def _code(value: Any) -> str:
    """Return a value as Python code, with short numbers and double quotes."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, float):
        return f"{value:g}".replace("e+0", "e")
    return repr(value)


def _parameters_section(settings: tuple[Setting, ...]) -> str:
    """Return the section with the parameters of a docstring."""
    lines = ["", "    Parameters", "    ----------"]
    for setting in settings:
        lines.append(f"    {setting.name} : {setting.type_words}, default={default_words(setting)}")
        indent = " " * 8
        lines.append(
            fill(setting.description, 100, initial_indent=indent, subsequent_indent=indent)
        )
    return "\n".join([*lines, "    "])


for _part, _settings in _PARTS.values():
    _part.__doc__ = f"{_part.__doc__ or ''}{_parameters_section(_settings)}"
