"""Fit small models with one version of the package and record what they are and what they predict.

`benchmarks.guard` runs this program once for each of two versions. It uses only what both versions
of the package have; `classifier_of`, `open_store` and `common_settings` are the only places that
know of names that changed.
"""

import argparse
import hashlib
import inspect
import json
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

LABELS_PER_ROW = 5  # that are predicted
ROWS_PER_SHARD = 64
STORAGES = ("memory", "store", "dask", "torch")
# Parameters that an older version has under another name.
OLDER_PARAMETERS = {"parts": "scorers"}
# Settings of the embedding that older versions have beside those of the parts.
EMBEDDING_SETTINGS = (
    "n_components",
    "method",
    "ridge",
    "decoder",
    "decoder_ridge",
    "kernel",
    "normalize",
    "growable",
)
# Settings that older versions have under another name.
RENAMED_SETTINGS = {
    "scorers": "parts",
    "trees.pairs": "trees.max_example_node_pairs",
    "trees.threshold": "trees.prune_below",
    "embedding.proposes": "embedding.retrieves_labels",
} | {name: f"embedding.{name}" for name in EMBEDDING_SETTINGS}
# Settings that describe the fit and not the model.
NOT_COMPARED = {"seconds", "fit_seconds", "memory_estimate", "version"}

# Settings of a part that an older version has under another name.
OLDER_SETTINGS = {"max_example_node_pairs": "pairs", "retrieves_labels": "proposes"}

# All that a preset sets is given: versions differ in what they do with settings that are not.
EMBEDDING: dict[str, Any] = {
    "n_random_features": 100,
    "label_power": 0.0,
    "row_power": 0.0,
    "leave_out": 0.5,
    "tol": 0.02,
}
TREES: dict[str, Any] = {"n_trees": 2, "max_example_node_pairs": 3e7, "cost": 1.0, "passes": 6}
EMBEDDING_ALONE: dict[str, Any] = {
    "parts": ("embedding",),
    "n_components": 20,
    "ridge": 1.0,
    "decoder_ridge": 0.1,
    "normalize": True,
    "embedding": EMBEDDING,
}
# Of each configuration: the data, and the parameters of the classifier.
CONFIGURATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "fast": ("texts", {"preset": "fast"}),
    "balanced": ("texts", {"preset": "balanced"}),
    "best": ("texts", {"preset": "best"}),
    "fast-features": ("features", {"preset": "fast"}),
    "ridge": ("texts", {**EMBEDDING_ALONE, "decoder": "ridge", "kernel": None}),
    "logistic": ("texts", {**EMBEDDING_ALONE, "decoder": "logistic", "kernel": None}),
    "kernel": ("texts", {**EMBEDDING_ALONE, "decoder": "logistic", "kernel": "gaussian"}),
    "softmax": ("features", {**EMBEDDING_ALONE, "decoder": "logistic", "kernel": None}),
    "candidates": (
        "texts",
        {
            **EMBEDDING_ALONE,
            "parts": ("trees", "embedding"),
            "decoder": "candidates",
            "decoder_ridge": "auto",
            "trees": TREES,
        },
    ),
    "trees": ("texts", {"parts": ("trees",), "trees": TREES}),
    "centroids": ("texts", {"parts": ("centroids",)}),
    "growable": (
        "features",
        {**EMBEDDING_ALONE, "decoder": "ridge", "kernel": None, "growable": True},
    ),
}


@dataclass(frozen=True)
class Record:
    """A fitted model and its predictions; only an error where the fit failed."""

    labels: NDArray[Any] = field(default_factory=lambda: np.empty((0, 0), dtype=np.str_))
    probabilities: NDArray[Any] = field(default_factory=lambda: np.empty((0, 0)))
    log_odds: NDArray[Any] = field(default_factory=lambda: np.empty((0, 0)))
    arrays: dict[str, str] = field(default_factory=dict)  # digests of the saved arrays by name
    settings: dict[str, Any] = field(default_factory=dict)  # by path, such as "trees.cost"
    error: str | None = None

    def write(self, path: Path) -> None:
        """Write the predictions to ``path`` with the suffix npz, and the rest with json."""
        predictions = {name: getattr(self, name) for name in PREDICTIONS}
        np.savez(path.with_suffix(".npz"), **predictions)
        facts = {name: value for name, value in asdict(self).items() if name not in PREDICTIONS}
        path.with_suffix(".json").write_text(json.dumps(facts))

    @classmethod
    def read(cls, path: Path) -> "Record":
        """Read what `write` wrote."""
        facts = json.loads(path.with_suffix(".json").read_text())
        with np.load(path.with_suffix(".npz")) as predictions:
            return cls(**facts, **{name: predictions[name] for name in PREDICTIONS})


PREDICTIONS = ("labels", "probabilities", "log_odds")


@dataclass(frozen=True)
class Examples:
    """Training rows and test rows, in memory and as a file of training rows."""

    X: Any
    y: list[Any]
    X_test: Any
    file: Path
    reading: dict[str, Any]  # options of `rembrandt.read` for the file


def load_examples(folder: Path, name: str) -> Examples:
    """Read the data that `benchmarks.guard` wrote: "texts" or "features"."""
    facts = json.loads((folder / f"{name}.json").read_text())
    if name == "texts":
        reading = {"format": "tsv", "text": "text", "labels": "labels", "label_separator": "|"}
        return Examples(facts["X"], facts["y"], facts["X_test"], folder / "texts.tsv", reading)
    X, X_test = (
        sparse.csr_array(sparse.load_npz(folder / f"features-{part}.npz"))
        for part in ("train", "test")
    )
    reading = {"format": "svmlight", "n_features": X.shape[1]}
    return Examples(X, facts["y"], X_test, folder / "features.svm", reading)


