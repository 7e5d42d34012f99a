"""napkinXC: probabilistic label trees, in C++."""

from napkinxc.models import PLT
from scipy import sparse

from benchmarks.peers.harness import Adapter, main, padded


class NapkinXC(Adapter):
    def prepare(self, train, test):
        self.labels = [row.tolist() for row in train.rows("Y")]

    def fit(self, train):
        self.model = PLT(str(self.model_folder), threads=self.threads, seed=0, **self.settings)
        self.model.fit(sparse.csr_matrix(train.X), self.labels)

    def top_k(self, test, k):
        return padded(self.model.predict(sparse.csr_matrix(test.X), top_k=k), k)


if __name__ == "__main__":
    main(NapkinXC)
