"""scikit-learn: partial least squares, which requires dense features and labels."""

import numpy as np
from sklearn.cross_decomposition import PLSRegression

from benchmarks.peers.harness import Adapter, NotFeasibleError, main

MOST_BYTES = 1e9


class PartialLeastSquares(Adapter):
    def estimate(self, train):
        dense = 8 * train.X.shape[0] * (train.X.shape[1] + train.Y.shape[1])
        if dense > MOST_BYTES:
            raise NotFeasibleError(f"dense features and labels would take {dense / 1e9:,.1f} GB")
        return 0.0

    def fit(self, train):
        rank = min(self.settings["n_components"], *train.X.shape, train.Y.shape[1])
        self.model = PLSRegression(n_components=rank, scale=False).fit(
            train.X.toarray(), train.Y.toarray()
        )

    def save(self):
        self.model_folder.mkdir()
        np.savez(
            self.model_folder / "model.npz", weights=self.model.coef_, bias=self.model.intercept_
        )

    def top_k(self, test, k):
        return np.argsort(-self.model.predict(test.X.toarray()), axis=1, kind="stable")[:, :k]


if __name__ == "__main__":
    main(PartialLeastSquares)
