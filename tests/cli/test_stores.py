"""Stores on the command line: every command takes a store in place of a file, with the same
results.
"""

import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.cli.conftest import FAST, TABLE


@pytest.fixture(scope="module")
def stores(data, run):
    """The tables and the features of ``data``, train and test, as stores of several shards."""
    run("data", "convert", data / "train.tsv", "-o", data / "texts", *TABLE, "--rows", 150)
    run(
        "data",
        "convert",
        data / "test.tsv",
        "-o",
        data / "texts-test",
        *TABLE,
        "--rows",
        70,
        "--like",
        data / "texts",
    )
    run("data", "convert", data / "train.txt", "-o", data / "features", "--rows", 150)
    return data


def test_convert_says_what_it_made(data, run, tmp_path):
    said = run(
        "data",
        "convert",
        data / "train.txt",
        "--output",
        tmp_path / "store",
        "--rows",
        300,
        "--json",
    ).json
    assert (said["n_examples"], said["n_features"], said["n_labels"], said["n_shards"]) == (
        800,
        800,
        40,
        3,
    )
    assert (
        "is a store already"
        in run("data", "convert", data / "train.txt", "-o", tmp_path / "store", code=1).err
    )
    said = run("data", "convert", data / "test.txt", "-o", tmp_path / "store", "--append").out
    assert "1,000 examples" in said and "rembrandt fit" in said


def test_a_model_of_a_store_is_that_of_the_file(stores, run, model, feature_model, tmp_path):
    for store, expected, test in (
        ("texts", model, "test.tsv"),
        ("features", feature_model, "test.txt"),
    ):
        said = run("fit", stores / store, "-o", tmp_path / store, *FAST).out
        assert "passes over the data" in said
        how = TABLE if test == "test.tsv" else ()
        measures = run("evaluate", tmp_path / store, stores / test, *how, "--json").json
        wanted = run("evaluate", expected, stores / test, "--json").json
        # Other rows are held out for the blend.
        assert measures["p@1"] == pytest.approx(wanted["p@1"], abs=0.03)
        assert measures["p@5"] == pytest.approx(wanted["p@5"], abs=0.02)


def test_settings_are_chosen_on_rows_of_a_store(stores, run, tmp_path):
    kernel = (
        "--decoder",
        "ridge",
        "--kernel",
        "gaussian",
        "--n-random-features",
        60,
        "--decoder-ridge",
        0.1,
    )
    said = run(
        "fit", stores / "texts", "-o", tmp_path / "model", *kernel, "--n-components", 10, "--json"
    ).json
    embedding = said["settings"]["parts"]["embedding"]["settings"]
    assert embedding["n_components"] == 10 and embedding["n_random_features"] == 60
    assert said["facts"]["held_out"][0]["held_out"] > 0
    run(
        "fit",
        stores / "texts",
        "-o",
        tmp_path / "logistic",
        *FAST,
        "--decoder",
        "logistic",
        "--n-components",
        10,
    )
    assert run("evaluate", tmp_path / "logistic", stores / "texts-test", "--json").json["p@1"] > 0.5


def test_predict_and_evaluate_take_a_store(stores, run, model):
    run(
        "data",
        "convert",
        stores / "test.tsv",
        "-o",
        stores / "like-model",
        *TABLE,
        "--rows",
        60,
        "--like",
        model,
    )
    from_file, from_store = (
        run("predict", model, stores / name).out for name in ("test.tsv", "like-model")
    )
    assert from_store == from_file
    figures = [
        run("evaluate", model, stores / name, "--json").json for name in ("test.tsv", "like-model")
    ]
    assert figures[0]["p@1"] == figures[1]["p@1"] and figures[0]["ndcg@5"] == figures[1]["ndcg@5"]


def test_embed_takes_a_store(stores, run, tmp_path):
    for source in ("features", "train.txt"):
        run("embed", stores / source, "-o", tmp_path / f"{source}.npz", "--n-components", 8)
    one, other = (np.load(tmp_path / f"{name}.npz") for name in ("features", "train.txt"))
    np.testing.assert_allclose(one["singular_values"], other["singular_values"], rtol=1e-4)


