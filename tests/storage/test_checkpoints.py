"""A fit that is stopped at any moment and called again gives the same bits; nothing but its own
checkpoints is used.
"""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from rembrandt import RembrandtClassifier, TreeSettings
from rembrandt.data import Dataset
from rembrandt.data.convert import write_store
from rembrandt.data.store import Store
from rembrandt.errors import (
    DataError,
    RembrandtError,
    RembrandtWarning,
    SettingsError,
    StorageError,
)
from rembrandt.parts.embedding import fit as embedding_fit
from rembrandt.storage import arrays
from rembrandt.storage.checkpoints import checkpoints_in
from tests.estimators.problems import SETTLED, blobs, settled, several

KERNEL = {"kernel": "gaussian", "kernel_scale": 1.0, "n_random_features": 40}
TREES = TreeSettings(n_trees=2, max_example_node_pairs=1e3, cost=1.0)
LOGISTIC = settled(decoder="logistic", decoder_ridge=0.1, max_epochs=7, **KERNEL)
FITS = {
    "logistic": (blobs(240, 6, 8), LOGISTIC),
    "independent": (several(240, 8), LOGISTIC | {"kernel": None}),
    "open choices": (several(160, 8), {"decoder": "ridge", "kernel": None, "random_state": 1}),
    "centred": (several(240, 8), settled(decoder="transpose", decoder_ridge=0.1, center=True)),
    "whitened labels": (several(240, 8), LOGISTIC | {"method": "cca", "n_components": 5}),
    "trees": (
        several(160, 200),
        SETTLED | {"parts": "trees", "trees": TREES},
    ),
}


class Killed(BaseException):
    """Nobody handles this."""


class Clock:
    """Counts what a fit reports, and ends it when the count is up."""

    def __init__(self, until: float = float("inf")) -> None:
        self.until, self.ticks, self.epochs = until, 0, []

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        self.ticks += stage not in (
            "fitting without held-out examples",
            "blending",
        )  # the choice is made again or kept as a whole
        if stage == "logistic decoder":
            self.epochs.append(done)
        if self.ticks > self.until:
            raise Killed


def fit(kind, folder=None, clock=None, overhead=float("inf"), **more):
    """A fit that saves every epoch."""
    (X, y), settings = FITS[kind]
    with checkpoints_in(folder, overhead) as checkpoints:
        return RembrandtClassifier(**settings | more).fit_dataset(
            dataset(X, y), clock or Clock(), checkpoints
        )


def dataset(X, y):
    Y = np.eye(y.max() + 1)[y] if y.ndim == 1 else y
    names = [f"label {i}" for i in range(Y.shape[1])]
    rows = sparse.csr_array(X.astype(np.float32))
    task = "multiclass" if y.ndim == 1 else "multilabel"
    return Dataset(sparse.csr_array(Y.astype(np.float32)), rows, None, names, None, task)


def stopped(kind, folder, ticks, **more):
    with pytest.raises(Killed):
        fit(kind, folder, Clock(ticks), **more)


def files(folder, stage=""):
    return sorted(
        folder.glob(f"{stage}*.safetensors"), key=lambda path: int(path.name.split(".")[1])
    )


