"""Vowpal Wabbit: online one-against-all, the LOMtree (``log_multi``), and a probabilistic label tree."""

import math
import subprocess
import sys

import numpy as np

from benchmarks.peers.harness import Adapter, cpu_seconds, main, padded, pairs

TRIAL_ROWS = 50
SPARE = 16  # a label tree has leaves that are no label, untrained and therefore probable; its answers may hold them


class VowpalWabbit(Adapter):
    """``settings``: ``reduction``, its name; ``passes``; ``options``, whatever else goes on the command line."""

    def prepare(self, train, test):
        self._labels_from = self.settings["first_label"]
        if self.settings["one_label"]:  # a line for each of an example's labels: the learner knows one a line
            rows = np.repeat(np.arange(train.X.shape[0]), np.diff(train.Y.indptr))
            self._write("train.txt", train.X[rows], [[label] for label in train.Y.indices.tolist()], shuffle=True)
        else:
            self._write("train.txt", train.X, [row.tolist() for row in train.rows("Y")])
        self._write("test.txt", test.X, [[] for _ in range(test.X.shape[0])])

    def estimate(self, train):
        """One against all costs examples × labels; a few rows tell how much one row costs."""
        n = train.Y.shape[0]
        if self.settings["reduction"] != "multilabel_oaa":
            return 0.0
        self._labels_from = self.settings["first_label"]
        trial = min(TRIAL_ROWS, n)
        self._write("trial.txt", train.X[:trial], [row.tolist() for row in train.rows("Y")[:trial]])
        once = self._cost("trial.txt", train)
        self._write("trial.txt", train.X[:1], [[0]])
        started = self._cost("trial.txt", train)  # what starting up alone costs
        return max(once - started, 0.0) * n / trial * self.settings["passes"]

    def fit(self, train):
        self._train("train.txt", train, self.settings["passes"])

    def top_k(self, test, k):
        answers = self.folder / "answers.txt"
        reduction = self.settings["reduction"]
        extra = [] if reduction == "log_multi" else ["--probabilities"]
        # A row that takes the place of an earlier one in the ring is answered wrongly with the earlier one's scores.
        extra += ["--ring_size", test.X.shape[0] + 1] if reduction == "multilabel_oaa" else []
        extra += ["--top_k", k + SPARE] if reduction == "plt" else []
        files = ("-d", self.folder / "test.txt", "-p", answers)
        self._run("-t", "-i", self._model, "--loss_function", "logistic", *files, *extra)
        with answers.open() as lines:  # one against all writes an empty line after each answer
            return padded([self._best(line, k) for line in lines if reduction == "plt" or line.strip()], k)

    def _train(self, file, train, passes):
        self.model_folder.mkdir(exist_ok=True)
        self._model = self.model_folder / "model.vw"
        c = self._n_labels = train.Y.shape[1]
        bits = min(max(math.ceil(math.log2(train.X.shape[1] * c)), 18), 28)
        cache = ["--cache_file", self.folder / f"{file}.cache", "-k", "--passes", passes] if passes > 1 else []
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
        """``label:probability`` in any order and with either separator, or one label alone."""
        scored = [entry.partition(":") for entry in line.replace(",", " ").split()]
        best = sorted(scored, key=lambda entry: -float(entry[2] or 0))
        labels = (int(label) - self._labels_from for label, _, _ in best)
        return [label for label in labels if label < self._n_labels][:k]


if __name__ == "__main__":
    main(VowpalWabbit)
