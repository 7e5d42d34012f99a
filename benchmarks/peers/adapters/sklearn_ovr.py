"""scikit-learn: a linear support vector machine for each label."""

import numpy as np
from scipy import sparse
from sklearn.svm import LinearSVC

from benchmarks.peers.harness import Adapter, cpu_seconds, main

TRIAL_LABELS = 12
BLOCK = 256


class OneVsRest(Adapter):
    """The classifiers of ``OneVsRestClassifier(LinearSVC())``, fitted without a dense copy of Y."""

    def estimate(self, train):
        self._columns, self._X = train.Y.tocsc(), narrow(train.X)
        c = train.Y.shape[1]
        trial = np.random.default_rng(0).choice(c, min(TRIAL_LABELS, c), replace=False)
        start = cpu_seconds()
        for label in trial:
            self._one(label)
        return (cpu_seconds() - start) * c / len(trial)

    def fit(self, train):
        c = train.Y.shape[1]
        self.weights = np.zeros((c, train.X.shape[1]), np.float32)
        self.bias = np.full(c, -np.inf, np.float32)
        for label in range(c):
            weights, self.bias[label] = self._one(label)
            self.weights[label] = weights

    def save(self):
        self.model_folder.mkdir()
        np.savez(self.model_folder / "model.npz", weights=self.weights, bias=self.bias)

    def top_k(self, test, k):
        blocks = [
            test.X[i : i + BLOCK] @ self.weights.T + self.bias
            for i in range(0, test.X.shape[0], BLOCK)
        ]
        return np.concatenate(
            [np.argsort(-scores, axis=1, kind="stable")[:, :k] for scores in blocks]
        )

    def _one(self, label):
        own = np.zeros(self._X.shape[0], np.int8)
        columns = self._columns
        own[columns.indices[columns.indptr[label] : columns.indptr[label + 1]]] = 1
        if own.all() or not own.any():  # one class only: the label is always or never predicted
            return 0.0, 1.0 if own.any() else -np.inf
        machine = LinearSVC(random_state=0, **self.settings).fit(self._X, own)
        return machine.coef_[0], machine.intercept_[0]


def narrow(X):
    """Return the rows with 32-bit indices, which LinearSVC requires."""
    starts, columns = X.indptr.astype(np.int32), X.indices.astype(np.int32)
    return sparse.csr_array((X.data.astype(np.float64), columns, starts), shape=X.shape)


if __name__ == "__main__":
    main(OneVsRest)