def assert_same(one, other, tmp_path):
    one.save(tmp_path / "one", force=True)
    other.save(tmp_path / "other", force=True)
    for name in ("weights.safetensors", "model.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


@pytest.mark.parametrize("kind", FITS)
def test_stopped_at_random_moments_it_gives_the_same_bits(kind, tmp_path):
    clock = Clock()
    undisturbed = fit(kind, clock=clock)  # without any checkpoint
    moments = np.random.default_rng(0).permutation(clock.ticks)[:4]
    for ticks in moments.tolist():
        folder = tmp_path / f"after-{ticks}"
        stopped(kind, folder, ticks)
        again = Clock()
        resumed = fit(kind, folder, again)
        assert_same(undisturbed, resumed, tmp_path)
        assert again.ticks <= clock.ticks
    assert_same(undisturbed, fit(kind, folder, ended := Clock()), tmp_path)
    assert ended.ticks == 0  # all of it was done
    if kind == "trees":
        assert [len(tree.levels) for tree in undisturbed.model_.parts["trees"].trees] == [2, 2]


def test_stopped_again_and_again(tmp_path):
    for ticks in (1, 2, 3, 2, 2, 3):
        stopped("logistic", tmp_path / "kept", ticks)
    assert_same(fit("logistic"), fit("logistic", tmp_path / "kept"), tmp_path)


def test_devices_go_on_too(tmp_path):
    pytest.importorskip("torch")
    undisturbed = fit("independent", device="cpu,cpu")
    stopped("independent", tmp_path / "kept", 6, device="cpu,cpu")
    clock = Clock()
    assert_same(
        undisturbed, fit("independent", tmp_path / "kept", clock, device="cpu,cpu"), tmp_path
    )
    assert clock.epochs[0] > 0


def test_another_size_of_step_begins_the_decoder_anew(tmp_path, monkeypatch):
    stopped("logistic", tmp_path / "kept", 6)
    monkeypatch.setattr("rembrandt.engines.descent.LOGITS", 60)  # as if there were less memory
    with pytest.warns(RembrandtWarning, match="starts again"):
        fit("logistic", tmp_path / "kept", clock := Clock())
    assert clock.epochs[0] == 0


def test_a_store_goes_on_too(tmp_path):
    (X, y), settings = FITS["independent"]
    parts = [dataset(X[part], y[part]) for part in (slice(0, 100), slice(100, 240))]
    data = write_store(parts, tmp_path / "store").dataset()
    undisturbed = RembrandtClassifier(**settings).fit_dataset(data)
    with pytest.raises(Killed):
        RembrandtClassifier(**settings).fit_dataset(data, Clock(6), tmp_path / "kept")
    resumed = RembrandtClassifier(**settings).fit_dataset(data, clock := Clock(), tmp_path / "kept")
    assert_same(undisturbed, resumed, tmp_path)
    assert clock.epochs[0] > 0


def test_a_shard_that_goes_missing_loses_nothing(tmp_path):
    (X, y), settings = FITS["independent"]
    store, away = tmp_path / "store", tmp_path / "away"
    write_store([dataset(X[part], y[part]) for part in (slice(0, 100), slice(100, 240))], store)
    undisturbed = RembrandtClassifier(**settings).fit_dataset(Store(store).dataset())
    data = Store(store).dataset()
    with pytest.raises(Killed):
        RembrandtClassifier(**settings).fit_dataset(data, Clock(6), tmp_path / "kept")
    kept = [path.name for path in files(tmp_path / "kept")]
    shard = store / data.X.store.shards[1].entry.file
    opened = Store(store).dataset()  # its labels were read while all was there
    opened.X.store.shards[1]._file = None
    shard.rename(away)
    with pytest.raises(DataError, match=rf"{shard.name}: .* missing; restore"):
        RembrandtClassifier(**settings).fit_dataset(opened, Clock(), tmp_path / "kept")
    with pytest.raises(DataError, match=rf"{shard.name}: .* missing; restore"):
        Store(store).dataset()
    assert [path.name for path in files(tmp_path / "kept")] == kept
    away.rename(shard)
    resumed = RembrandtClassifier(**settings).fit_dataset(
        Store(store).dataset(), clock := Clock(), tmp_path / "kept"
    )
    assert_same(undisturbed, resumed, tmp_path)
    assert clock.epochs[0] > 0


def test_texts_and_plain_arrays(tmp_path):
    texts, labels = (
        ["red apple", "green apple", "red car", "fast car"] * 10,
        ["fruit", "fruit", "car", "car"] * 10,
    )
    for X, y in ((texts, labels), blobs(80, 4, 5)):
        folder = tmp_path / f"kept-{len(X)}"
        one, other = (
            RembrandtClassifier(**LOGISTIC).fit(X, y, checkpoint=folder) for _ in range(2)
        )
        assert_same(one, other, tmp_path)
        with pytest.raises(SettingsError, match="start a new fit"):
            RembrandtClassifier(**LOGISTIC).fit(X[::-1], y, checkpoint=folder)


def test_their_number_is_bounded(tmp_path):
    def count(stage, done, total):
        assert len(files(tmp_path, "epoch")) == min(2, done)

    fit(
        "logistic",
        tmp_path,
        lambda *at: count(*at) if at[0] == "logistic decoder" and at[1] < at[2] else None,
    )
    assert [path.name.split(".")[0] for path in files(tmp_path)].count("epoch") == 2
    assert len(files(tmp_path)) == 5  # settings, embedding, decoder and two epochs


def test_writing_epochs_takes_a_small_part_of_the_time(tmp_path):
    fit("logistic", tmp_path, overhead=1e-9)
    assert len(files(tmp_path, "epoch")) == 1


@pytest.mark.parametrize("seed", range(3))
def test_flipped_bytes_are_refused_and_the_one_before_is_used(seed, tmp_path):
    rng = np.random.default_rng(seed)
    folder = tmp_path / "kept"
    stopped("logistic", folder, 8)
    for stage in ("epoch", "embedding", "settings"):
        damaged = files(folder, stage)[-1]
        content = bytearray(damaged.read_bytes())
        content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        damaged.write_bytes(bytes(content))
        before = [int(path.name.split(".")[1]) for path in files(folder, "epoch")]
        with pytest.warns(RembrandtWarning, match=f"{stage}.*is damaged"), pytest.raises(Killed):
            fit("logistic", folder, clock := Clock(1 if stage == "epoch" else 0))
        if stage == "epoch":
            assert clock.epochs == [before[-2], before[-2] + 1]
    assert_same(fit("logistic"), fit("logistic", folder), tmp_path)


def test_what_follows_from_another_embedding_is_not_used(tmp_path, monkeypatch):
    folder = tmp_path / "kept"
    stopped("logistic", folder, 8)
    files(folder, "embedding")[0].unlink()
    embed_labels = embedding_fit.embed_labels
    # Another device may give other signs.
    monkeypatch.setattr(
        embedding_fit, "embed_labels", lambda *arguments: turned(embed_labels(*arguments))
    )
    expected, _ = fit("logistic").model_.parts["embedding"].arrays()
    clock = Clock()
    resumed, _ = fit("logistic", folder, clock).model_.parts["embedding"].arrays()
    assert resumed.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(resumed[name], array)
    assert clock.epochs[0] == 0


def turned(embedded):
    return replace(embedded, projection=-embedded.projection)


def test_a_shortened_or_foreign_file_does_no_harm(tmp_path):
    folder = tmp_path / "kept"
    stopped("logistic", folder, 8)
    (folder / "notes.txt").write_text("mine")
    (folder / "epoch.3.unfinished-checkpoint").write_bytes(b"what a kill leaves")
    last = files(folder, "epoch")[-1]
    last.write_bytes(last.read_bytes()[:100])
    with pytest.warns(RembrandtWarning, match="damaged"):
        resumed = fit("logistic", folder)
    assert_same(fit("logistic"), resumed, tmp_path)
    assert (folder / "notes.txt").read_text() == "mine"
    assert not (folder / "epoch.3.unfinished-checkpoint").exists()


def test_a_folder_in_the_place_of_a_file_is_refused_and_kept(tmp_path):
    folder = tmp_path / "kept"
    stopped("logistic", folder, 8)
    last = files(folder, "epoch")[-1]
    for path in (last, folder / "epoch.3.unfinished-checkpoint"):
        path.unlink(missing_ok=True)
        path.mkdir()
        (path / "notes.txt").write_text("mine")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RembrandtWarning)
            with pytest.raises(StorageError, match="is a folder in the place of a checkpoint"):
                fit("logistic", folder)
        assert (path / "notes.txt").read_text() == "mine"
        shutil.rmtree(path)
    assert_same(fit("logistic"), fit("logistic", folder), tmp_path)


