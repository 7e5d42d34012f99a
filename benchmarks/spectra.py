"""The picture of the README: how fast label spectra fall, and what each rank is worth.

python -m benchmarks.spectra OUTPUT.png
"""

import os
import sys
from pathlib import Path

import numpy as np

from rembrandt import LabelEmbedder, RembrandtClassifier
from rembrandt.data import Dataset, catalogue
from rembrandt.metrics import precision_at_k

SETS = ("aloi", "bibtex", "delicious")
RANKS = (2, 5, 10, 20, 40, 80, 120)


def main(output: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    folder = os.environ.get("REMBRANDT_DATA", "../shared/data")
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    for name in SETS:
        train = catalogue.load(name, "train", folder=folder)
        test = catalogue.load(name, "test", folder=folder).align_labels(train.label_names)
        if train.feature_names is not None:
            test = test.align_features(train.feature_names)
        sigma = LabelEmbedder(n_components=120, random_state=0).fit(train.X, train.Y).singular_values_
        left.loglog(np.arange(1, len(sigma) + 1), sigma / sigma[0], label=name)
        right.plot(RANKS, [100 * _precision(train, test, k) for k in RANKS], "o-", label=name)
    left.set(xlabel="direction", ylabel="strength, first = 1", title="What features can predict of the labels")
    right.set(xlabel="rank of the embedding", ylabel="P@1, %", title="What a rank is worth (least squares)")
    for axis in (left, right):
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, dpi=110)


def _precision(train: Dataset, test: Dataset, rank: int) -> float:
    settings = {"decoder": "ridge", "kernel": None, "normalize": True, "decoder_ridge": 0.01, "random_state": 0}
    classifier = RembrandtClassifier(n_components=rank, **settings).fit_dataset(train)
    return float(precision_at_k(test.Y, classifier.model_topk(test.X, 1)[0], 1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
