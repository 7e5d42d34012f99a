"""The table of programs: its page agrees with the stored results, and every adapter keeps the
contract.
"""

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.peers import prepare, report, runner, scoring
from benchmarks.peers.environments import python_of
from benchmarks.peers.harness import padded, pairs, unit_rows
from benchmarks.peers.roster import SETS, everyone
from scipy import sparse

from rembrandt.data.generated import labelled_documents
from rembrandt.data.reader import read

PEERS = {peer.slug: peer for peer in everyone()}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return documents of a few topics, prepared like a named set."""
    folder = tmp_path_factory.mktemp("sets") / "tiny-0123"
    folder.mkdir()
    train, test = labelled_documents(800, n_topics=4, labels_per_topic=4)
    prepare.write("tiny", train, test, folder)
    return folder


def test_the_page_agrees_with_the_stored_results():
    rows, page = report.read_summary(), report.PAGE.read_text()
    assert rows and report.with_section(page, rows) == page, (
        "run python -m benchmarks.table --write"
    )
    short = report.README.read_text()
    assert report.with_section(short, rows, report.overview) == short, (
        "run python -m benchmarks.table --write"
    )


def test_every_row_has_a_unique_name_and_an_adapter():
    assert len(PEERS) == len(everyone())
    adapters = Path(runner.__file__).parent / "adapters"
    assert all((adapters / f"{peer.adapter}.py").is_file() for peer in everyone())


@pytest.mark.parametrize("slug", list(PEERS))
def test_each_peer_learns_and_is_measured(slug, data, tmp_path):
    peer = PEERS[slug]
    if python_of(peer.environment) is None:
        pytest.skip(
            f"{peer.name} is not installed; python -m benchmarks.table --install creates its "
            "environment"
        )
    result = runner.measure(peer, "tiny", data, tmp_path, limit=60, timeout=120)
    Y = sparse.load_npz(data / "Y_train.npz")
    popular = np.bincount(Y.indices).max() / Y.shape[0]
    assert result["p@1"] > popular + 0.2
    assert (
        result["train_cpu"] > 0 and result["train_wall"] > 0 and result["examples_per_second"] > 0
    )
    assert result["gigabytes"] > 0.01 and result["model_megabytes"] > 0 and result["versions"]
    assert runner.stored(tmp_path, peer, "tiny", data) == json.loads(json.dumps(result))
    terms = scoring.read_terms(runner.stored_file(tmp_path, peer, "tiny").with_suffix(".npz"))
    assert all(
        scoring.means(terms)[name] == pytest.approx(result[name], rel=1e-5) for name in terms
    )
    if peer.adapter == "rembrandt":
        assert (
            0 <= result["calibration_error"] < 0.2
            and result["f1_share"] > 0.8
            and "tail psp@5" in terms
        )
    other_settings, other_features = (
        replace(peer, settings={"some": 3}),
        data.with_name("tiny-4567"),
    )
    assert runner.stored(tmp_path, other_settings, "tiny", data) is None
    assert runner.stored(tmp_path, peer, "tiny", other_features) is None


def test_a_fit_that_takes_too_long_is_not_run(data, tmp_path):
    result = runner.measure(
        PEERS["scikit-learn-one-vs-rest"], SETS[0], data, tmp_path, limit=0, timeout=120
    )
    assert "estimated" in result["not_run"] and "p@1" not in result
    (line,) = report.collect(tmp_path, [])
    assert "p@1" not in line and "not_run" in line


def test_a_program_that_is_not_installed_is_skipped_with_a_remedy(data, tmp_path, monkeypatch):
    monkeypatch.setenv("REMBRANDT_BENCH_CACHE", str(tmp_path))
    with pytest.raises(runner.SkippedError, match="--install --peers 'omikuji'"):
        runner.measure(PEERS["omikuji"], "bibtex", data, tmp_path, limit=60, timeout=120)


def test_the_error_of_a_program_is_reported(data, tmp_path):
    broken = replace(PEERS["scikit-learn-one-vs-rest"], settings={"no_such_setting": 1})
    with pytest.raises(runner.FailedError, match="no_such_setting"):
        runner.measure(broken, "bibtex", data, tmp_path, limit=60, timeout=120)


def test_processes_of_a_program_end_with_its_timeout(tmp_path):
    mark = tmp_path / "alive"
    script = f"(while true; do touch {mark}; sleep 0.05; done) & sleep 60"
    with (tmp_path / "log").open("w") as log:
        assert runner._ended(["bash", "-c", script], log, 1) is None
    mark.unlink(missing_ok=True)
    time.sleep(1)
    assert not mark.exists()


def test_two_measurements_at_once_are_refused(tmp_path):
    with (
        runner.alone(tmp_path),
        pytest.raises(SystemExit, match="another measurement"),
        runner.alone(tmp_path),
    ):
        pass


def test_with_one_prediction_per_row_only_precision_at_one_is_measured(data):
    n, c = sparse.load_npz(data / "Y_test.npz").shape
    one = np.full((n, 5), -1)
    one[:, 0] = np.arange(n) % c
    assert set(scoring.means(scoring.Truth.load(data).terms(one))) == {
        "error",
        "p@1",
        "r@1",
        "f1@1",
        "ndcg@1",
        "psp@1",
    }


def test_tables_show_the_best_in_bold_and_a_dash_for_missing_values():
    facts = {"peer": "A", "set": SETS[0], "train_cpu": 1.0}
    rows = [facts | {"p@1": 0.5, "p@3": 0.25}, facts | {"peer": "B", "p@1": 0.75}]
    text = report.table(rows, markdown=True)
    assert text[2].startswith("| A | 50.00 | **25.00** | –") and text[3].startswith(
        "| B | **75.00** | – | –"
    )


def test_words_and_text_formats_agree_with_the_arrays(data):
    X = sparse.load_npz(data / "X_train.npz")
    assert len((data / "words_train.txt").read_text().splitlines()) == X.shape[0]
    for row, line in enumerate(pairs(X[:20])):
        dense = np.zeros(X.shape[1])
        for entry in line.split():
            column, value = entry.split(":")
            dense[int(column)] = float(value)
        np.testing.assert_allclose(dense, X[[row]].toarray()[0], rtol=1e-5)


def test_the_text_file_has_the_rows_that_have_features(data):
    X, Y = (sparse.csr_array(sparse.load_npz(data / f"{name}_train.npz")) for name in "XY")
    kept = np.diff(X.indptr) > 0
    found = read(data / "train.txt", format="repository")
    np.testing.assert_array_equal(found.Y.toarray(), Y[kept].toarray())
    np.testing.assert_allclose(found.X.toarray(), X[kept].toarray(), rtol=1e-5)


def test_unit_rows_and_lists_of_different_lengths():
    X = unit_rows(sparse.csr_array(np.array([[3.0, 4.0], [0.0, 0.0]], np.float32)))
    np.testing.assert_allclose(X.toarray(), [[0.6, 0.8], [0.0, 0.0]], rtol=1e-6)
    assert padded([[1, 2, 3], [], [4]], 2).tolist() == [[1, 2], [-1, -1], [4, -1]]