def test_other_data_or_settings_are_refused(tmp_path):
    (X, y), settings = FITS["logistic"]
    weights = np.ones(len(y))

    def call(X=X, y=y, weights=weights, **more):
        return RembrandtClassifier(**settings | more).fit(X, y, weights, checkpoint=tmp_path)

    call()
    kept = [path.read_bytes() for path in files(tmp_path)]
    changed = X.copy()
    changed[3, 2] += 1e-6
    heavier = np.where(np.arange(len(y)) == 5, 2.0, 1.0)
    cases = [
        ({"X": changed}, "values of the features differ"),
        ({"X": X[1:], "y": y[1:], "weights": weights[1:]}, "240 examples, and this fit has 239"),
        ({"X": X[:, 1:]}, "8 features, and this fit has 7"),
        ({"y": np.roll(y, 1)}, "labels differ"),
        ({"y": y + 1}, "label names differ"),
        ({"weights": heavier}, "weights differ"),
        ({"weights": None}, "weights differ"),
        ({"decoder_ridge": 0.2}, "it has decoder_ridge=0.1, this fit has decoder_ridge=0.2"),
        ({"random_state": 3}, "random_state=3"),
    ]
    for given, words in cases:
        with pytest.raises(SettingsError, match=words) as refused:
            call(**given)
        assert "choose another folder" in str(refused.value)
    assert [path.read_bytes() for path in files(tmp_path)] == kept
    with pytest.raises(SettingsError, match="a number as random_state"):
        call(random_state=None)


