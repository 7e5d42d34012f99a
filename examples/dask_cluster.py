"""Data on disk, and workers that share it: the model has the same bits as that of one process.

On the command line: ``rembrandt data convert part-*.csv --output store``, then ``rembrandt fit
store --device dask``, or ``--scheduler tcp://head:8786`` for a cluster of your own. Needs ``pip
install 'rembrandt[dask]'``.
"""

import tempfile
from pathlib import Path

from rembrandt import Dataset, RembrandtClassifier, TextFeatures
from rembrandt.data.convert import write_store
from rembrandt.data.generated import labelled_documents


def main() -> None:
    train, test = labelled_documents(200, n_topics=4, labels_per_topic=3)
    features = TextFeatures()
    X = features.fit_transform(train.texts)
    halves = [
        Dataset.from_arrays(X[part], train.Y[part], label_ids=train.label_ids)
        for part in (slice(0, 80), slice(80, None))
    ]
    fixed = {
        "parts": ("embedding",),
        "n_components": 6,
        "decoder": "ridge",
        "decoder_ridge": 0.1,
        "kernel": None,
        "normalize": False,
    }
    with tempfile.TemporaryDirectory() as folder:
        store = write_store(
            halves, Path(folder) / "store"
        )  # files larger than memory: rembrandt.data.convert.convert
        shared = RembrandtClassifier(**fixed, random_state=0, device="dask?workers=2").fit_dataset(
            store.dataset()
        )
        alone = RembrandtClassifier(**fixed, random_state=0).fit_dataset(store.dataset())
    names, _ = shared.predict_topk(features.transform(test.texts[:3]), k=2)
    print(names, (alone.predict_topk(features.transform(test.texts[:3]), k=2)[0] == names).all())


if __name__ == "__main__":  # worker processes import this file
    main()
