"""Write tests/model/frozen, a fitted model with its predictions, for a new version of the format
only: ``python -m tests.model.make_frozen``.

A released version of the format loads for ever: a folder that is in a release is kept, and a new
one gets the number of its version.
"""

import json
from pathlib import Path
from typing import Any

from rembrandt import RembrandtClassifier
from rembrandt.data.generated import labelled_documents
from rembrandt.model.folder import FORMAT_VERSION

FOLDER = Path(__file__).parent / "frozen"
N_TEXTS = 12
K = 4


def predictions(classifier: RembrandtClassifier, texts: list[str]) -> dict[str, Any]:
    """Return what a model says about texts, as JSON."""
    labels, probabilities = classifier.predict_topk(texts, K)
    return {
        "texts": texts,
        "labels": labels.tolist(),
        "probabilities": probabilities.tolist(),
        "names": [classifier.model_.labels.title(column) for column in range(3)],
        "threshold": classifier.threshold_,
        "n_train": classifier.n_train_,
    }


def main() -> None:
    """Fit a small model with every part of a preset, and save it with its predictions."""
    train, test = labelled_documents(150, n_topics=3, labels_per_topic=3)
    classifier = RembrandtClassifier("fast", random_state=0).fit_dataset(train)
    classifier.set_label_names({train.label_ids[0]: ("A name", "What it means")})
    path = FOLDER / f"version_{FORMAT_VERSION}"
    classifier.save(path / "model", force=True, extra={"reading": {"text": ["title"]}})
    texts = [*(test.texts or [])[:N_TEXTS], "", "no known word: жук"]
    document = predictions(classifier, texts)
    (path / "predictions.json").write_text(json.dumps(document, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
