"""The figure of the README: the decay of label spectra, and the precision at each rank.

python -m benchmarks.spectra OUTPUT.png
"""

import sys
from pathlib import Path

import numpy as np

from benchmarks.ranking import best_labels
from benchmarks.real_sets import load
from rembrandt import LabelEmbedder, RembrandtClassifier
from rembrandt.data import Dataset
from rembrandt.metrics import precision_at_k

SETS = ("aloi", "bibtex", "delicious")
RANKS = (2, 5, 10, 20, 40, 80, 120)


def main(output: Path) -> None:
    """Fit the embeddings of all sets and draw both panels."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    for name in SETS:
        train, test = load(name)
        test = test.align_labels(train.label_ids)
        sigma = (
            LabelEmbedder(n_components=120, random_state=0).fit(train.X, train.Y).singular_values_
        )
        left.loglog(np.arange(1, len(sigma) + 1), sigma / sigma[0], label=name)
        right.plot(RANKS, [100 * _precision(train, test, k) for k in RANKS], "o-", label=name)
    left.set(
        xlabel="direction",
        ylabel="strength relative to the first",
        title="Spectrum of the predictable labels",
    )
    right.set(
        xlabel="rank of the embedding", ylabel="P@1, %", title="Precision by rank (least squares)"
    )
    for axis in (left, right):
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, dpi=110)


def _precision(train: Dataset, test: Dataset, rank: int) -> float:
    classifier = RembrandtClassifier(
        parts=("embedding",),
        n_components=rank,
        decoder="ridge",
        decoder_ridge=0.01,
        kernel=None,
        normalize=True,
        random_state=0,
    ).fit_dataset(train)
    labels = best_labels(classifier.model_.parts["embedding"], test.X, 1)
    return float(precision_at_k(test.Y, labels, 1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
