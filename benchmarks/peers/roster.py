"""The programs in the table with their settings and requirements."""

from dataclasses import dataclass, field
from typing import Any

SETS = (
    "bibtex",
    "delicious",
    "cooking",
    "gutenberg",
    "nvd-products",
    "pubmed-mesh",
    "nvd-versions",
    "mesh",
    "attack",
    "icd10cm",
    "tibkat",
)


@dataclass(frozen=True)
class Environment:
    """The requirements of a virtual environment; those in ``alone`` are installed without their
    dependencies.
    """

    name: str
    requirements: tuple[str, ...]
    alone: tuple[str, ...] = ()
    measured: tuple[str, ...] = ()  # distributions whose versions are part of a result


@dataclass(frozen=True)
class Peer:
    """A row of the table: an adapter with settings. Without an environment it runs in that of this
    project.
    """

    name: str
    adapter: str
    what: str
    settings: dict[str, Any] = field(default_factory=dict)
    environment: Environment | None = None

    @property
    def slug(self) -> str:
        return "-".join("".join(c if c.isalnum() else " " for c in self.name.lower()).split())


OMIKUJI = Environment("omikuji", ("omikuji==0.5.2", "numpy", "scipy"), measured=("omikuji",))
# XR-Linear does not need torch, transformers, peft, datasets and sentencepiece, which libpecos
# requires.
PECOS = Environment(
    "libpecos", ("numpy<2", "scipy<1.14", "scikit-learn<1.7"), ("libpecos==1.2.8",), ("libpecos",)
)
NAPKINXC = Environment("napkinxc", ("napkinxc==0.7.2", "numpy", "scipy"), measured=("napkinxc",))
# This build of fastText requires NumPy 1; the package fasttext has no wheels and needs a compiler.
FASTTEXT = Environment(
    "fasttext", ("fasttext-wheel==0.9.2", "numpy<2", "scipy<1.14"), measured=("fasttext-wheel",)
)
VW = Environment(
    "vowpalwabbit", ("vowpalwabbit==9.11.9", "numpy", "scipy"), measured=("vowpalwabbit",)
)

# The settings of the demonstration of label trees in Vowpal Wabbit.
_VW = {"passes": 5, "first_label": 0, "one_label": False, "options": ["-l", "0.5"]}

PEERS = (
    Peer("omikuji", "omikuji", "three balanced label trees", {}, OMIKUJI),
    Peer(
        "omikuji bonsai",
        "omikuji",
        "three shallow label trees of branching 100",
        {"cluster_balanced": False, "cluster_k": 100, "max_depth": 3},
        OMIKUJI,
    ),
    Peer("libpecos XR-Linear", "pecos", "one label tree, rows of unit length", {}, PECOS),
    Peer("napkinXC PLT", "napkinxc", "one probabilistic label tree", {}, NAPKINXC),
    Peer(
        "fastText",
        "fasttext",
        "word vectors, from words without weights; one output per label up to 2,000 labels, a tree "
        "of outputs for more",
        {"lr": 0.5, "epoch": 25, "dim": 100},
        FASTTEXT,
    ),
    Peer("VW OAA", "vw", "online one-against-all", {**_VW, "reduction": "multilabel_oaa"}, VW),
    Peer(
        "VW LOMtree",
        "vw",
        "online multiclass tree with one training example for each label of an example; it "
        "predicts one label",
        {**_VW, "reduction": "log_multi", "first_label": 1, "one_label": True},
        VW,
    ),
    Peer(
        "VW PLT",
        "vw",
        "online probabilistic label tree",
        {**_VW, "reduction": "plt", "options": ["-l", "0.5", "--kary_tree", "16"]},
        VW,
    ),
    Peer("scikit-learn one-vs-rest", "sklearn_ovr", "LinearSVC for each label"),
    Peer("scikit-learn PLS", "sklearn_pls", "PLSRegression, 100 components", {"n_components": 100}),
    Peer("FastXML", "trees", "the implementation in benchmarks/peers", {"learner": "fastxml"}),
)


def presets() -> tuple[Peer, ...]:
    """Return the rows of Rembrandt."""
    names = ("fast", "balanced", "best")
    return tuple(
        Peer(f"Rembrandt {name}", "rembrandt", f"preset {name}", {"preset": name}) for name in names
    )


def everyone() -> tuple[Peer, ...]:
    """Return all rows, Rembrandt first."""
    return presets() + PEERS
