"""omikuji: a forest of label trees with one-vs-all classifiers in the nodes, in Rust."""

from itertools import pairwise

import numpy as np
import omikuji

from benchmarks.peers.harness import Adapter, main, padded, pairs


class Omikuji(Adapter):
    def prepare(self, train, test):
        kept = np.flatnonzero(np.diff(train.X.indptr))  # omikuji cannot read rows without features
        X, labels = train.X[kept], train.rows("Y")
        with (self.folder / "train.txt").open("w") as file:
            file.write(f"{X.shape[0]} {X.shape[1]} {train.Y.shape[1]}\n")
            for row, features in zip(kept, pairs(X), strict=True):
                file.write(f"{','.join(map(str, labels[row].tolist()))} {features}\n")

    def fit(self, train):
        parameters = omikuji.Model.default_hyper_param()
        for name, value in self.settings.items():
            setattr(parameters, name, value)
        self.model = omikuji.Model.train_on_data(str(self.folder / "train.txt"), parameters, self.threads)

    def save(self):
        self.model.save(str(self.model_folder))

    def top_k(self, test, k):
        self.model.init_prediction_thread_pool(self.threads)
        X, starts = test.X, test.X.indptr.tolist()
        columns, values = X.indices.tolist(), X.data.tolist()
        answers = [
            self.model.predict(list(zip(columns[begin:end], values[begin:end], strict=True)), top_k=k)
            for begin, end in pairwise(starts)
        ]
        return padded([[label for label, _ in answer] for answer in answers], k)


if __name__ == "__main__":
    main(Omikuji)
