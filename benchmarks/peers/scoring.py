"""Score the predictions of a program, and keep what every test row contributes, so that programs
can be compared.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from rembrandt.metrics import calibration_error, coverage_by_decile, reliability, row_terms
from rembrandt.metrics.hits import hits

KS = (1, 3, 5)
STORED = ("p@", "psp@", "tail psp@")
Terms = dict[str, tuple[Any, Any]]


@dataclass(frozen=True)
class Truth:
    """True labels of the test rows, how many each row has that training never saw, and the training
    counts.
    """

    Y: sparse.csr_array
    missing: Any
    counts: Any
    n_train: int

    @classmethod
    def load(cls, data: Path) -> "Truth":
        """Read what `prepare` stored."""
        Y_train, Y = (
            sparse.csr_array(sparse.load_npz(data / f"Y_{part}.npz")) for part in ("train", "test")
        )
        counts = np.bincount(Y_train.indices, minlength=Y_train.shape[1])
        return cls(Y, np.load(data / "missing_test.npy"), counts, Y_train.shape[0])

    def terms(self, labels: Any) -> Terms:
        """Return what each row adds to P@k, nDCG@k and PSP@k; those at k are omitted if no row has
        k predictions.
        """
        return row_terms(
            self.Y, labels, self.counts, self.n_train, ks=_ks(labels), missing_labels=self.missing
        )

    def rare_recall(self, labels: Any) -> dict[str, float]:
        """Return the share of the true labels of the five rarest deciles that are among the
        predictions.
        """
        rarest = coverage_by_decile(self.Y, labels, self.counts)[5:]
        true = sum(decile.n_true for decile in rarest)
        found = sum(decile.recall * decile.n_true for decile in rarest if decile.n_true)
        return {"rare_recall": found / true} if true else {}

    def tail(self, labels: Any) -> Terms:
        """Return the terms of PSP@k of predictions for rare labels."""
        return {
            f"tail {name}": both
            for name, both in self.terms(labels).items()
            if name.startswith("psp@")
        }

    def more(self, found: dict[str, Any]) -> dict[str, float]:
        """Return the calibration and the quality of the threshold.

        ``calibration_error`` is that of the first five labels of each row. ``f1`` is the
        micro-averaged F1 of the predicted label sets, and ``f1_share`` its ratio to that of the
        threshold which is best on these test rows.
        """
        labels, likely = found["long"], found["probabilities"]
        right, first = hits(self.Y, labels), slice(0, max(KS))
        shown = labels[:, first] >= 0
        bins = reliability(np.minimum(likely[:, first][shown], 1.0), right[:, first][shown])
        out = {"calibration_error": calibration_error(bins)}
        if "set_labels" in found:
            n_true = int(self.Y.nnz + self.missing.sum())
            starts, columns = found["set_starts"], found["set_labels"]
            sets = sparse.csr_array((np.ones(len(columns)), columns, starts), shape=self.Y.shape)
            both = float((sets > 0).multiply(self.Y > 0).sum())
            out["f1"] = 2 * both / max(1, len(columns) + n_true)
            out["f1_share"] = out["f1"] / max(
                best_f1(likely[labels >= 0], right[labels >= 0], n_true), 1e-12
            )
        return out


def best_f1(likely: Any, right: Any, n_true: int) -> float:
    """Return the best micro-averaged F1 of all thresholds; labels with equal probabilities go
    together.
    """
    order = np.argsort(-likely, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(likely[order]) < 0, True))
    found = np.cumsum(right[order])[ends]
    return float((2 * found / (ends + 1 + n_true)).max(initial=0.0))


def means(terms: Terms) -> dict[str, float]:
    """Return the measures over all rows."""
    table = {
        name: float(above.sum() / below.sum()) if below.any() else 0.0
        for name, (above, below) in terms.items()
    }
    return ({"error": 1.0 - table.pop("hit")} if "hit" in table else {}) | table


def write_terms(file: Path, terms: Terms) -> None:
    """Store what each row contributes to P@k and PSP@k."""
    kept = {name: both for name, both in terms.items() if name.startswith(STORED)}
    named = {
        f"{name} {side}": both[i]
        for name, both in kept.items()
        for i, side in enumerate(("above", "below"))
    }
    np.savez_compressed(
        file, **{name: np.asarray(array, np.float32) for name, array in named.items()}
    )


def read_terms(file: Path) -> Terms:
    """Read what `write_terms` stored."""
    with np.load(file) as stored:
        names = sorted({name.rpartition(" ")[0] for name in stored.files})
        return {name: (stored[f"{name} above"], stored[f"{name} below"]) for name in names}


def _ks(labels: Any) -> list[int]:
    return [k for k in KS if (labels[:, k - 1] >= 0).any()]
