"""libpecos XR-Linear: one label tree with one-vs-all classifiers in the nodes, in C++; rows have
unit length.
"""

import numpy as np
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel
from scipy import sparse

from benchmarks.peers.harness import Adapter, main, padded, unit_rows


class Pecos(Adapter):
    def fit(self, train):
        X = sparse.csr_matrix(unit_rows(train.X), dtype=np.float32)
        Y = sparse.csr_matrix(train.Y, dtype=np.float32)
        labels = LabelEmbeddingFactory.create(Y, X, method="pifa", threads=self.threads)
        tree = Indexer.gen(labels, threads=self.threads)
        self.model = XLinearModel.train(X, Y.tocsc(), C=tree, threads=self.threads, **self.settings)

    def save(self):
        self.model.save(str(self.model_folder))

    def top_k(self, test, k):
        found = self.model.predict(
            sparse.csr_matrix(unit_rows(test.X), dtype=np.float32),
            only_topk=k,
            threads=self.threads,
        )
        rows = []
        for begin, end in zip(found.indptr[:-1], found.indptr[1:], strict=True):
            best = np.argsort(-found.data[begin:end], kind="stable")
            rows.append(found.indices[begin:end][best].tolist())
        return padded(rows, k)


if __name__ == "__main__":
    main(Pecos)
