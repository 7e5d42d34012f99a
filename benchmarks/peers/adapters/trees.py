"""FastXML and LPSR, as implemented in benchmarks/peers."""

import numpy as np

from benchmarks.peers.fastxml import FastXML
from benchmarks.peers.harness import Adapter, main
from benchmarks.peers.lpsr import LPSR

LEARNERS = {"fastxml": FastXML, "lpsr": LPSR}


class Trees(Adapter):
    def prepare(self, train, test):
        """Fit a tiny problem, so that compilation is not counted as training."""
        self._new().fit(np.eye(400), np.eye(400)).top_k(np.eye(400), 1)

    def fit(self, train):
        self.model = self._new().fit(train.X, train.Y)

    def save(self):
        self.model_folder.mkdir()
        for number, tree in enumerate(self.model.trees):
            np.savez(self.model_folder / f"{number}.npz", **tree._asdict())

    def top_k(self, test, k):
        return self.model.top_k(test.X, k)[0]

    def _new(self):
        return LEARNERS[self.settings["learner"]](seed=0)


if __name__ == "__main__":
    main(Trees)
