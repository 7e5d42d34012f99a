"""Settings of the matched names: there are none."""

from dataclasses import dataclass

from rembrandt.settings import PRESET_NAMES, PartSettings, Preset


@dataclass(frozen=True, repr=False)
class NameSettings(PartSettings):
    """Settings of the matched names, of which there are none."""


PRESETS: dict[Preset, NameSettings] = dict.fromkeys(PRESET_NAMES, NameSettings())
