"""What a fine-tuned encoder adds, on a machine with a GPU.

    python -m benchmarks.encoder SET [SET ...] --out FOLDER [--seconds 1500] [--device cuda]
    python -m benchmarks.encoder gutenberg --models encoder --start random
    python -m benchmarks.encoder cooking --trial [--start random]
    python -m benchmarks.encoder cooking --cost [--repeats 3]

For each set: the default preset with the encoder (`encoder`), the same without it (`default`), and
an encoder with one output a label as a user would write it (`plain`). Models are fitted to all
training rows, saved, and loaded again in a new process. Test rows are read once by each model.
`--trial` fits to nine tenths of the training rows and measures on the others, for choices; it reads
no test rows. `--cost` measures the CPU seconds, of all cores, that a frozen encoder adds to a fit on
the CPU where its vectors are on disk, and those of computing them. A set may be one of `benchmarks.variants`, such as "mesh, part".
REMBRANDT_ENCODER names the folder of the encoder; one whose word embeddings are
stored as int8 with a scale for each row (`model.small.safetensors`) is accepted too.
"""

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.plain_encoder import fit_plain
from benchmarks.real_sets import FOLDER, load_part
from benchmarks.results import machine, write_json
from benchmarks.variants import VARIANTS
from benchmarks.variants import load as load_variant
from rembrandt import RembrandtClassifier, load
from rembrandt.data.dataset import Dataset
from rembrandt.data.label_names import read_label_names
from rembrandt.estimators.requests import dataset_rows, top_columns
from rembrandt.metrics.hits import hits
from rembrandt.parts.encoder.fit import frozen_encoder
from rembrandt.parts.encoder.memory import training_bytes
from rembrandt.parts.encoder.settings import EncoderSettings
from rembrandt.storage.arrays import read_arrays, write_arrays

SETS = ("cooking", "pubmed-mesh", "gutenberg", "nvd-products", "attack", "icd10cm", "nvd-versions")
MODELS = ("encoder", "plain", "default")
# Tables with the names of labels.
NAMES = {
    "attack": "attack/techniques.tsv.gz",
    "icd10cm": "icd10cm/categories.tsv.gz",
    "pubmed-mesh": "mesh/descriptors.tsv.gz",
}
KS = (1, 3, 5)
# Test rows whose log-odds are compared after loading.
COMPARED_ROWS = 500
# Part of the training rows that a trial measures.
TRIAL_SHARE = 0.1
# Processes of which `--cost` measures the CPU seconds: texts encoded, and fits.
COSTS = ("encoding", "default", "encoder")


class Stages:
    """Notes when each stage of a fit begins and ends, and prints a line for each."""

    def __init__(self, device: str) -> None:
        self.device = device
        # Of each fine-tuning, on a GPU.
        self.peaks: list[float | None] = []
        self.begun = time.perf_counter()
        self.times: dict[str, list[float]] = {}

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        now = time.perf_counter() - self.begun
        if stage.startswith("fine-tuning"):
            if done == 0:
                reset_peak(self.device)
            elif done == total:
                self.peaks.append(peak_gigabytes(self.device))
        if stage not in self.times:
            print(f"    {now:7.1f} s  {stage}", flush=True)
            self.times[stage] = [now, now]
        self.times[stage][1] = now

    def seconds(self) -> dict[str, float]:
        return {stage: round(end - begin, 2) for stage, (begin, end) in self.times.items()}


def read_set(name: str, part: str, rows: int | None, seed: int = 0) -> Dataset:
    """Return a part of a set, or some rows of it, with the names of its labels."""
    if name in VARIANTS:
        train, test = load_variant(name, FOLDER)
        data = train if part == "train" else test
    else:
        data = load_part(name, part)
    if name in NAMES and (FOLDER / NAMES[name]).is_file():
        data = replace(data, label_names=read_label_names(FOLDER / NAMES[name]))
    if rows is None or rows >= data.n_examples:
        return data
    chosen = np.sort(np.random.default_rng(seed).permutation(data.n_examples)[:rows])
    return data.rows(chosen)


def encoder_folder() -> str:
    """Return the folder that REMBRANDT_ENCODER names."""
    folder = os.environ.get("REMBRANDT_ENCODER")
    if not folder or not Path(folder).is_dir():
        sys.exit("skipped: REMBRANDT_ENCODER does not name the folder of an encoder")
    return folder


