"""fastText: a linear classifier of the mean of learned word vectors. Its input is words without
weights.
"""

import fasttext

from benchmarks.peers.harness import Adapter, main, padded

MARK = "__label__"
# With more labels a tree of outputs is used: one output for each label would cost examples ×
# labels.
ALL_OUTPUTS = 2000
LEAST_RATE = 0.01


class FastText(Adapter):
    def prepare(self, train, test):
        labels = (" ".join(f"{MARK}{label}" for label in row.tolist()) for row in train.rows("Y"))
        with train.words.open() as lines, (self.folder / "train.txt").open("w") as file:
            file.writelines(f"{names} {line}" for names, line in zip(labels, lines, strict=True))
        self.texts = test.words.read_text().splitlines()

    def fit(self, train):
        """Train at the learning rate of the tutorial, halved for as long as training diverges."""
        rate = self.settings["lr"]
        while True:
            try:
                self.model = self._trained(train, rate)
                return
            except RuntimeError as error:
                if "NaN" not in str(error) or rate < LEAST_RATE:
                    raise
                rate /= 2

    def _trained(self, train, rate):
        settings = self.settings | {
            "lr": rate,
            "loss": "ova" if train.Y.shape[1] <= ALL_OUTPUTS else "hs",
            "thread": self.threads,
            "label": MARK,
            "verbose": 0,
        }
        return fasttext.train_supervised(str(self.folder / "train.txt"), **settings)

    def save(self):
        self.model_folder.mkdir()
        self.model.save_model(str(self.model_folder / "model.bin"))

    def top_k(self, test, k):
        names, _ = self.model.predict(self.texts, k=k)
        return padded([[int(name.removeprefix(MARK)) for name in row] for row in names], k)


if __name__ == "__main__":
    main(FastText)