def test_two_fits_in_one_folder(tmp_path):
    with (
        checkpoints_in(tmp_path),
        pytest.raises(RembrandtError, match=r"another process .*another folder"),
    ):
        fit("logistic", tmp_path)
    fit("logistic", tmp_path)


def test_a_full_disk_leaves_what_was_kept(tmp_path, monkeypatch):
    folder, write = tmp_path / "kept", arrays._write

    def full(file, digest, data):
        if "epoch.3" in file.name:
            file.write(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(file, digest, data)

    monkeypatch.setattr(arrays, "_write", full)
    with pytest.raises(
        RembrandtError, match=r"could not write .*epoch\.3.*: the disk is full; .*unchanged"
    ):
        fit("logistic", folder)
    assert len(list(folder.iterdir())) == 5  # settings, embedding, two epochs and the lock
    monkeypatch.undo()
    assert_same(fit("logistic"), fit("logistic", folder), tmp_path)


COMMAND = (
    "--decoder logistic --decoder-ridge 0.1 --kernel gaussian --n-random-features 600 --normalize "
    "no"
)
COMMAND += " --quiet --parts embedding"


def test_the_command_is_killed_and_given_again(tmp_path):
    (X, y), _ = FITS["logistic"]
    lines = [
        f"{label} " + " ".join(f"{i}:{v:.4f}" for i, v in enumerate(row, 1))
        for row, label in zip(X, y, strict=True)
    ]
    (tmp_path / "train.svm").write_text("\n".join(lines) + "\n")

    def begin(output, *more):
        command = (
            sys.executable,
            "-m",
            "rembrandt",
            "fit",
            tmp_path / "train.svm",
            "--output",
            tmp_path / output,
        )
        return subprocess.Popen(
            [*map(str, command), *COMMAND.split(), *more], stderr=subprocess.PIPE, text=True
        )

    def finish(process):
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors

    kept = tmp_path / "kept"
    finish(begin("undisturbed"))
    for wanted in (1, 3):
        process = begin("resumed", "--checkpoint", str(kept))
        while process.poll() is None and len(files(kept)) < wanted:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert not (tmp_path / "resumed").exists()
    assert len(files(kept)) >= 3
    finish(begin("resumed", "--checkpoint", str(kept)))
    assert files(kept) == []  # the model is saved
    one, other = (tmp_path / name for name in ("undisturbed", "resumed"))
    assert (one / "weights.safetensors").read_bytes() == (
        other / "weights.safetensors"
    ).read_bytes()
    facts = [json.loads((folder / "model.json").read_text())["metadata"] for folder in (one, other)]
    for each in facts:
        del each["extra"]["extra"]["fit_seconds"]
    assert facts[0] == facts[1]
