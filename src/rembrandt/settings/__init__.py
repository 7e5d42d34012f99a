"""How settings are declared: kind, range, default and help of each, once.

Checks of parameters, options of the command line, settings of Annif projects and the reference in
the documentation derive from the declarations. Those of the classifier are in `declarations.py`,
those of a part in the folder of the part.
"""

from rembrandt.settings.part_settings import (
    AUTO,
    PRESET_NAMES,
    PartSettings,
    Preset,
    declare,
    default_words,
    document,
)
from rembrandt.settings.setting import UNSET, Setting, as_code

__all__ = [
    "AUTO",
    "PRESET_NAMES",
    "UNSET",
    "PartSettings",
    "Preset",
    "Setting",
    "as_code",
    "declare",
    "default_words",
    "document",
]
