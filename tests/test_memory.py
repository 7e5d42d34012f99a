"""A fit that does not fit in memory is refused before it begins."""

import inspect
import os
import subprocess
import sys
import textwrap
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from rembrandt import LabelEmbedder, RembrandtClassifier, memory
from rembrandt.engines.backend import Backend
from rembrandt.errors import MemoryEstimateError
from rembrandt.memory import Shape, available, check, estimate
from rembrandt.parts.embedding.settings import EmbeddingSettings
from tests.estimators.problems import settled

DECODERS = (
    "ridge",
    "logistic",
    "transpose",
    "candidates",
)  # kinds of a shape: a discriminant is one of ridge
SMALL = Shape(n=1000, d=100, c=50, nonzeros=20_000, k=20, width=40, mapped=20, decoder="ridge")
ABSURD = replace(SMALL, n=10**9, d=10**8, c=10**8, nonzeros=10**11, k=1000, width=1020, mapped=5000)


def test_trees_count_and_can_be_left_out():
    with_trees = replace(SMALL, together=10**12)
    assert estimate(with_trees)["total"] > estimate(SMALL)["total"]
    with pytest.raises(MemoryEstimateError, match=r"GiB trees.*parts=\('embedding',\)") as refused:
        check(with_trees)
    assert refused.value.parameters == ("n_components", "decoder", "parts")
    alone = replace(with_trees, k=0, width=0, mapped=0, decoder="transpose")
    assert estimate(alone)["embedding"] == estimate(alone)["decoder"] == 0
    with pytest.raises(MemoryEstimateError) as refused:
        check(alone)
    assert refused.value.parameters == ("parts",), "there is no embedding to make smaller"


@pytest.mark.parametrize("decoder", DECODERS)
def test_what_is_advised_are_parameters(decoder):
    known = {
        *inspect.signature(RembrandtClassifier).parameters,
        *(field.name for field in fields(EmbeddingSettings)),
    }
    with pytest.raises(MemoryEstimateError) as refused:
        check(replace(ABSURD, decoder=decoder, together=10**12))
    assert set(refused.value.parameters) <= known


def test_a_small_problem_needs_little():
    assert estimate(SMALL)["total"] - memory.LIBRARY_BYTES < 10 * 2**20
    assert check(SMALL) == estimate(SMALL)["total"]


def test_the_total_is_the_data_and_the_largest_stage():
    parts = estimate(ABSURD)
    assert parts["total"] == memory.LIBRARY_BYTES + parts["data"] + max(
        parts["embedding"], parts["decoder"]
    )


def test_parts_that_are_fitted_at_the_same_time_count_together():
    shape = replace(SMALL, together=10**5, n_trees=3, trees_at_once=2)
    one_by_one = estimate(shape)
    at_once = estimate(replace(shape, parts_at_once=True))
    largest = max(one_by_one["embedding"], one_by_one["decoder"])
    sums = 8 * 2 * shape.c * shape.d
    stages = at_once["trees"] + sums + largest
    assert at_once["total"] == memory.LIBRARY_BYTES + at_once["data"] + stages
    assert at_once["total"] > one_by_one["total"]


@pytest.mark.parametrize("part", ["n", "d", "c", "nonzeros", "k", "width", "mapped"])
@pytest.mark.parametrize("decoder", DECODERS)
def test_more_of_anything_never_needs_less(part, decoder):
    shape = replace(SMALL, decoder=decoder)
    larger = replace(shape, **{part: 1000 * getattr(shape, part)})
    assert estimate(larger)["total"] >= estimate(shape)["total"]
    assert any(
        estimate(larger)[name] > estimate(shape)[name] for name in ("data", "embedding", "decoder")
    )


@pytest.mark.parametrize(
    ("decoder", "more"), [("transpose", 0), ("ridge", 0), ("ridge", 1000), ("logistic", 1000)]
)
def test_the_decoder_weights_are_counted(decoder, more):
    shape = replace(SMALL, decoder=decoder, mapped=SMALL.k + more, c=10**6)
    assert estimate(shape)["decoder"] >= 4 * shape.mapped * shape.c


def test_the_refusal_has_the_estimate_and_advice():
    with pytest.raises(MemoryEstimateError) as refused:
        check(ABSURD)
    text = str(refused.value)
    total = estimate(ABSURD)["total"] / 2**30
    assert f"needs about {total:.1f} GiB" in text
    assert "n_components (now 1000)" in text
    assert "decoder='transpose'" in text
    assert "n_random_features" in text
    assert "kernel=None" in text
    assert refused.value.parameters == ("n_components", "decoder", "n_random_features", "kernel")


