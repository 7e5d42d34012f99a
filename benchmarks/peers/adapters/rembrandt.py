"""Rembrandt, on the features that the other programs get."""

from benchmarks.peers.harness import Adapter, main
from rembrandt import RembrandtClassifier
from rembrandt.data import Dataset

WARM_ROWS = 500


class Rembrandt(Adapter):
    def prepare(self, train, test):
        """Fit to a few rows, so that compilation is not counted as training."""
        few = slice(0, WARM_ROWS)
        small = RembrandtClassifier(**self.settings, random_state=0).fit_dataset(_dataset(train.X[few], train.Y[few]))
        small.top_columns(test.X[:1], 5)

    def fit(self, train):
        self.model = RembrandtClassifier(**self.settings, random_state=0).fit_dataset(_dataset(train.X, train.Y))

    def save(self):
        self.model.save(self.model_folder)

    def top_k(self, test, k):
        return self.model.top_columns(test.X, k)[0]


def _dataset(X, Y):
    return Dataset.build(Y, X, label_names=[str(label) for label in range(Y.shape[1])])


if __name__ == "__main__":
    main(Rembrandt)
