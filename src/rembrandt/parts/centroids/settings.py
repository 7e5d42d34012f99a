"""Settings of the label centroids: there are none."""

from dataclasses import dataclass

from rembrandt.settings import PRESET_NAMES, PartSettings, Preset


@dataclass(frozen=True, repr=False)
class CentroidSettings(PartSettings):
    """Settings of the label centroids, of which there are none."""


PRESETS: dict[Preset, CentroidSettings] = dict.fromkeys(PRESET_NAMES, CentroidSettings())
