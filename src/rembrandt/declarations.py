"""All settings: those of the classifier, and those of every part.

Checks of parameters, options of the command line, settings of Annif projects and the reference in
the documentation derive from the declarations.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from rembrandt.errors import SettingsError
from rembrandt.parts.centroids.settings import PRESETS as CENTROID_PRESETS
from rembrandt.parts.centroids.settings import CentroidSettings
from rembrandt.parts.embedding.settings import PRESETS as EMBEDDING_PRESETS
from rembrandt.parts.embedding.settings import EmbeddingSettings
from rembrandt.parts.encoder.settings import PRESETS as ENCODER_PRESETS
from rembrandt.parts.encoder.settings import EncoderSettings, name_of
from rembrandt.parts.names.settings import PRESETS as NAME_PRESETS
from rembrandt.parts.names.settings import NameSettings
from rembrandt.parts.trees.settings import PRESETS as TREE_PRESETS
from rembrandt.parts.trees.settings import TreeSettings
from rembrandt.settings import (
    AUTO,
    PRESET_NAMES,
    UNSET,
    PartSettings,
    Preset,
    Setting,
    as_code,
    default_words,
)
from rembrandt.settings.kinds import Choice, Names, Number, Seconds, Seed, Text
from rembrandt.settings.view_names import FEATURES

FeaturePartName = Literal["trees", "centroids", "embedding"]
PartName = FeaturePartName | Literal["names"]
Threshold = float | Literal["micro", "macro"]

# The parts that read the features, in the order in which they are fitted, and one that reads the
# texts.
PART_NAMES: tuple[FeaturePartName, ...] = get_args(FeaturePartName)
NAMES: PartName = "names"
SETTINGS_TYPES: dict[str, type[PartSettings]] = {
    "trees": TreeSettings,
    "centroids": CentroidSettings,
    "embedding": EmbeddingSettings,
    "encoder": EncoderSettings,
    NAMES: NameSettings,
}
PART_PRESETS: dict[str, Mapping[Preset, PartSettings]] = {
    "trees": TREE_PRESETS,
    "centroids": CENTROID_PRESETS,
    "embedding": EMBEDDING_PRESETS,
    "encoder": ENCODER_PRESETS,
    NAMES: NAME_PRESETS,
}

GENERAL: tuple[Setting, ...] = (
    Setting(
        name="preset",
        kind=Choice(PRESET_NAMES),
        default="balanced",
        help="Trade training time for accuracy.",
        note="A preset is an allowance for the work of a fit: how many trees, and how much the "
        "other parts may cost next to them.",
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
        name="parts",
        kind=Names((*PART_NAMES, NAMES)),
        default="auto",
        words=AUTO,
        help="Parts of the model: trees, centroids, embedding, names.",
        note="On the command line separated by commas. `auto` has those that the preset allows, "
        "and those whose settings are set; names where the names of labels occur in their texts.",
        panel="Model",
    ),
    Setting(
        name="threshold",
        kind=Number(0, 1),
        default="micro",
        words=("micro", "macro"),
        help="Minimum probability of predicted labels, or the one with the best micro or macro F1.",
        note="`micro` and `macro` choose it on held-out examples, for the F1 of all labels "
        "together or of each label.",
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
PART_SETTINGS: dict[str, tuple[Setting, ...]] = {
    "embedding": EmbeddingSettings.declared("embedding"),
    "trees": TreeSettings.declared("trees", prefix="tree_"),
    "encoder": EncoderSettings.declared("encoder", prefix="encoder_"),
}
SETTINGS: tuple[Setting, ...] = (
    *GENERAL,
    *PART_SETTINGS["embedding"],
    *PART_SETTINGS["trees"],
    *PART_SETTINGS["encoder"],
)
FLAT: dict[str, Setting] = {setting.flat_name: setting for setting in SETTINGS}
# Settings of a part that are parameters of the classifier.
PARAMETERS: dict[str, Setting] = {
    setting.name: setting for setting in SETTINGS if setting.is_parameter
}


def default_of(setting: Setting) -> str:
    """Return the default of a setting as code; where presets differ, with that of each."""
    if setting.group:
        return default_words(setting, PART_PRESETS[setting.group])
    return as_code(setting.default)


def preset_values(setting: Setting) -> dict[Preset, Any]:
    """Return the value that a setting has in each preset if a user does not set it."""
    if not setting.group:
        return dict.fromkeys(PRESET_NAMES, setting.default)
    return {
        preset: getattr(settings.with_defaults(), setting.name)
        for preset, settings in PART_PRESETS[setting.group].items()
    }


def check_values(params: Mapping[str, Any]) -> None:
    """Raise SettingsError for a parameter of an estimator that is out of range.

    Parameters that are no settings, such as ``text``, are not checked.
    """
    declared = {setting.name: setting for setting in (*PART_SETTINGS["embedding"], *GENERAL)}
    for name, value in params.items():
        if name in declared:
            declared[name].check(value)
    for name in PART_SETTINGS:
        value = params.get(name)
        if value is None:
            continue
        settings_of(name, value).check()


def settings_of(name: str, value: Any) -> PartSettings:
    """Return the settings of a part that a parameter of the classifier stands for."""
    settings_type = SETTINGS_TYPES[name]
    if value is None:
        return settings_type()
    try:
        return settings_type.of(value)
    except SettingsError as cause:
        raise SettingsError(f"{name}={cause}", name) from cause


def user_settings(params: Mapping[str, Any]) -> dict[str, PartSettings]:
    """Return what the parameters of a classifier set of each part, and nothing else.

    A parameter that has its default is not set. One that is given both as a parameter and in the
    settings of its part is refused.
    """
    given: dict[str, PartSettings] = {}
    for name in SETTINGS_TYPES:
        given[name] = settings_of(name, params.get(name))
    for name, setting in PARAMETERS.items():
        value = params[name]
        if type(value) is type(setting.default) and value == setting.default:
            continue
        settings = given[setting.group]
        if getattr(settings, name) is not UNSET:
            raise SettingsError(
                f"{name} is given twice, as a parameter and in {setting.group}=; give it once",
                name,
            )
        given[setting.group] = replace(settings, **{name: value})
    return given


def preset_settings(name: str, preset: Preset, user: PartSettings) -> PartSettings:
    """Merge the settings of a part: those of the user, then of the preset, then the defaults."""
    return PART_PRESETS[name][preset].overridden_by(user).with_defaults()


@dataclass(frozen=True)
class PartSpec:
    """A part of a model: its kind, the view that it reads, and its complete settings."""

    kind: str
    settings: Any
    view: str = FEATURES

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "view": self.view, "settings": as_json(vars(self.settings))}

    @classmethod
    def from_json(cls, facts: Any) -> "PartSpec":
        """Rebuild what `to_json` returned, and check it."""
        kind = facts["kind"]
        if kind not in SETTINGS_TYPES or not isinstance(facts["view"], str):
            raise SettingsError(f"{kind!r} is not a part of a model", "parts")
        return cls(kind, SETTINGS_TYPES[kind].from_json(facts["settings"]), facts["view"])


@dataclass(frozen=True)
class ModelSettings:
    """Every setting that a fit depends on: complete, with nothing left to choose."""

    parts: dict[str, PartSpec]  # by name, in the order in which they are fitted
    threshold: Threshold = "micro"
    seed: int = 0
    preset: Preset = "balanced"

    def with_part(self, name: str, settings: PartSettings) -> "ModelSettings":
        """Return the settings with those of one part replaced."""
        spec = replace(self.parts[name], settings=settings)
        return replace(self, parts=self.parts | {name: spec})

    def with_parts(self, names: list[str]) -> "ModelSettings":
        """Return the settings of a model with some of the parts."""
        return replace(self, parts={name: self.parts[name] for name in names})

    def to_json(self) -> dict[str, Any]:
        parts = {name: spec.to_json() for name, spec in self.parts.items()}
        return {
            "preset": self.preset,
            "parts": parts,
            "threshold": as_json(self.threshold),
            "seed": self.seed,
        }

    @classmethod
    def from_json(cls, facts: Any) -> "ModelSettings":
        """Rebuild what `to_json` returned, and check it."""
        try:
            parts = {str(name): PartSpec.from_json(spec) for name, spec in facts["parts"].items()}
            values = {name: facts[name] for name in ("preset", "threshold")}
            seed = facts["seed"]
        except (KeyError, TypeError, AttributeError) as cause:
            raise SettingsError(f"these are not the settings of a model: {cause}") from cause
        check_values(values | {"random_state": seed})
        if seed is None:
            raise SettingsError("seed=None must be an integer of at least 0", "seed")
        if not parts:
            raise SettingsError("a model has at least one part", "parts")
        return cls(parts=parts, seed=int(seed), **values)


def as_json(value: Any) -> Any:
    """Return a parameter as JSON: settings and mappings as dicts, without settings that are not
    set, and numbers of NumPy as those of Python.
    """
    if isinstance(value, PartSettings):
        value = value.set_values()
    if isinstance(value, Mapping):
        return {name: as_json(item) for name, item in value.items() if item is not UNSET}
    if callable(getattr(value, "encode", None)) and not isinstance(value, str):
        return name_of(value)
    if hasattr(value, "dtype"):
        return value.item()
    return value
