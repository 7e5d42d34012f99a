"""Rembrandt, on the features that the other programs get."""

from itertools import islice

import rembrandt  # before NumPy, because it sets how long idle threads of OpenBLAS spin
from benchmarks.peers.harness import Adapter, main
from rembrandt.data import Dataset
from rembrandt.data.reader import read
from rembrandt.estimators.requests import top_columns

WARM_ROWS = 500
LONG = 50  # labels with probabilities, for the threshold with the best F1


class Rembrandt(Adapter):
    def prepare(self, train, test):
        """Fit to a few rows, so that compilation is not counted as training."""
        few = slice(0, WARM_ROWS)
        small = rembrandt.RembrandtClassifier(**self.settings, random_state=0).fit_dataset(
            _dataset(train.X[few], train.Y[few])
        )
        top_columns(small, test.X[:1], 5)
        file = self.folder / "few.txt"
        with (self.data / "train.txt").open() as lines:
            header, *rows = islice(lines, 3)
        file.write_text("".join([f"{len(rows)} {header.partition(' ')[2]}", *rows]))
        read(file, format="repository")

    def read(self):
        """Read the text file that omikuji reads."""
        found = read(self.data / "train.txt", format="repository")
        return _dataset(found.X, found.Y)

    def fit(self, train):
        self.model = rembrandt.RembrandtClassifier(**self.settings, random_state=0).fit_dataset(
            train
        )

    def save(self):
        self.model.save(self.model_folder)

    def top_k(self, test, k):
        return top_columns(self.model, test.X, k)[0]

    def more(self, test, k):
        """Return the best labels with probabilities, those of the option for the tail, and the
        predicted label sets.
        """
        labels, probabilities = top_columns(self.model, test.X, LONG)
        found = {
            "long": labels,
            "probabilities": probabilities,
            "tail": top_columns(self.model, test.X, k, tail=True)[0],
        }
        if not self.model.model_.multiclass:
            sets = self.model.predict(test.X)
            found |= {"set_starts": sets.indptr, "set_labels": sets.indices}
        return found


def _dataset(X, Y):
    return Dataset.build(Y, X, label_ids=[str(label) for label in range(Y.shape[1])])


if __name__ == "__main__":
    main(Rembrandt)
