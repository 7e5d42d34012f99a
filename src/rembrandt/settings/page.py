"""The reference of all settings in the documentation.

``python -m rembrandt.settings.page > docs/settings.md`` writes the page.
"""

from rembrandt.settings.declarations import EMBEDDING, GENERAL, TREES, default_words
from rembrandt.settings.setting import Setting

_INTRODUCTION = """\
# Settings

<!-- This page is written by: python -m rembrandt.settings.page > docs/settings.md -->

A setting that you do not set has the value of the preset. `EmbeddingSettings(n_iter=2)` and
`--n-iter 2` change `n_iter` alone, and `EmbeddingSettings()` is the same as `None`. What is
`"auto"` is chosen on held-out examples, or by the rule in its row.

In an [Annif project](annif.md) every setting has the name of its option with underscores
(`n_components`, `seed`, `tree_cost`). Those without an option have their own name, and fields of
`TreeSettings` begin with `tree_`, apart from `n_trees`.
"""
_SECTIONS = (
    ("Parameters of `RembrandtClassifier`", GENERAL),
    ("Fields of `EmbeddingSettings`", EMBEDDING),
    ("Fields of `TreeSettings`", TREES),
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
    default = default_words(setting)
    cells = [f"`{setting.name}`", values, default, option, setting.description]
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    print(settings_page(), end="")