def test_words_that_a_model_does_not_know(stores, run, model):
    other = stores / "other-words"
    run("data", "convert", stores / "test.tsv", "-o", other, *TABLE, "--hashed")
    refused = run("predict", model, other, code=1).err
    assert "text features are not those" in refused and f"--like {model}" in refused


def test_refusals(stores, run, tmp_path):
    assert (
        "works on a store"
        in run("fit", stores / "train.txt", "-o", tmp_path / "m", "--device", "dask", code=1).err
    )
    assert (
        "takes no store"
        in run("fit", stores / "features", "-o", tmp_path / "m", "--device", "tpu", code=1).err
    )
    absent = ("--scheduler", "tcp://127.0.0.1:1")
    pytest.importorskip("distributed", reason="pip install 'rembrandt[dask]'")
    from rembrandt.engines import dask

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dask, "TIMEOUT", 1)
        assert (
            "no Dask scheduler"
            in run("fit", stores / "features", "-o", tmp_path / "m", *absent, *FAST, code=1).err
        )


def test_a_fit_on_a_cluster_of_this_machine(stores, run, tmp_path):
    pytest.importorskip("distributed", reason="pip install 'rembrandt[dask]'")
    here = run(
        "embed", stores / "features", "-o", tmp_path / "here.npz", "--n-components", 8, "--json"
    ).json
    output = ("-o", tmp_path / "there.npz", "--n-components", 8, "--json")
    there = run("embed", stores / "features", *output, "--device", "dask").json
    np.testing.assert_array_equal(there["singular_values"], here["singular_values"])


def wait_for(address):
    """Wait until a process listens at an address."""
    host, port = address.removeprefix("tcp://").split(":")
    for _ in range(1200):
        try:
            return socket.create_connection((host, int(port))).close()
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise TimeoutError(address)


def test_a_scheduler_that_is_killed_and_another(stores, run, tmp_path):
    pytest.importorskip("distributed", reason="pip install 'rembrandt[dask]'")
    from rembrandt.engines import dask
    from rembrandt.engines.dask import DaskExecutor, cluster

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    module, quiet = (
        (sys.executable, "-m", "distributed.cli.dask_scheduler"),
        {"stderr": subprocess.DEVNULL},
    )
    scheduler = subprocess.Popen([*module, "--host", address, "--no-dashboard"], **quiet)
    module = (sys.executable, "-m", "distributed.cli.dask_worker")
    worker = subprocess.Popen(
        [*module, address, "--no-nanny", "--no-dashboard", "--death-timeout", "5"], **quiet
    )
    in_shares = DaskExecutor.in_shares

    def killing(*task):
        scheduler.kill()
        return in_shares(*task)

    command = ("fit", stores / "features", *FAST)
    kept = ("-o", tmp_path / "resumed", "--checkpoint", tmp_path / "kept")
    try:
        wait_for(address)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dask, "TIMEOUT", 5)  # a client tries to connect again for so long
            patch.setattr(DaskExecutor, "in_shares", killing)  # in the decoder, after the embedding
            said = run(*command, *kept, "--scheduler", address, "--quiet", code=1).err
    finally:
        scheduler.kill()
        worker.kill()
        scheduler.wait()
        worker.wait()
    assert (
        said.count("\n") == 1 and f"scheduler at {address} is gone" in said and "checkpoint" in said
    )
    assert not (tmp_path / "resumed").exists() and list((tmp_path / "kept").glob("embedding.*"))
    with cluster(workers=1) as client:
        said = run(*command, *kept, "--scheduler", client.scheduler.address).out
    assert "checkpoints of an earlier run: settings, embedding" in said
    assert "The decoder took 2 passes" in said and "The embedding took" not in said
    run(*command, "-o", tmp_path / "here")
    one, other = (
        (tmp_path / name / "weights.safetensors").read_bytes() for name in ("resumed", "here")
    )
    assert one == other
