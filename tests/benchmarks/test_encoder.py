"""The benchmark of the encoder, on a few texts and with a tiny encoder."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from rembrandt.data.dataset import Dataset
from rembrandt.storage.arrays import read_arrays, write_arrays
from tests.encoders import texts_of_rows, word_encoder
from tests.parts.contract import problem

pytest.importorskip("transformers", reason="the benchmark needs transformers")
benchmark = pytest.importorskip("benchmarks.encoder")


def words_set(name, part, rows, seed=0):
    """Texts of numbered words, in place of a real set."""
    X, Y = problem(int(part == "test"), rows)
    used = np.flatnonzero(np.bincount(Y.indices, minlength=Y.shape[1]))
    return Dataset(
        Y=sparse.csr_array(Y[:, used]),
        X=None,
        texts=texts_of_rows(X).tolist(),
        label_ids=[f"label {column}" for column in used.tolist()],
        feature_names=None,
        task="multilabel",
    )


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "read_set", words_set)
    monkeypatch.setenv("REMBRANDT_ENCODER", word_encoder())

    def run(*words):
        options = ["words", "--out", str(tmp_path), "--device", "cpu", "--epochs", "1", *words]
        return benchmark.main(benchmark.parsed(options)), tmp_path

    return run


def test_models_are_measured_on_the_same_rows(results):
    rows, folder = results("--rows", "240", "--trial", "--models", "encoder", "plain")
    assert [row["model"] for row in rows] == ["encoder", "plain"]
    for row in rows:
        assert 0 <= row["p@1"] <= 100
        assert json.loads((folder / f"words-{row['model']}.json").read_text())["p@5"] == row["p@5"]
        assert np.load(folder / f"words-{row['model']}.npz")["hits"].shape == (24, 5)
    assert rows[0]["encoder"]["epochs"] == 1
    assert rows[0]["estimated_gigabytes"] > 0


def test_nothing_is_begun_after_the_time(results, capsys):
    rows, _ = results("--rows", "120", "--seconds", "-1")
    assert rows == []
    assert "is left out" in capsys.readouterr().out


def test_a_small_encoder_is_written_out_in_full(tmp_path):
    from pathlib import Path

    full = Path(word_encoder())
    small = tmp_path / "small"
    small.mkdir()
    for file in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (small / file).write_bytes((full / file).read_bytes())
    arrays = read_arrays(full / "model.safetensors")
    table = arrays.pop("embeddings.word_embeddings.weight")
    scales = (np.abs(table).max(axis=1, keepdims=True) / 127).astype(np.float16)
    arrays["embeddings.word_embeddings.weight.q"] = np.round(table / scales).astype(np.int8)
    arrays["embeddings.word_embeddings.weight.s"] = scales
    write_arrays(small / "model.small.safetensors", arrays)
    with benchmark.usable_encoder(str(small)) as folder:
        restored = read_arrays(Path(folder) / "model.safetensors")
    assert_allclose(restored["embeddings.word_embeddings.weight"], table, atol=0.05)
    assert restored.keys() == {*arrays.keys(), "embeddings.word_embeddings.weight"} - {
        "embeddings.word_embeddings.weight.q",
        "embeddings.word_embeddings.weight.s",
    }


def test_a_loaded_model_says_the_same(results, tmp_path):
    rows, _ = results("--rows", "240", "--models", "encoder")
    for device, compared in rows[0]["loaded"].items():
        if device in ("cpu", "cuda"):
            assert compared["largest_difference"] < 1e-3
            assert compared["same_first"] == 1.0
