"""Damaged model folders: every one is refused with a sentence, or predicts without an error.

Half of the cases recompute the checksums after the damage, as an attacker would. The other half do
not; those that load must predict as before, because checksums promise to find damage.
"""

import json
import shutil
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.attack.harness import Case, Difference
from benchmarks.attack.mutations import damage_file, damaged_arrays, damaged_json
from benchmarks.tiny_encoder import write_encoder
from rembrandt import EmbeddingSettings, EncoderSettings, RembrandtClassifier, load
from rembrandt.data.generated import labelled_documents
from rembrandt.model.folder import load_folder, save_folder

FILES = ("model.json", "weights.safetensors")
KINDS: dict[str, dict[str, Any]] = {
    "trees": {"parts": ("trees",)},
    "blend": {
        "parts": ("trees", "centroids", "embedding"),
        "decoder": "ridge",
        "kernel": None,
        "n_components": 8,
    },
    "kernel": {
        **{
            "parts": ("embedding",),
            "decoder": "ridge",
            "kernel": "gaussian",
            "n_components": 8,
            "growable": True,
        },
        "embedding": EmbeddingSettings(
            n_random_features=32, label_power=0.0, row_power=0.0, tol=0.02
        ),
    },
    "logistic": {
        "parts": ("embedding",),
        "decoder": "logistic",
        "kernel": None,
        "n_components": 8,
    },
}


def damaged_models(root: Path) -> Case:
    """Fit small models of every kind; a case damages one and predicts."""
    train, test = labelled_documents(150, n_topics=4, labels_per_topic=6)
    assert test.texts is not None
    texts = test.texts[:5]
    models = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, settings in [*KINDS.items(), *_with_encoders(root, train.texts or [])]:
            fitted = RembrandtClassifier(random_state=0, **settings).fit_dataset(train)
            if name == "kernel":
                fitted.model_ = fitted.model_.with_shortlist(True)
            fitted.save(root / name)
            models[name] = load_folder(root / name), _predictions(root / name, texts)

    def case(rng: np.random.Generator, root: Path) -> str:
        name = str(rng.choice(sorted(models)))
        (arrays, metadata), expected = models[name]
        path = root / "case"
        shutil.rmtree(path, ignore_errors=True)
        recomputed = bool(rng.integers(2))
        if recomputed and rng.integers(2):
            save_folder(path, damaged_arrays(arrays, rng), metadata)
        elif recomputed:
            shutil.copytree(root / name, path)
            _reseal(path, damaged_json(metadata, rng))
        else:
            shutil.copytree(root / name, path)
            file = path / str(rng.choice(FILES))
            damage_file(file, rng)
        predictions = _predictions(path, texts)
        if not recomputed and predictions != expected:
            raise Difference(f"{name} predicts something else")
        return "predicted"

    return case


def _with_encoders(root: Path, texts: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """Return settings of models with a tiny encoder, where encoders can be used."""
    if find_spec("transformers") is None:
        return []
    words = sorted({word for text in texts for word in text.lower().split()})
    folder = str(write_encoder(root / "tiny-encoder", words))
    tuned = EncoderSettings(folder, training="fine-tune", epochs=1, start="random")
    frozen = EncoderSettings(folder, training="frozen", include_encoder=True)
    return [
        ("tuned", {"parts": ("trees",), "encoder": tuned}),
        ("frozen", {"parts": ("trees",), "encoder": frozen}),
    ]


def _reseal(path: Path, metadata: Any) -> None:
    """Put other metadata in a model folder and correct the checksum."""
    from rembrandt.model.folder import _seal

    card = json.loads((path / "model.json").read_text(encoding="utf-8")) | {"metadata": metadata}
    card["sha256"] = _seal(card)
    (path / "model.json").write_text(json.dumps(card), encoding="utf-8")


def _predictions(path: Path, texts: list[str]) -> Any:
    """Use a model in the ways that a service does."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        classifier = load(path)
        labels, scores = classifier.predict_topk(texts, k=3)
        probabilities = classifier.predict_proba(texts)
        _each(
            lambda: classifier.predict(texts),
            lambda: classifier.predict_topk(texts, k=3, include=classifier.classes_[:2]),
            lambda: list(classifier.label_names_),
        )
    return labels.tolist(), scores.tolist(), probabilities.tolist()


def _each(*calls: Callable[[], Any]) -> None:
    for call in calls:
        call()