def test_systems_without_proc_or_sysconf(tmp_path, monkeypatch):
    assert 0 < available(tmp_path) < sys.maxsize
    monkeypatch.delattr(os, "sysconf")
    assert available(tmp_path) == sys.maxsize
    for name, size in (("memory.max", 5000), ("memory.current", 2000)):
        (tmp_path / "sys/fs/cgroup").mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys/fs/cgroup" / name).write_text(f"{size}\n")
    assert available(tmp_path) == 3000


def test_limits_of_control_groups(tmp_path):
    """The group of the process and those above it count, and files that are only cached do not."""

    def group(path, limit, used, cached=0, names=("memory.max", "memory.current", "inactive_file")):
        folder = tmp_path / "sys/fs/cgroup" / path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / names[0]).write_text(f"{limit}\n")
        (folder / names[1]).write_text(f"{used}\n")
        (folder / "memory.stat").write_text(f"anon 1\n{names[2]} {cached}\n")

    proc = tmp_path / "proc/self"
    proc.mkdir(parents=True)
    (proc / "cgroup").write_text("0::/a/b\n")
    group("a/b", "max", 1)
    assert available(tmp_path) > 10_000
    group("a", 9_000, 4_000, cached=1_000)
    assert available(tmp_path) == 6_000
    group("a/b", 1_000, 900)
    assert available(tmp_path) == 100
    group("a/b", 1_000, 5_000)
    assert available(tmp_path) == 0
    (proc / "cgroup").write_text("5:cpu,memory:/c\n4:pids:/a\n")
    group(
        "memory/c",
        700,
        300,
        50,
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    )
    assert available(tmp_path) == 450


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on the address space")
def test_a_limit_on_the_address_space():
    script = """
        import resource
        from rembrandt.memory import available
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        print(available())
    """
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    assert 1 << 30 < int(answer.stdout) < 4 << 30


def test_no_advice_that_is_followed_already():
    with pytest.raises(MemoryEstimateError) as refused:
        check(replace(ABSURD, decoder="transpose", mapped=ABSURD.k))
    assert "decoder='transpose'" not in str(refused.value)
    assert "n_random_features" not in str(refused.value)


def test_free_memory_is_plausible():
    assert 0 < available() <= 2**50


def problem():
    X = sparse.random_array((240, 10), density=0.5, rng=np.random.default_rng(0)).tocsr()
    return X, np.arange(240) % 3


@pytest.mark.parametrize(
    "estimator",
    [
        RembrandtClassifier(**settled(n_components=2)),
        RembrandtClassifier(),
        RembrandtClassifier(preset="fast"),
        RembrandtClassifier(preset="best"),
        RembrandtClassifier(budget=60.0),
        LabelEmbedder(2),
    ],
    ids=["settled", "balanced", "fast", "best", "search", "embedder"],
)
def test_nothing_begins_that_does_not_fit(monkeypatch, estimator):
    def begun(*_, **__):
        raise AssertionError("the fit began")

    monkeypatch.setattr(memory, "available", lambda: 1000)
    monkeypatch.setattr(Backend, "engine", begun)
    monkeypatch.setattr(Backend, "hinge", begun)
    with pytest.raises(MemoryEstimateError, match="GiB is free"):
        estimator.fit(*problem())


def test_an_absurd_shape_is_refused():
    """A million labels, each with a vector of 100,000: refused, not tried."""
    X = sparse.random_array((60, 10), density=0.5, rng=np.random.default_rng(0)).tocsr()
    Y = sparse.csr_array((np.ones(60), (np.arange(60), np.arange(60) * 10**4)), shape=(60, 10**6))
    with pytest.raises(MemoryEstimateError, match=r"a smaller n_components \(now 100000\)"):
        RembrandtClassifier(**settled(n_components=100_000)).fit(X, Y)


def test_a_device_has_a_memory_of_its_own(monkeypatch):
    """The refusal names the device."""
    from rembrandt.engines.torch_backend import TorchBackend

    monkeypatch.setattr(TorchBackend, "available", lambda _: 1000)
    with pytest.raises(MemoryEstimateError, match=r"needs about .* 0.0 GiB is free on cpu,cpu"):
        RembrandtClassifier(**settled(n_components=2, device="cpu,cpu")).fit(*problem())


@pytest.mark.skipif(
    sys.platform != "linux", reason="only the C library of Linux keeps freed memory"
)
def test_freed_memory_is_given_back():
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    kept = [bytes(100_000) for _ in range(2000)]  # below the size that is mapped by itself
    last = bytes(100_000)  # keeps the top of the heap in use
    full = resident()
    del kept
    memory.trim()
    assert resident() < full - 100_000_000 and len(last) == 100_000
