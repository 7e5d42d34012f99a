"""A map of labels as a value, and as a table or a picture."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rembrandt.errors import DataError, RembrandtError
from rembrandt.estimators import RembrandtClassifier
from rembrandt.explore.layout import lay_out
from rembrandt.explore.neighbors import scaled_vectors
from rembrandt.progress import Report, silent
from rembrandt.storage.arrays import pack_strings

_NAMED = 60  # labels that a picture names, at most


@dataclass(frozen=True)
class LabelMap:
    """Labels in the plane, the most frequent first."""

    columns: NDArray[np.int64]  # of the model
    names: list[str]
    titles: list[str | None]
    counts: NDArray[Any]  # in training
    places: NDArray[np.float32]  # n × 2


def label_map(
    classifier: RembrandtClassifier, n_labels: int | None = None, seed: int = 0, report: Report = silent
) -> LabelMap:
    """Lay out the labels of a classifier, or the ``n_labels`` most frequent; those without a direction stay out."""
    vectors, counts = scaled_vectors(classifier), np.asarray(classifier.label_counts_)
    directed = np.flatnonzero(np.linalg.norm(vectors, axis=1) > 0)
    if not len(directed):
        raise DataError("no label of this model has a direction in the embedding; fit it with a larger n_components")
    chosen = directed[np.argsort(-counts[directed], kind="stable")[:n_labels]]
    names = [str(classifier.classes_[i]) for i in chosen.tolist()]
    titles = [classifier.label_titles_.get(name) for name in names]
    return LabelMap(chosen, names, titles, counts[chosen], lay_out(vectors[chosen], seed, report))


def write_npz(placed: LabelMap, file: BinaryIO) -> None:
    """Arrays ``places``, ``counts``, ``columns``, and the names as bytes end to end with their ends."""
    arrays: dict[str, Any] = {"places": placed.places, "counts": placed.counts, "columns": placed.columns}
    np.savez_compressed(file, **(arrays | pack_strings("names", placed.names)))


def write_csv(placed: LabelMap, file: BinaryIO) -> None:
    from pyarrow import csv

    csv.write_csv(_table(placed), file)


def write_arrow(placed: LabelMap, file: BinaryIO) -> None:
    from pyarrow import feather

    feather.write_feather(_table(placed), file)


def write_png(placed: LabelMap, file: BinaryIO) -> None:
    """A picture: larger dots for more frequent labels, and the names of some that do not cover each other."""
    try:
        import matplotlib
    except ImportError as missing:
        raise RembrandtError("pictures need the package matplotlib: pip install 'rembrandt[report]'") from missing
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"text.parse_math": False}):  # a label is no formula
        figure = Figure(figsize=(12, 12), dpi=130)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        x, y = placed.places.T
        size = 2 + 6 * np.log10(1 + placed.counts)
        axes.scatter(x, y, s=size, c=np.log10(1 + placed.counts), cmap="copper_r", linewidths=0, alpha=0.7)
        axes.set_axis_off()
        axes.set_aspect("equal")
        shown = [title or name for title, name in zip(placed.titles, placed.names, strict=True)]
        for i in _apart(placed.places, 0.035 * float(np.ptp(placed.places, axis=0).max())):
            axes.annotate(shown[i][:40], (x[i], y[i]), fontsize=7, ha="center", va="bottom")
        figure.savefig(file, format="png", facecolor="white")


WRITERS: dict[str, Callable[[LabelMap, BinaryIO], None]] = {
    ".csv": write_csv,
    ".npz": write_npz,
    ".arrow": write_arrow,
    ".png": write_png,
}


def _table(placed: LabelMap) -> Any:
    import pyarrow as pa

    return pa.table(
        {
            "label": placed.names,
            "title": pa.array(placed.titles, pa.string()),
            "count": placed.counts,
            "x": placed.places[:, 0],
            "y": placed.places[:, 1],
        }
    )


def _apart(places: NDArray[np.float32], distance: float) -> list[int]:
    """Rows, the first ones first, that keep a distance from those taken before; wider than high, as names are."""
    taken: list[int] = []
    scaled = places / np.array([3.0, 1.0])
    for i in range(min(len(places), 20 * _NAMED)):
        if len(taken) == _NAMED:
            break
        if not taken or np.abs(scaled[taken] - scaled[i]).max(axis=1).min() > distance:
            taken.append(i)
    return taken
