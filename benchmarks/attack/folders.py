"""Damaged stores and checkpoints, half of them with recomputed checksums.

A store is refused, or read: as before, unless the checksums were recomputed. A checkpoint is
refused or ignored, and then the fit gives the same model, unless the checksums were recomputed.
"""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.attack.harness import Case, Difference
from benchmarks.attack.mutations import damage_file, damaged_arrays, damaged_json
from rembrandt import RembrandtClassifier, read
from rembrandt.data.convert import convert
from rembrandt.data.generated import labelled_documents
from rembrandt.data.store import Store
from rembrandt.storage.arrays import read_arrays, write_arrays

READING = {"text": "text", "labels": "labels", "label_separator": "|"}


def damaged_stores(root: Path) -> Case:
    """Convert texts and features to stores of a few shards; a case damages one and reads it."""
    train, _ = labelled_documents(120, n_topics=4, labels_per_topic=6)
    assert train.texts is not None
    labels = [
        "|".join(train.label_ids[j] for j in train.Y[[i]].indices) for i in range(train.n_examples)
    ]
    lines = [f"{text}\t{joined}\n" for text, joined in zip(train.texts, labels, strict=True)]
    (root / "train.tsv").write_text("text\tlabels\n" + "".join(lines), encoding="utf-8")
    rng = np.random.default_rng(0)
    rows = (
        f"l{i % 7},l{i % 5} 2.0 | " + " ".join(f"f{j}:{i}" for j in rng.integers(50, size=6))
        for i in range(90)
    )
    (root / "train.vw").write_text("\n".join(rows))
    convert([root / "train.tsv"], root / "texts", rows=40, **READING)
    convert([root / "train.vw"], root / "features", rows=40)
    expected = {name: _contents(root / name) for name in ("texts", "features")}

    def case(rng: np.random.Generator, root: Path) -> str:
        name = str(rng.choice(sorted(expected)))
        path = root / "case"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(root / name, path)
        recomputed = bool(rng.integers(2))
        if recomputed:
            _recomputed(path, rng)
        else:
            files = sorted(file for file in path.iterdir() if not file.name.startswith("."))
            file = files[int(rng.integers(len(files)))]
            damage_file(file, rng)
        contents = _contents(path)
        # Only the sizes and checksums of files are protected by the manifest, not the manifest
        # itself.
        if not recomputed and file.name != "store.json" and contents != expected[name]:
            raise Difference(f"{file.name} gives something else")
        return "read"

    return case


def _recomputed(path: Path, rng: np.random.Generator) -> None:
    """Damage the manifest, or the arrays of a file whose checksum in the manifest is then
    corrected.
    """
    manifest = json.loads((path / "store.json").read_text())
    if rng.integers(2):
        manifest = damaged_json(manifest, rng)
    else:
        entries = manifest["shards"] + (
            [manifest["text"] | {"file": "text.safetensors"}] if manifest["text"] else []
        )
        entry = entries[int(rng.integers(len(entries)))]
        arrays = damaged_arrays(read_arrays(path / entry["file"]), rng)
        size, sha256 = write_arrays(path / entry["file"], arrays)
        target = entry if "bytes" in entry else manifest["text"]
        target |= {"sha256": sha256} | ({"bytes": size} if "bytes" in target else {})
    (path / "store.json").write_text(json.dumps(manifest))


def _contents(path: Path) -> Any:
    store = Store(path)
    data = read(path)
    X: Any = data.X
    rows, some = X[:], X[np.arange(X.shape[0])[::7]]
    text = None if store.text is None else store.text.transform(["a few words"]).toarray().tolist()
    parts = [
        rows.toarray().tolist(),
        some.nnz,
        data.Y.toarray().tolist(),
        list(data.label_ids),
        text,
    ]
    return [*parts, None if data.weights is None else data.weights.tolist()]


def damaged_checkpoints(root: Path) -> Case:
    """Fit with checkpoints; a case damages some of them and fits again."""
    train, test = labelled_documents(80, n_topics=3, labels_per_topic=4)
    assert test.texts is not None
    texts = test.texts[:5]
    settings: dict[str, Any] = {
        "parts": ("trees", "embedding"),
        "decoder": "logistic",
        "kernel": None,
    }
    settings |= {"n_components": 4, "random_state": 0}

    def fitted(checkpoint: Path) -> list[Any]:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            classifier = RembrandtClassifier(**settings).fit_dataset(train, checkpoint=checkpoint)
            return [array.tolist() for array in classifier.predict_topk(texts, k=3)]

    expected = fitted(root / "whole")

    def case(rng: np.random.Generator, root: Path) -> str:
        path = root / "case"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(root / "whole", path)
        files = sorted(path.glob("*.safetensors"))
        file = files[int(rng.integers(len(files)))]
        recomputed = bool(rng.integers(2))
        if recomputed:
            arrays = damaged_arrays(read_arrays(file), rng)
            if rng.integers(3) == 0 and "json" in arrays:
                arrays = dict(read_arrays(file))
                body = json.dumps(damaged_json(json.loads(arrays["json"].tobytes()), rng)).encode()
                arrays["json"] = np.frombuffer(body, np.uint8)
            file.unlink()
            _, sha256 = write_arrays(path / "new", arrays)
            stage, number, *_ = file.name.split(".")
            (path / "new").rename(path / f"{stage}.{number}.{sha256}.safetensors")
        else:
            damage_file(file, rng)
        if fitted(path) != expected and not recomputed:
            raise Difference(f"a damaged {file.name} gives another model")
        return "fitted"

    return case
