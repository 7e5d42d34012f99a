"""A map of labels: positions in the plane, and files that hold them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rembrandt.errors import DataError
from rembrandt.estimators import RembrandtClassifier
from rembrandt.explore.cells import harmless_cell
from rembrandt.explore.layout import check_installed, lay_out
from rembrandt.explore.neighbors import scaled_vectors
from rembrandt.progress import Report, silent
from rembrandt.storage.arrays import pack_strings

# On a picture.
_MAX_NAMES = 60
_MAX_NAME_CHARACTERS = 40
_NAME_DISTANCE = 0.035  # between two names, as a fraction of the size of the map


@dataclass(frozen=True)
class LabelMap:
    """Labels in the plane, the most frequent first."""

    columns: NDArray[np.int64]  # of the model
    names: list[str]
    titles: list[str | None]
    counts: NDArray[Any]  # in training
    positions: NDArray[np.float32]  # n × 2


def label_map(
    classifier: RembrandtClassifier,
    n_labels: int | None = None,
    seed: int = 0,
    report: Report = silent,
) -> LabelMap:
    """Compute a map of the labels of a classifier.

    Parameters
    ----------
    classifier : RembrandtClassifier
        A fitted classifier.
    n_labels : int, optional
        Number of labels, the most frequent ones; all by default. Labels whose vector is zero are
        left out.
    seed : int, default=0
        The same seed gives the same map.
    report : callable, optional
        Called as ``report(stage, done, total)``.

    Returns
    -------
    LabelMap
        The labels and their positions.
    """
    vectors = scaled_vectors(classifier)
    counts = np.asarray(classifier.label_counts_)
    embedded = np.flatnonzero(vectors.any(axis=1))
    if not len(embedded):
        raise DataError(
            "all label vectors of this model are zero; fit it with a larger n_components"
        )
    by_frequency = np.argsort(-counts[embedded], kind="stable")
    columns = embedded[by_frequency[:n_labels]]
    index = classifier.model_.labels
    names = [index.spelled(column) for column in columns.tolist()]
    titles: list[str | None] = [None] * len(columns)
    if index.titles:
        titles = [index.titles[column] or None for column in columns.tolist()]
    positions = lay_out(vectors[columns], seed, report)
    return LabelMap(columns, names, titles, counts[columns], positions)


def write_npz(labels: LabelMap, file: BinaryIO) -> None:
    """Write the arrays ``positions``, ``counts`` and ``columns``, and the packed names."""
    arrays: dict[str, Any] = {
        "positions": labels.positions,
        "counts": labels.counts,
        "columns": labels.columns,
    }
    arrays |= pack_strings("names", labels.names)
    np.savez_compressed(file, **arrays)


def write_csv(labels: LabelMap, file: BinaryIO, verbatim_cells: bool = False) -> None:
    """Write a table with the columns label, title, count, x and y.

    Texts that a spreadsheet would run are changed, unless ``verbatim_cells`` is set.
    """
    import pyarrow as pa
    from pyarrow import csv

    names = labels.names
    titles = labels.titles
    if not verbatim_cells:
        names = [harmless_cell(name) for name in names]
        titles = [None if title is None else harmless_cell(title) for title in titles]
    x, y = labels.positions.T
    columns = {
        "label": names,
        "title": pa.array(titles, pa.string()),
        "count": labels.counts,
        "x": x,
        "y": y,
    }
    csv.write_csv(pa.table(columns), file)


def write_png(labels: LabelMap, file: BinaryIO) -> None:
    """Draw the map: larger dots for more frequent labels, and the names of some labels that do not
    overlap.
    """
    check_installed("matplotlib", "pictures")
    import matplotlib
    from matplotlib.figure import Figure

    extent = float(np.ptp(labels.positions, axis=0).max())
    # A $ in a label does not start a formula.
    with matplotlib.rc_context({"text.parse_math": False}):
        figure = Figure(figsize=(12, 12), dpi=130)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        x, y = labels.positions.T
        size = np.log10(1 + labels.counts)
        axes.scatter(x, y, s=2 + 6 * size, c=size, cmap="copper_r", linewidths=0, alpha=0.7)
        axes.set_axis_off()
        axes.set_aspect("equal")
        for i in _separated(labels.positions, _NAME_DISTANCE * extent):
            name = labels.titles[i] or labels.names[i]
            short = name[:_MAX_NAME_CHARACTERS]
            axes.annotate(short, (x[i], y[i]), fontsize=7, ha="center", va="bottom")
        figure.savefig(file, format="png", facecolor="white")


WRITERS: dict[str, Callable[[LabelMap, BinaryIO], None]] = {
    ".csv": write_csv,
    ".npz": write_npz,
    ".png": write_png,
}


def _separated(positions: NDArray[np.float32], distance: float) -> list[int]:
    """Return the first rows that keep a distance from each other, three times larger in x because
    names are wide.
    """
    taken: list[int] = []
    scaled = positions / np.array([3.0, 1.0])
    n_candidates = min(len(positions), 20 * _MAX_NAMES)
    for i in range(n_candidates):
        if len(taken) == _MAX_NAMES:
            break
        distances = np.abs(scaled[taken] - scaled[i]).max(axis=1)
        if distances.min(initial=np.inf) > distance:
            taken.append(i)
    return taken
