"""Settings of the trees of sparse linear classifiers."""

from dataclasses import dataclass
from typing import Any

from rembrandt.settings import AUTO, PartSettings, Preset, declare, document
from rembrandt.settings.kinds import Choice, Number, WholeNumber


@dataclass(frozen=True, repr=False)
class TreeSettings(PartSettings):
    """Settings of the trees of sparse linear classifiers.

    A setting that is not given has the value of the preset.
    """

    n_trees: Any = declare(
        WholeNumber(1),
        "auto",
        words=AUTO,
        help="Number of trees.",
        note="Each has its own clusters of labels, and their scores are averaged. `auto` is that "
        "of the preset; fewer where the weights would take more memory than the preset allows.",
        panel="Advanced",
    )
    max_example_node_pairs: Any = declare(
        Number(0, above=True),
        "auto",
        words=AUTO,
        help="Examples × nodes on a tree's first level.",
        note="Larger is slower and more accurate. Where all examples × labels fit into it, there "
        "are no clusters and each label is learned against all examples. `auto` is what the "
        "preset allows for rows with as many non-zero features.",
        panel="Advanced",
    )
    label_features: Any = declare(
        Choice(("own", "all")),
        "auto",
        words=AUTO,
        help="Features that a label has weights of.",
        note="`own`: those of its own examples. `all`: those of all examples that it learns from. "
        "`auto` is `all` where examples have one label, rounded, so that words of other labels "
        "are evidence against a label, and otherwise `own`.",
    )
    cost: float = declare(
        Number(0, above=True),
        1.0,
        help="Weight of the loss against the penalty.",
        note="The C of the squared hinge loss.",
        panel="Advanced",
    )
    power: float = declare(
        Number(0, above=True), 3.0, help="Power of the hinge in the probability of a node."
    )
    prune_below: float = declare(
        Number(0),
        0.1,
        help="Weights smaller than this are dropped.",
        note="With a cost below 1, those smaller than this times the cost.",
    )
    tolerance: float = declare(
        Number(0, above=True),
        0.2,
        help="Projected gradient at which coordinate descent stops.",
    )
    passes: Any = declare(
        WholeNumber(1),
        "auto",
        words=AUTO,
        help="Passes over the examples of a node, at most.",
        note="`auto` is 4, and 12 where labels have weights of all features.",
        panel="Advanced",
    )
    beam: int = declare(
        WholeNumber(1), 10, help="Number of clusters that prediction visits for each row."
    )


PRESETS: dict[Preset, TreeSettings] = {
    "fast": TreeSettings(),
    "balanced": TreeSettings(),
    "best": TreeSettings(),
}
document(TreeSettings, PRESETS)
