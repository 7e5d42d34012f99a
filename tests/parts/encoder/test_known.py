"""Networks that were read before: what is kept of them, and when it is used."""

import os
import pickle
import shutil
import subprocess
import sys

import pytest
from numpy.testing import assert_array_equal

from rembrandt.errors import DataError
from rembrandt.parts.encoder import known
from rembrandt.parts.encoder.known import known_network
from rembrandt.parts.encoder.memory import expected_tokens
from rembrandt.parts.encoder.network import WeightsInFiles, load_network
from rembrandt.parts.encoder.text_encoder import NetworkEncoder
from tests.parts.encoder.conftest import TEXTS, fitted

FIT = """
import sys
from tests.parts.encoder.conftest import fitted
classifier = fitted(sys.argv[1])
print(*(name for name in ("torch", "transformers") if name in sys.modules))
print(classifier.predict_labels(["a new red text"], k=1))
"""


@pytest.fixture(autouse=True)
def records(tmp_path, monkeypatch):
    """The folder of what is kept."""
    monkeypatch.setenv("REMBRANDT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache/networks"


@pytest.fixture
def folder(encoder, tmp_path):
    return shutil.copytree(encoder, tmp_path / "copy")


@pytest.fixture
def n_read(monkeypatch):
    """The names of the networks that were read."""
    names = []

    def read(name, *options):
        names.append(name)
        return load_network(name, *options)

    monkeypatch.setattr(known, "load_network", read)
    return names


def test_a_network_is_read_once(folder, n_read):
    first = known_network(str(folder))
    again = known_network(str(folder))
    assert n_read == [str(folder)]
    assert isinstance(again.weights, WeightsInFiles)
    assert not isinstance(first.weights, WeightsInFiles)
    assert again.digest == first.digest
    assert again.facts() == first.facts()
    assert again.licence == first.licence
    assert (again.n_weights, again.n_block_weights) == (first.n_weights, first.n_block_weights)
    assert expected_tokens(again, TEXTS) == expected_tokens(first, TEXTS)
    encoders = [NetworkEncoder(network, 12, unit_length=True) for network in (first, again)]
    assert_array_equal(encoders[0].compute(TEXTS), encoders[1].compute(TEXTS))
    for name, weights in first.weights.items():
        assert_array_equal(again.weights[name], weights)


def test_other_files_are_another_network(folder, n_read):
    before = known_network(str(folder))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 8}')
    (folder / "modules.json").write_text("[]")
    changed = known_network(str(folder))
    assert len(n_read) == 2
    assert changed.digest != before.digest
    assert changed.max_tokens == 8
    (folder / "notes.bin").write_bytes(b"not read")
    assert known_network(str(folder)).max_tokens == 8
    assert len(n_read) == 2


def test_weights_of_files_that_were_changed_are_refused(folder, encoder):
    known_network(str(folder))
    network = known_network(str(folder))
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"gelu"', '"relu"'))
    with pytest.raises(DataError, match="was changed while it was used"):
        dict(network.weights)


def test_a_copy_in_another_process_has_the_weights(folder):
    known_network(str(folder))
    network = known_network(str(folder))
    copy = pickle.loads(pickle.dumps(network))
    shutil.rmtree(folder)
    assert copy.digest == network.digest
    assert len(copy.weights) == len(network.weights)


def test_damaged_records_are_deleted(folder, records, n_read, caplog):
    expected = known_network(str(folder))
    [path] = records.iterdir()
    path.write_bytes(path.read_bytes()[:-7])
    assert known_network(str(folder)).digest == expected.digest
    assert len(n_read) == 2
    assert "is deleted from the cache" in caplog.text
    known_network(str(folder))
    assert len(n_read) == 2


def test_the_oldest_records_are_deleted(folder, records, monkeypatch):
    monkeypatch.setattr(known, "MOST_NETWORKS", 1)
    known_network(str(folder))
    [old] = records.iterdir()
    os.utime(old, (0, 0))
    (folder / "added.txt").write_text("")
    known_network(str(folder))
    assert old not in list(records.iterdir())
    assert len(list(records.iterdir())) == 1


def test_a_cache_that_cannot_be_written_is_left_out(folder, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REMBRANDT_CACHE", str(tmp_path / "file"))
    assert known_network(str(folder)).digest == load_network(str(folder)).digest


def test_a_network_of_a_hub_is_known_by_its_files(folder, tmp_path, n_read, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    revision = "0" * 40
    repository = tmp_path / "hub/models--owner--tiny"
    snapshot = repository / "snapshots" / revision
    shutil.copytree(folder, snapshot)
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text(revision)
    looked_up = []

    def downloaded(name, file):
        looked_up.append(name)
        return str(snapshot / file)

    monkeypatch.setattr(hub, "hf_hub_download", downloaded)
    monkeypatch.setattr(hub, "try_to_load_from_cache", downloaded)
    known_network(str(snapshot))
    network = known_network("owner/tiny")
    assert n_read == [str(snapshot)]
    assert network.name == "owner/tiny"
    assert "owner/tiny" in looked_up


@pytest.mark.parametrize("include_encoder", [False, True])
def test_a_model_is_the_same_where_the_network_is_known(folder, include_encoder, tmp_path):
    from rembrandt import EncoderSettings, load
    from rembrandt.parts.encoder.fit import network_of

    settings = EncoderSettings(str(folder), include_encoder=include_encoder)
    models = []
    for number in range(2):
        network_of.cache_clear()
        fitted(settings).save(tmp_path / f"model{number}")
        models.append(load(tmp_path / f"model{number}"))
    network_of.cache_clear()
    texts = [*TEXTS[:5], "a new red plum"]
    assert_array_equal(models[0].predict_proba(texts), models[1].predict_proba(texts))


def test_a_fit_with_cached_vectors_imports_no_libraries_of_networks(folder):
    outputs = []
    for _ in range(2):
        command = [sys.executable, "-c", FIT, str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        outputs.append(done.stdout.splitlines())
    assert outputs[0][0] == "torch transformers"
    assert outputs[1][0] == ""
    assert outputs[0][1] == outputs[1][1]
