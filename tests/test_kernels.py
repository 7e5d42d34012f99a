"""Kernels: what they cost, where they are kept, and that those of a fit are compiled ahead."""

import os
import subprocess
import sys

import numpy as np
import pytest

from rembrandt.kernels import DECLARED, caching, kernel
from rembrandt.kernels.caching import source_version
from rembrandt.kernels.compiling import Variant, _share
from rembrandt.linalg.ranking import top_k

FIT_AND_PREDICT = """
import gc
from rembrandt import RembrandtClassifier
from rembrandt.data.generated import labelled_documents
from rembrandt.kernels import Kernel
from rembrandt.kernels.compiling import Variant
data, _ = labelled_documents(160)
classifier = RembrandtClassifier(random_state=0).fit_dataset(data)
classifier.predict_labels(data.texts[:3], k=5)
for kernel in [item for item in gc.get_objects() if isinstance(item, Kernel)]:
    if kernel.is_inner or kernel._dispatcher is None:
        continue
    declared = [Variant(kernel, signature).arguments for signature in kernel.signatures]
    for used in kernel.dispatcher.overloads:
        if used not in declared:
            print("not declared:", kernel.__name__, used)
"""


def run(program, **environment):
    return subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )


def test_a_fit_and_a_prediction_use_only_variants_that_are_compiled_ahead():
    assert run(FIT_AND_PREDICT).stdout == ""


def test_commands_that_compute_nothing_load_neither_numba_nor_statistics():
    loaded = "import sys, rembrandt.cli.app, rembrandt.estimators; print(*sys.modules)"
    modules = run(loaded).stdout.split()
    assert not {"numba", "scipy.stats", "pandas"} & set(modules)


def test_what_stood_in_for_a_module_is_the_module_once_it_is_used():
    program = (
        "import rembrandt.scikit, sklearn.utils.fixes as fixes, scipy.stats, sys\n"
        "assert scipy.stats is sys.modules['scipy.stats']\n"
        "print(scipy.stats.norm.cdf(0.0), fixes.scipy.stats is scipy.stats)"
    )
    assert run(program).stdout.split() == ["0.5", "True"]


def test_without_a_folder_that_can_be_written_it_compiles_in_memory(monkeypatch):
    monkeypatch.setattr(caching, "_folders", lambda: iter(()))
    caching.writable_folder.cache_clear()
    caching.readable_folders.cache_clear()
    try:
        with pytest.warns(UserWarning, match="set NUMBA_CACHE_DIR"):
            doubled = kernel()(double)
            assert doubled(np.arange(3.0)) == 6.0
        assert doubled.dispatcher._cache.cache_path is None
    finally:
        caching.writable_folder.cache_clear()
        caching.readable_folders.cache_clear()


def double(values):
    total = 0.0
    for i in range(values.shape[0]):
        total += FACTOR * values[i]
    return total


FACTOR = 2.0


def test_the_version_of_a_kernel_follows_its_constants_and_those_it_calls(monkeypatch):
    before = source_version.__wrapped__(double)
    assert source_version.__wrapped__(double) == before
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert source_version.__wrapped__(double) != before


def test_processes_share_all_variants():
    _ = top_k
    variants = [Variant(declared, text) for declared in DECLARED for text in declared.signatures]
    shares = [_share(variants, number, 3) for number in range(3)]
    shared = [id(variant) for share in shares for variant in share]
    assert sorted(shared) == sorted(map(id, variants))
    sizes = [sum(variant.size for variant in share) for share in shares]
    assert max(sizes) < sum(variant.size for variant in variants)


def test_rembrandt_compile_says_where_it_keeps_what_it_compiled():
    program = "from rembrandt.__main__ import main; main(['compile', '--json'])"
    assert '"folder"' in run(program).stdout
