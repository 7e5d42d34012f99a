"""A map of labels: positions in the plane, and files that hold them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rembrandt.errors import DataError
from rembrandt.estimators import RembrandtClassifier
from rembrandt.explore.layout import check_installed, lay_out
from rembrandt.explore.neighbors import scaled_vectors
from rembrandt.progress import Report, silent
from rembrandt.storage.arrays import pack_strings

_MAX_NAMES = 60  # written on a picture


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
    vectors, counts = scaled_vectors(classifier), np.asarray(classifier.label_counts_)
    known = np.flatnonzero(vectors.any(axis=1))
    if not len(known):
        raise DataError(
            "all label vectors of this model are zero; fit it with a larger n_components"
        )
    columns = known[np.argsort(-counts[known], kind="stable")[:n_labels]]
    index, listed = classifier.model_.labels, columns.tolist()
    names, titles = (
        [index.spelled(i) for i in listed],
        [(index.titles and index.titles[i]) or None for i in listed],
    )
    return LabelMap(
        columns, names, titles, counts[columns], lay_out(vectors[columns], seed, report)
    )


def write_npz(labels: LabelMap, file: BinaryIO) -> None:
    """Write the arrays ``positions``, ``counts`` and ``columns``, and the packed names."""
    arrays: dict[str, Any] = {
        "positions": labels.positions,
        "counts": labels.counts,
        "columns": labels.columns,
    }
    np.savez_compressed(file, **(arrays | pack_strings("names", labels.names)))


def write_csv(labels: LabelMap, file: BinaryIO) -> None:
    """Write a table with the columns label, title, count, x and y."""
    import pyarrow as pa
    from pyarrow import csv

    x, y = labels.positions.T
    titles = pa.array(labels.titles, pa.string())
    csv.write_csv(
        pa.table({"label": labels.names, "title": titles, "count": labels.counts, "x": x, "y": y}),
        file,
    )


def write_png(labels: LabelMap, file: BinaryIO) -> None:
    """Draw the map: larger dots for more frequent labels, and the names of some labels that do not
    overlap.
    """
    check_installed("matplotlib", "pictures")
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(
        {"text.parse_math": False}
    ):  # a $ in a label does not start a formula
        figure = Figure(figsize=(12, 12), dpi=130)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        x, y = labels.positions.T
        size = np.log10(1 + labels.counts)
        axes.scatter(x, y, s=2 + 6 * size, c=size, cmap="copper_r", linewidths=0, alpha=0.7)
        axes.set_axis_off()
        axes.set_aspect("equal")
        for i in _separated(
            labels.positions, 0.035 * float(np.ptp(labels.positions, axis=0).max())
        ):
            name = labels.titles[i] or labels.names[i]
            axes.annotate(name[:40], (x[i], y[i]), fontsize=7, ha="center", va="bottom")
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
    for i in range(min(len(positions), 20 * _MAX_NAMES)):
        if len(taken) < _MAX_NAMES and (
            not taken or np.abs(scaled[taken] - scaled[i]).max(axis=1).min() > distance
        ):
            taken.append(i)
    return taken
