"""omikuji: a forest of label trees with one-vs-all classifiers in the nodes, in Rust."""

from itertools import pairwise

import omikuji

from benchmarks.peers.harness import Adapter, main, padded


class Omikuji(Adapter):
    def read(self):
        return str(self.data / "train.txt")  # omikuji reads it during the fit

    def fit(self, train):
        parameters = omikuji.Model.default_hyper_param()
        for name, value in self.settings.items():
            setattr(parameters, name, value)
        self.model = omikuji.Model.train_on_data(train, parameters, self.threads)

    def save(self):
        self.model.save(str(self.model_folder))

    def top_k(self, test, k):
        self.model.init_prediction_thread_pool(self.threads)
        X, starts = test.X, test.X.indptr.tolist()
        columns, values = X.indices.tolist(), X.data.tolist()
        answers = [
            self.model.predict(
                list(zip(columns[begin:end], values[begin:end], strict=True)), top_k=k
            )
            for begin, end in pairwise(starts)
        ]
        return padded([[label for label, _ in answer] for answer in answers], k)


if __name__ == "__main__":
    main(Omikuji)
