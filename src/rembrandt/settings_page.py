"""The reference of all settings in the documentation.

``python -m rembrandt.settings_page > docs/settings.md`` writes the page.
"""

from rembrandt.declarations import GENERAL, PART_SETTINGS, default_of
from rembrandt.settings import Setting

_INTRODUCTION = """\
# Settings

<!-- This page is written by: python -m rembrandt.settings_page > docs/settings.md -->

A setting that you do not set has the value of the preset. `EmbeddingSettings(n_iter=2)` and
`--n-iter 2` change `n_iter` alone, and `EmbeddingSettings()` is the same as `None`. What is
`"auto"` follows from the preset and the data, as its row says. Settings of the embedding that are
marked † are also parameters of `RembrandtClassifier`: `n_components=50` is the same as
`embedding=EmbeddingSettings(n_components=50)`. The [glossary](glossary.md) explains
the words.

In an [Annif project](annif.md) every setting has the name of its option with underscores
(`n_components`, `seed`, `tree_cost`). Those without an option have their own name, and fields of
`TreeSettings` begin with `tree_`, apart from `n_trees`, and those of `EncoderSettings` with
`encoder_`, apart from `name`, which is `encoder`, and `include_encoder`.
"""
_SECTIONS = (
    ("Parameters of `RembrandtClassifier`", GENERAL),
    ("Fields of `EmbeddingSettings`", PART_SETTINGS["embedding"]),
    ("Fields of `TreeSettings`", PART_SETTINGS["trees"]),
    ("Fields of `EncoderSettings`", PART_SETTINGS["encoder"]),
)
_HEADER = """\
| setting | values | default | command line | meaning |
|---|---|---|---|---|
"""


def settings_page() -> str:
    """Return the page with a table of all settings."""
    sections = [_INTRODUCTION]
    for title, settings in _SECTIONS:
        rows = [_row(setting) for setting in settings]
        sections.append(f"## {title}\n\n{_HEADER}{''.join(rows)}")
    return "\n".join(sections)


def _row(setting: Setting) -> str:
    """Return a row of a table."""
    option = ""
    if setting.option is not None:
        option = f"`{setting.option}`"
    values = setting.expected.replace("'", '"')
    default = default_of(setting)
    mark = " †" if setting.is_parameter else ""
    cells = [f"`{setting.name}`{mark}", values, default, option, setting.description]
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    print(settings_page(), end="")