def classifier_of(params: dict[str, Any], device: str) -> Any:
    """Return a classifier with these parameters, under the names that this version has."""
    from rembrandt import EmbeddingSettings, RembrandtClassifier, TreeSettings

    offered = set(inspect.signature(RembrandtClassifier.__init__).parameters)
    translated = under_offered_names(params, offered, OLDER_PARAMETERS)
    for name, settings_type in (("embedding", EmbeddingSettings), ("trees", TreeSettings)):
        if name in translated:
            declared = {field.name for field in fields(settings_type)}
            values = under_offered_names(translated[name], declared, OLDER_SETTINGS)
            translated[name] = settings_type(**values)
    return RembrandtClassifier(**translated, random_state=0, device=device)


def under_offered_names(
    values: dict[str, Any], offered: set[str], older: dict[str, str]
) -> dict[str, Any]:
    """Return values under their older names where the newer ones are not offered."""
    renamed = {}
    for name, value in values.items():
        if name not in offered:
            name = older.get(name, name)
        renamed[name] = value
    return renamed


def open_store(examples: Examples, folder: Path) -> Any:
    """Convert the file of training rows to a store of several shards, and open it."""
    from rembrandt import read
    from rembrandt.data.convert import convert

    convert([examples.file], folder, rows=ROWS_PER_SHARD, **examples.reading)
    return read(folder)


def record(examples: Examples, params: dict[str, Any], storage: str, device: str) -> Record:
    """Fit, predict and save; an error becomes part of the record."""
    with tempfile.TemporaryDirectory(prefix="rembrandt-guard-") as folder:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return _recorded(examples, params, storage, device, Path(folder))
        except Exception as error:  # noqa: BLE001, the other fits are recorded all the same
            last_call = traceback.extract_tb(error.__traceback__)[-1]
            message = str(error).replace(folder, "")
            return Record(error=f"{type(error).__name__} in {last_call.name}: {message}")


def _recorded(
    examples: Examples, params: dict[str, Any], storage: str, device: str, folder: Path
) -> Record:
    classifier = classifier_of(params, device)
    if storage in ("store", "dask"):
        classifier.fit_dataset(open_store(examples, folder / "store"))
    else:
        classifier.fit(examples.X, examples.y)
    labels, probabilities = classifier.predict_topk(examples.X_test, LABELS_PER_ROW)
    log_odds = classifier.decision_function(examples.X_test)
    classifier.save(folder / "model")
    arrays: dict[str, str] = {}
    for file in sorted((folder / "model").rglob("*.safetensors")):
        arrays |= array_digests(file)
    settings = json.loads(json.dumps(classifier.settings_, default=str))
    return Record(
        labels.astype(np.str_), probabilities, log_odds, arrays, common_settings(settings)
    )


def array_digests(path: Path) -> dict[str, str]:
    """Return the digest of the type, shape and bytes of every array of a safetensors file."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    digests = {}
    for name, entry in json.loads(content[8:start]).items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        digest = hashlib.sha256(f"{entry['dtype']} {entry['shape']} ".encode())
        digest.update(content[start + first : start + last])
        digests[name] = digest.hexdigest()
    return digests


def common_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings by their path, such as "trees.cost", as the newest version names them.

    That version has the settings of each part under "parts"; older ones list the names of the
    parts there, or under "scorers".
    """
    document = dict(settings)
    specs = document.get("parts")
    if isinstance(specs, dict):
        document["parts"] = list(specs)
        for name, spec in specs.items():
            document[name] = spec["settings"]
    paths = flattened(document)
    return {RENAMED_SETTINGS.get(path, path): value for path, value in paths.items()}


def flattened(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings by their path."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if name in NOT_COMPARED:
            continue
        path = prefix + name
        if isinstance(value, dict):
            flat |= flattened(value, f"{path}.")
        else:
            flat[path] = value
    return flat


def missing_package(storage: str) -> str | None:
    """Return the package that a storage needs and that is not installed."""
    package = {"dask": "distributed", "torch": "torch"}.get(storage)
    return package if package is not None and find_spec(package) is None else None


@contextmanager
def devices(storages: list[str]) -> Iterator[dict[str, str]]:
    """Yield the device of each storage; a local cluster runs as long as Dask is among them."""
    names = {"memory": "cpu", "store": "cpu", "torch": "cpu,cpu"}
    if "dask" not in storages:
        yield names
        return
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        yield names | {"dask": f"dask:{cluster.scheduler_address}"}


def main(arguments: list[str] | None = None) -> None:
    """Record every case that was asked for into its own file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of the examples")
    parser.add_argument("output", type=Path, help="folder of the records")
    parser.add_argument("source", type=Path, help="folder that rembrandt must be imported from")
    parser.add_argument("--configurations", nargs="+", default=list(CONFIGURATIONS))
    parser.add_argument("--storages", nargs="+", default=list(STORAGES))
    options = parser.parse_args(arguments)
    import rembrandt

    imported = Path(rembrandt.__file__).resolve()
    if not imported.is_relative_to(options.source.resolve()):
        sys.exit(f"rembrandt was imported from {imported} and not from {options.source}")
    with devices(options.storages) as device_of:
        for name in options.configurations:
            data, params = CONFIGURATIONS[name]
            examples = load_examples(options.data, data)
            for storage in options.storages:
                case = record(examples, params, storage, device_of[storage])
                case.write(options.output / f"{name}_{storage}")
                print(f"{name}, {storage}", flush=True)


if __name__ == "__main__":
    main()
