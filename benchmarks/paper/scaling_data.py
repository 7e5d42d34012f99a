"""Data of the scaling experiment: features and labels of every set, prepared once by other
processes.

Preparing texts takes longer than an embedding on a GPU. Processes write the arrays of each set into
a folder, such as one in shared memory, while the sets that are ready are being used.
"""

from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.paper.sources import (
    PARTS,
    data_folder,
    load,
    some_classes,
    some_rows,
    text_features,
)
from rembrandt.data import Dataset
from rembrandt.data.catalogue import Part
from rembrandt.data.examples import Examples
from rembrandt.data.reader import read
from rembrandt.data.rows import as_rows
from rembrandt.data.splits import draw_rows
from rembrandt.errors import DataError
from rembrandt.linalg.sparse import as_csr

SEED = 0
HELD_OUT, FEW, MOST = (
    0.1,
    2_000,
    20_000,
)  # share of held-out rows; at least FEW where a quarter allows it
WORKERS = 4

Array = NDArray[Any]
Rows = tuple[sparse.csr_array, sparse.csr_array]


@dataclass(frozen=True)
class Prepared:
    """Training and test rows over the features and labels of the training rows."""

    X: sparse.csr_array
    Y: sparse.csr_array
    X_test: sparse.csr_array
    Y_test: sparse.csr_array
    multiclass: bool

    @property
    def test(self) -> Rows:
        return self.X_test, self.Y_test

    def examples(self, rows: Array | None = None) -> Examples:
        """Return training examples: all, or those at ``rows``."""
        X, Y = (self.X, self.Y) if rows is None else (self.X[rows], self.Y[rows])
        return Examples(as_rows(X), Y, np.arange(Y.shape[1]), self.multiclass)

    def held_out(self) -> tuple[Array, Array]:
        """Draw the rows that remain and the held-out rows; both are fixed for a set."""
        n = self.X.shape[0]
        return draw_rows(n, float(np.clip(FEW / n, HELD_OUT, 0.25)), SEED, max_held=MOST)

    def dropped(self, share: float) -> "Prepared":
        """Return the data without ``share`` of the features, drawn at random."""
        if share == 0:
            return self
        d = self.X.shape[1]
        kept, _ = draw_rows(d, share, SEED)
        return replace(self, X=as_csr(self.X[:, kept]), X_test=as_csr(self.X_test[:, kept]))

    def save(self, path: Path) -> None:
        """Write the arrays to a file that appears when it is complete."""
        arrays: dict[str, Array] = {"multiclass": np.array(self.multiclass)}
        for name in ("X", "Y", "X_test", "Y_test"):
            matrix = getattr(self, name)
            parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
            arrays |= {f"{name}.{part}": array for part, array in parts.items()}
            arrays[f"{name}.shape"] = np.array(matrix.shape)
        temporary = path.with_name(f".{path.name}.part.npz")
        np.savez(temporary, **arrays)  # type: ignore[arg-type]
        temporary.replace(path)

    @classmethod
    def read(cls, path: Path) -> "Prepared":
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as file:
            matrices = [
                sparse.csr_array(
                    (file[f"{name}.data"], file[f"{name}.indices"], file[f"{name}.indptr"]),
                    shape=tuple(file[f"{name}.shape"].tolist()),
                )
                for name in ("X", "Y", "X_test", "Y_test")
            ]
            return cls(*matrices, multiclass=bool(file["multiclass"]))


def prepare(
    name: str, folder: Path | None, rows: int | None, classes: int | None = None
) -> Prepared:
    """Read a set and compute the features of texts; at most ``rows`` training rows, or all rows of
    some classes.
    """
    train, test = (_read(name, part, folder) for part in PARTS)
    if classes is None and rows is not None and train.task == "multiclass":
        classes = max(
            2, rows * train.n_labels // train.n_examples
        )  # rows drawn at random would have no class twice
    if classes is not None:
        train, test = some_classes(train, test, classes)
    elif rows is not None:
        train, test = some_rows(train, rows), some_rows(test, rows // 3)
    test = test.align_labels(train.label_ids)
    if train.feature_names is not None:
        test = test.align_features(train.feature_names)
    if train.texts is not None and test.texts is not None:
        text = text_features(name)
        X, X_test = text.fit_transform(train.texts), text.transform(test.texts)
    else:
        X, X_test = train.X, test.X
    return Prepared(as_csr(X), train.Y, as_csr(X_test), test.Y, train.task == "multiclass")


def _read(name: str, part: Part, folder: Path | None) -> Dataset:
    """Read a part of a set of the catalogue, or of the one that is not in it."""
    if name != "gutenberg":
        return load(name, part, folder)
    root = data_folder(folder)
    if root is None:
        raise DataError("name the folder of the data sets with --data or in REMBRANDT_DATA")
    text = ["title", "author", "language"]
    return read(
        root / name / f"{part}.tsv.gz", "tsv", text=text, labels="subjects", label_separator="|"
    )


def _prepare_file(
    name: str, folder: Path | None, rows: int | None, classes: int | None, path: Path
) -> None:
    if not path.exists():
        prepare(name, folder, rows, classes).save(path)


class Store:
    """Prepared sets by name. ``mesh:5000`` is `mesh` with 5,000 classes. One set at a time is kept
    in memory.
    """

    def __init__(
        self, names: list[str], folder: Path | None, cache: Path, rows: int | None
    ) -> None:
        cache.mkdir(parents=True, exist_ok=True)
        self._pool = ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn"))
        self._paths = {
            name: cache / f"{name.replace(':', '-')}-{rows or 'all'}.npz" for name in names
        }
        self._waiting: dict[str, Future[None]] = {}
        for name, path in self._paths.items():
            own, _, classes = name.partition(":")
            limit = int(classes) if classes else None
            self._waiting[name] = self._pool.submit(_prepare_file, own, folder, rows, limit, path)
        self._kept: tuple[tuple[str, float], Prepared] | None = None

    def __getitem__(self, wanted: tuple[str, float]) -> Prepared:
        """Return a set without a share of its features; waits until it is prepared."""
        if self._kept is None or self._kept[0] != wanted:
            name, share = wanted
            self._waiting[name].result()
            self._kept = wanted, Prepared.read(self._paths[name]).dropped(share)
        return self._kept[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._pool.shutdown(cancel_futures=True)