@contextmanager
def usable_encoder(folder: str) -> Iterator[str]:
    """Return a folder that transformers reads: a small one is written out in full."""
    source = Path(folder)
    if (source / "model.safetensors").is_file():
        yield folder
        return
    with tempfile.TemporaryDirectory() as name:
        target = Path(name) / source.name
        target.mkdir()
        for file in ("config.json", "tokenizer.json", "tokenizer_config.json"):
            (target / file).write_bytes((source / file).read_bytes())
        small = read_arrays(source / "model.small.safetensors")
        full = {}
        for weight, values in small.items():
            if weight.endswith(".q"):
                scales = small[f"{weight[:-2]}.s"].astype(np.float32)
                full[weight[:-2]] = values.astype(np.float32) * scales.reshape(-1, 1)
            elif not weight.endswith(".s"):
                full[weight] = values.astype(np.float32)
        write_arrays(target / "model.safetensors", full)
        modules = [
            {"path": "", "type": "sentence_transformers.models.Transformer"},
            {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        ]
        (target / "modules.json").write_text(json.dumps(modules))
        (target / "1_Pooling").mkdir()
        (target / "1_Pooling/config.json").write_text('{"pooling_mode_mean_tokens": true}')
        (target / "sentence_bert_config.json").write_text('{"max_seq_length": 256}')
        yield str(target)


def measured_hits(classifier: Any, test: Dataset) -> tuple[np.ndarray, float]:
    """Return the hits (n × 5) of the best labels of test rows, and the seconds they took."""
    begun = time.perf_counter()
    rows = dataset_rows(classifier, test)
    labels, _ = top_columns(classifier, rows, max(KS))
    seconds = time.perf_counter() - begun
    return hits(truth_of(classifier.model_.labels, test), labels), seconds


def truth_of(index: Any, test: Dataset) -> Any:
    """Return the labels of test rows over the columns of a model; others are left out."""
    from rembrandt.data.arrays import move_columns

    columns = index.columns(list(test.label_ids))
    return move_columns(test.Y, columns, len(index))


def precision(hit: np.ndarray) -> dict[str, float]:
    """Return P@1, P@3 and P@5 in per cent."""
    return {f"p@{k}": round(100 * float(hit[:, :k].sum(axis=1).mean()) / k, 2) for k in KS}


def fit_model(
    name: str, train: Dataset, device: str, settings: EncoderSettings | None, seed: int
) -> tuple[Any, dict[str, Any]]:
    """Fit a classifier; return it with the seconds and the memory that it took."""
    stages = Stages(device)
    classifier = RembrandtClassifier(encoder=settings, random_state=seed, device=device)
    classifier.fit_dataset(train, report=stages)
    cost: dict[str, Any] = {
        "fit_seconds": round(time.perf_counter() - stages.begun, 1),
        "stages": stages.seconds(),
        "device_gigabytes": stages.peaks,
        "held_out": [measures.to_json() for measures in classifier.facts_.held_out],
    }
    if settings is not None:
        part = classifier.model_.parts["encoder"]
        cost["encoder"] = part.facts()
        cost["max_tokens"] = part.encoder.max_tokens
        cost["estimated_gigabytes"] = None
        if part.is_tuned:
            cost["estimated_gigabytes"] = estimated_gigabytes(settings, train, part)
    return classifier, cost


def estimated_gigabytes(settings: EncoderSettings, train: Dataset, part: Any) -> float:
    """Return the estimate of what fine-tuning takes on a GPU."""
    complete = settings.with_defaults()
    n_bytes = training_bytes(
        part.encoder.network,
        train.n_labels,
        min(complete.batch_size, train.n_examples),
        part.encoder.max_tokens,
        is_mixed=True,
    )
    return round(n_bytes / 2**30, 3)


def reset_peak(device: str) -> None:
    if device.startswith("cuda"):
        import torch

        torch.cuda.reset_peak_memory_stats()


def peak_gigabytes(device: str) -> float | None:
    """Return the most memory that tensors took on a GPU."""
    if not device.startswith("cuda"):
        return None
    import torch

    return round(torch.cuda.max_memory_allocated() / 2**30, 3)


def run_encoder(
    name: str, train: Dataset, test: Dataset, arguments: argparse.Namespace, encoder: str
) -> tuple[dict[str, Any], np.ndarray]:
    """Fit, save, load in a new process and measure the default preset with an encoder."""
    settings = EncoderSettings(
        encoder, training=arguments.training, **chosen(arguments, "start", "epochs")
    )
    classifier, cost = fit_model(name, train, arguments.device, settings, arguments.seed)
    hit, seconds = measured_hits(classifier, test)
    row = precision(hit) | cost | {"predict_seconds": round(seconds, 2)}
    if not arguments.trial:
        row["loaded"] = reloaded(classifier, test, arguments.device)
    return row, hit


def chosen(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return the settings that are given."""
    values = {name: getattr(arguments, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def reloaded(classifier: Any, test: Dataset, device: str) -> dict[str, Any]:
    """Save a model and load it in a new process; compare what it says on either device."""
    texts = list(test.texts[:COMPARED_ROWS])
    before = np.asarray(classifier.decision_function(texts))
    first = before.reshape(len(texts), -1).argmax(axis=1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        begun = time.perf_counter()
        classifier.save(folder / "model")
        seconds = time.perf_counter() - begun
        megabytes = sum(file.stat().st_size for file in (folder / "model").iterdir()) / 1e6
        (folder / "texts.json").write_text(json.dumps(texts))
        found: dict[str, Any] = {"save_seconds": round(seconds, 2), "megabytes": round(megabytes)}
        for where in dict.fromkeys((device, "cpu")):
            command = [sys.executable, "-m", "benchmarks.encoder", "--reload", name, where]
            offline = os.environ | {"HF_HUB_OFFLINE": "1"}
            subprocess.run(command, check=True, env=offline)
            after = np.load(folder / f"{where.replace(':', '-')}.npy")
            found[where] = {
                "largest_difference": float(np.abs(after - before).max()),
                "same_first": float((after.reshape(len(texts), -1).argmax(axis=1) == first).mean()),
            }
    return found


def reload(folder: Path, device: str) -> None:
    """Load a saved model and write the log-odds of some texts; a new process calls this."""
    classifier = load(folder / "model", device=device)
    texts = json.loads((folder / "texts.json").read_text())
    np.save(folder / f"{device.replace(':', '-')}.npy", classifier.decision_function(texts))


def run_default(
    name: str, train: Dataset, test: Dataset, arguments: argparse.Namespace, encoder: str
) -> tuple[dict[str, Any], np.ndarray]:
    """Fit and measure the default preset without an encoder, on the CPU."""
    classifier, cost = fit_model(name, train, "cpu", None, arguments.seed)
    hit, seconds = measured_hits(classifier, test)
    return precision(hit) | cost | {"predict_seconds": round(seconds, 2)}, hit


def run_plain(
    name: str, train: Dataset, test: Dataset, arguments: argparse.Namespace, encoder: str
) -> tuple[dict[str, Any], np.ndarray]:
    """Fine-tune an encoder with one output a label, as a user would write it."""
    begun = time.perf_counter()
    labels = fit_plain(
        name,
        list(train.texts),
        train.Y,
        list(test.texts),
        encoder,
        arguments.device.split(",")[0],
        arguments.seed,
        epochs=arguments.epochs,
    )
    seconds = time.perf_counter() - begun
    index = {label: column for column, label in enumerate(train.label_ids)}
    columns = np.array([index.get(label, -1) for label in test.label_ids])
    from rembrandt.data.arrays import move_columns

    hit = hits(move_columns(test.Y, columns, train.n_labels), labels)
    return precision(hit) | {"fit_seconds": round(seconds, 1)}, hit


RUNS = {"encoder": run_encoder, "plain": run_plain, "default": run_default}


def trial_rows(train: Dataset, seed: int) -> tuple[Dataset, Dataset]:
    """Divide training rows into those to fit to and those to measure on."""
    order = np.random.default_rng(seed + 100).permutation(train.n_examples)
    n_measured = round(TRIAL_SHARE * train.n_examples)
    return train.rows(np.sort(order[n_measured:])), train.rows(np.sort(order[:n_measured]))


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of those that it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def run_once(kind: str, name: str, encoder: str) -> None:
    """Encode the texts of a set or fit to it, and print the CPU seconds; a new process calls
    this.
    """
    train = read_set(name, "train", None)
    begun = cpu_seconds()
    settings = EncoderSettings(encoder, training="frozen")
    if kind == "encoding":
        texts = list(train.texts)
        frozen_encoder(texts, settings.with_defaults()).stored_vectors(texts)
    else:
        classifier = RembrandtClassifier(encoder=settings if kind == "encoder" else None)
        classifier.set_params(random_state=0, device="cpu").fit_dataset(train)
    work = cpu_seconds() - begun
    print(json.dumps({"work": round(work, 2), "process": round(cpu_seconds(), 2)}))


def measured_costs(name: str, encoder: str, repeats: int) -> dict[str, Any]:
    """Return the least CPU seconds of encoding the texts of a set, and of fits with and without the
    vectors, each in new processes and by turns.
    """
    least: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as cache:
        # The first processes fill the caches of vectors and of compiled code.
        for number, kind in enumerate([*COSTS, *COSTS[1:] * repeats]):
            command = [sys.executable, "-m", "benchmarks.encoder", "--once", kind, name, encoder]
            environment = os.environ | {"REMBRANDT_CACHE": cache, "HF_HUB_OFFLINE": "1"}
            done = subprocess.run(
                command, check=True, env=environment, stdout=subprocess.PIPE, text=True
            )
            seconds = json.loads(done.stdout)
            print(f"    {kind}: {seconds}", flush=True)
            if number >= len(COSTS) or kind == "encoding":
                before = least.get(kind, seconds)
                least[kind] = {key: min(seconds[key], before[key]) for key in seconds}
    ratios = {
        f"{key}_ratio": round(least["encoder"][key] / least["default"][key], 2)
        for key in least["encoder"]
    }
    return {"set": name, **least, **ratios, "machine": machine("cpu")}


def main_costs(arguments: argparse.Namespace) -> None:
    """Measure what a frozen encoder costs, and write a JSON file for each set."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    with usable_encoder(encoder_folder()) as encoder:
        for name in arguments.sets:
            row = measured_costs(name, encoder, arguments.repeats)
            write_json(arguments.out / f"{file_stem(name, 'cost')}.json", row)
            print(f"{name}: {row}", flush=True)


def main(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Run every model on every set, and write a JSON file and the hits for each."""
    begun = time.perf_counter()
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows = []
    with usable_encoder(encoder_folder()) as encoder:
        for name in arguments.sets:
            train = read_set(name, "train", arguments.rows)
            test = None if arguments.trial else read_set(name, "test", arguments.rows)
            if test is None:
                train, test = trial_rows(train, arguments.seed)
            print(f"{name}: {train.n_examples:,} rows, {train.n_labels:,} labels", flush=True)
            for model in arguments.models:
                elapsed = time.perf_counter() - begun
                if elapsed > arguments.seconds:
                    print(f"stopped after {elapsed:.0f} s; {name} {model} is left out", flush=True)
                    return rows
                row, hit = RUNS[model](name, train, test, arguments, encoder)
                row = {"set": name, "model": model, "rows": train.n_examples} | row
                row |= {"device": arguments.device, "machine": machine(arguments.device)}
                row |= chosen(arguments, "start", "epochs")
                stem = "-".join([file_stem(name, model), *chosen(arguments, "tag").values()])
                write_json(arguments.out / f"{stem}.json", row)
                np.savez_compressed(arguments.out / f"{stem}.npz", hits=hit.astype(bool))
                print(f"  {model}: {figures(row)}", flush=True)
                rows.append(row)
    return rows


def file_stem(name: str, model: str) -> str:
    """Return the name of the files with the results of a model on a set, without their ending."""
    return f"{name.replace(', ', '-')}-{model}"


def figures(row: dict[str, Any]) -> str:
    """Return the measures of a row as a line."""
    line = " / ".join(f"{row[f'p@{k}']:.2f}" for k in KS) + f", fit {row['fit_seconds']:.0f} s"
    if "encoder" in row:
        facts = row["encoder"]
        line += f", {facts['epochs']} epochs from {facts['start']}"
        line += f", held-out by epoch {[round(100 * q, 1) for q in facts['qualities']]}"
        line += f", {row['device_gigabytes']} GiB of {row['estimated_gigabytes']}, loaded {row.get('loaded')}"
        alone = {"+".join(m["parts"]): m["p@1"] for m in row["held_out"]}
        line += f", held-out P@1 {alone}"
    return line


def parsed(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="*", default=list(SETS[:4]))
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "encoder-results")))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["encoder", "plain"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, help="training and test rows of each set")
    parser.add_argument("--seconds", type=float, default=1500, help="begin nothing after this long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--training", choices=["fine-tune", "frozen"], default="fine-tune")
    parser.add_argument("--start", choices=["names", "random"])
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--tag", help="part of the names of the files")
    parser.add_argument("--trial", action="store_true", help="measure on training rows")
    parser.add_argument("--cost", action="store_true", help="measure CPU seconds of a frozen one")
    parser.add_argument("--repeats", type=int, default=3, help="fits of which the least counts")
    parser.add_argument("--reload", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--once", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args(words)


if __name__ == "__main__":
    asked = parsed()
    logging.basicConfig(format="    %(message)s", stream=sys.stdout)
    logging.getLogger("rembrandt").setLevel(logging.INFO)
    if asked.reload:
        reload(Path(asked.reload[0]), asked.reload[1])
    elif asked.once:
        run_once(*asked.once)
    elif asked.cost:
        main_costs(asked)
    else:
        main(asked)
