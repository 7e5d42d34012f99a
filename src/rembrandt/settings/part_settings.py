"""Settings of a part of a model: how they are declared, which are set, and how they are merged."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from textwrap import fill
from typing import Any, Literal, Self, get_args

from rembrandt.errors import SettingsError
from rembrandt.settings.kinds import Kind
from rembrandt.settings.setting import UNSET, Panel, Setting, as_code

Preset = Literal["fast", "balanced", "best"]

PRESET_NAMES: tuple[Preset, ...] = get_args(Preset)
AUTO = ("auto",)


def declare(
    kind: Kind,
    default: Any,
    help: str,
    note: str = "",
    words: tuple[str, ...] = (),
    allows_none: bool = False,
    panel: Panel | None = None,
    is_parameter: bool = False,
    flat_name: str = "",
) -> Any:
    """Return a field of `PartSettings` that is unset by default, with the declaration of its
    setting.

    ``is_parameter`` says that the setting is a parameter of `RembrandtClassifier` too;
    ``flat_name`` is its name where all settings stand next to each other, where it is not that of
    the field with the name of the part.
    """
    setting = Setting(
        kind=kind,
        default=default,
        help=help,
        note=note,
        words=words,
        allows_none=allows_none,
        panel=panel,
        is_parameter=is_parameter,
        flat_name=flat_name,
    )
    return field(default=UNSET, metadata={"setting": setting})


@dataclass(frozen=True, repr=False)
class PartSettings:
    """Base class of the settings of a part of a model. A field that is not given is unset."""

    def __repr__(self) -> str:
        values = [f"{name}={value!r}" for name, value in self.set_values().items()]
        return f"{type(self).__name__}({', '.join(values)})"

    @classmethod
    def declared(cls, group: str, prefix: str = "") -> tuple[Setting, ...]:
        """Return the declarations of the fields.

        ``prefix`` distinguishes their names where all settings stand next to each other. A field
        that contains the name of its part needs none.
        """
        settings = []
        for declared_field in fields(cls):
            name = declared_field.name
            declaration: Setting = declared_field.metadata["setting"]
            flat_name = declaration.flat_name or name
            if not declaration.flat_name and group not in name:
                flat_name = f"{prefix}{name}"
            settings.append(replace(declaration, name=name, group=group, flat_name=flat_name))
        return tuple(settings)

    @classmethod
    def of(cls, value: Any) -> Self:
        """Return the settings that a parameter of `RembrandtClassifier` stands for."""
        if not isinstance(value, cls):
            name = cls.__name__
            raise SettingsError(f"{value!r} must be None or {name}(...)")
        return value

    def set_values(self) -> dict[str, Any]:
        """Return the settings that are set, by name."""
        return {name: value for name, value in vars(self).items() if value is not UNSET}

    def overridden_by(self, other: Self | None) -> Self:
        """Return these settings with the values that are set in ``other``."""
        if other is None:
            return self
        return replace(self, **other.set_values())

    def with_defaults(self) -> Self:
        """Return these settings with the declared default of each setting that is not set."""
        defaults = {}
        for declared_field in fields(self):
            if getattr(self, declared_field.name) is UNSET:
                defaults[declared_field.name] = declared_field.metadata["setting"].default
        return replace(self, **defaults)

    def check(self) -> None:
        """Raise SettingsError for a setting that is out of range."""
        for setting in self.declared(""):
            value = getattr(self, setting.name)
            if value is not UNSET:
                setting.check(value)

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """Rebuild settings from JSON, and check them."""
        try:
            settings = cls(**values)
        except TypeError as cause:
            raise SettingsError(f"these are not the settings of a part: {cause}") from cause
        settings.check()
        return settings


def default_words(setting: Setting, presets: Mapping[Preset, PartSettings]) -> str:
    """Return the default as code; where presets differ, with the preset of each value."""
    values = {
        preset: getattr(settings.with_defaults(), setting.name)
        for preset, settings in presets.items()
    }
    first, *others = values.values()
    if all(value == first for value in others):
        return as_code(first)
    return ", ".join(f"{as_code(value)} ({preset})" for preset, value in values.items())


def document(part: type[PartSettings], presets: Mapping[Preset, PartSettings]) -> None:
    """Append the section with the parameters to the docstring of the settings of a part."""
    lines = ["", "    Parameters", "    ----------"]
    indent = " " * 8
    for setting in part.declared(""):
        default = default_words(setting, presets)
        lines.append(f"    {setting.name} : {setting.type_words}, default={default}")
        description = fill(
            setting.description, 100, initial_indent=indent, subsequent_indent=indent
        )
        lines.append(description)
    part.__doc__ = "\n".join([part.__doc__ or "", *lines, "    "])
