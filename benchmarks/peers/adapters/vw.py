"""Vowpal Wabbit: online one-against-all, the LOMtree (``log_multi``) and a probabilistic label
tree.
"""

import math
import subprocess
import sys

import numpy as np

from benchmarks.peers.harness import Adapter, cpu_seconds, main, padded, pairs

TRIAL_ROWS = 50
# Additional predictions: untrained leaves of a label tree, which are no labels, may rank high
SPARE = 16


class VowpalWabbit(Adapter):
    """A reduction of Vowpal Wabbit; ``settings`` has its name, the passes and other command-line
    options.
    """

    def prepare(self, train, test):
        self._labels_from = self.settings["first_label"]
        if self.settings["one_label"]:  # one line for each label of an example
            rows = np.repeat(np.arange(train.X.shape[0]), np.diff(train.Y.indptr))
            self._write(
                "train.txt",
                train.X[rows],
                [[label] for label in train.Y.indices.tolist()],
                shuffle=True,
            )
        else:
            self._write("train.txt", train.X, [row.tolist() for row in train.rows("Y")])
        self._write("test.txt", test.X, [[] for _ in range(test.X.shape[0])])

    def estimate(self, train):
        """Estimate one-against-all, whose cost is examples × labels, from a few rows."""
        n = train.Y.shape[0]
        if self.settings["reduction"] != "multilabel_oaa":
            return 0.0
        self._labels_from = self.settings["first_label"]
        trial = min(TRIAL_ROWS, n)
        self._write("trial.txt", train.X[:trial], [row.tolist() for row in train.rows("Y")[:trial]])
        once = self._cost("trial.txt", train)
        self._write("trial.txt", train.X[:1], [[0]])
        started = self._cost("trial.txt", train)  # cost of the start
        return max(once - started, 0.0) * n / trial * self.settings["passes"]

    def fit(self, train):
        self._train("train.txt", train, self.settings["passes"])

    def top_k(self, test, k):
        answers = self.folder / "answers.txt"
        reduction = self.settings["reduction"]
        extra = [] if reduction == "log_multi" else ["--probabilities"]
        # If the ring is smaller than the test set, rows get the scores of earlier rows.
        extra += ["--ring_size", test.X.shape[0] + 1] if reduction == "multilabel_oaa" else []
        extra += ["--top_k", k + SPARE] if reduction == "plt" else []
        files = ("-d", self.folder / "test.txt", "-p", answers)
        self._run("-t", "-i", self._model, "--loss_function", "logistic", *files, *extra)
        with answers.open() as lines:  # one-against-all writes an empty line after each prediction
            return padded(
                [self._best(line, k) for line in lines if reduction == "plt" or line.strip()], k
            )

    def _train(self, file, train, passes):
        self.model_folder.mkdir(exist_ok=True)
        self._model = self.model_folder / "model.vw"
        c = self._n_labels = train.Y.shape[1]
        bits = min(max(math.ceil(math.log2(train.X.shape[1] * c)), 18), 28)
        cache = (
            ["--cache_file", self.folder / f"{file}.cache", "-k", "--passes", passes]
            if passes > 1
            else []
        )
        kind = [f"--{self.settings['reduction']}", c, "--loss_function", "logistic"]
        self._run("-d", self.folder / file, "-f", self._model, "-b", bits, "--holdout_off", *cache, *kind,
                  *self.settings["options"])  # fmt: skip

    def _cost(self, file, train):
        start = cpu_seconds()
        self._train(file, train, 1)
        return cpu_seconds() - start

    def _run(self, *arguments):
        command = [sys.executable, "-m", "vowpalwabbit", "--quiet", *map(str, arguments)]
        subprocess.run(command, check=True, cwd=self.folder)

    def _write(self, name, X, labels, shuffle=False):
        separator = "," if not self.settings["one_label"] else " "
        first = self._labels_from
        lines = [
            f"{separator.join(str(label + first) for label in row)} | {features}\n"
            for row, features in zip(labels, pairs(X), strict=True)
        ]
        if shuffle:
            lines = [lines[i] for i in np.random.default_rng(0).permutation(len(lines))]
        with (self.folder / name).open("w") as file:
            file.writelines(lines)

    def _best(self, line, k):
        """Parse ``label:probability`` entries, in any order and separated by commas or spaces, or a
        single label.
        """
        scored = [entry.partition(":") for entry in line.replace(",", " ").split()]
        best = sorted(scored, key=lambda entry: -float(entry[2] or 0))
        labels = (int(label) - self._labels_from for label, _, _ in best)
        return [label for label in labels if label < self._n_labels][:k]


if __name__ == "__main__":
    main(VowpalWabbit)
