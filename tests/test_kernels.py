"""Kernels: what they cost, where they are kept, and that those of a fit are compiled ahead."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rembrandt
from rembrandt.kernels import DECLARED, caching, kernel
from rembrandt.kernels.caching import source_version
from rembrandt.kernels.compiling import MODULES, USUAL_MODULES, Variant, _shares

FIT_AND_PREDICT = """
import gc
import tempfile
from rembrandt import RembrandtClassifier, load
from rembrandt.data.generated import labelled_documents
from rembrandt.kernels import Kernel
from rembrandt.kernels.compiling import Variant
data, _ = labelled_documents(160)
classifier = RembrandtClassifier(random_state=0).fit_dataset(data)
classifier.predict_labels(data.texts[:3], k=5)
texts = ["fried fish", "grilled fish", "baked bread", "fresh bread"] * 40
named = RembrandtClassifier(random_state=0).fit(texts, [[text.split()[1]] for text in texts])
assert "names" in named.model_.parts
named.predict_labels(["fresh fish"], k=2)
with tempfile.TemporaryDirectory() as folder:
    named.save(f"{folder}/model")
    # Its arrays cannot be written.
    load(f"{folder}/model").predict_labels(["fresh fish"], k=2)
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
    assert not {"numba", "scipy.stats", "scipy.optimize", "pandas"} & set(modules)


def test_a_fit_loads_no_part_of_scikit_learn_that_fits():
    program = f"{FIT_AND_PREDICT}\nimport sys; print(*sys.modules)"
    loaded = set(run(program).stdout.split())
    assert not {"scipy.stats", "pandas", "sklearn.linear_model", "sklearn.metrics"} & loaded


def test_compiled_code_is_loaded_without_what_numba_compiles():
    run("from rembrandt.kernels.compiling import compile_kernels; compile_kernels()")
    loaded = set(run(f"{FIT_AND_PREDICT}\nimport sys; print(*sys.modules)").stdout.split())
    assert not {"numba.np.arrayobj", "numba.cpython.unicode"} & loaded


def test_sparse_matrices_load_without_the_tests_of_numpy():
    program = (
        "import sys, rembrandt.estimators, numpy\n"
        "print(*(name for name in sys.modules if name in ('numpy.f2py', 'numpy.testing')))\n"
        "from numpy import testing\n"
        "testing.assert_array_equal([1], [1]); numpy.polynomial.Polynomial([1, 2])(3)\n"
        "print(numpy.testing is testing, numpy.f2py.__name__)"
    )
    assert run(program).stdout.splitlines() == ["", "True numpy.f2py"]


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
    before = source_version(double)
    assert source_version(double) == before
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert source_version(double) != before


def test_the_version_of_a_kernel_is_the_same_in_every_process_and_follows_its_options():
    program = (
        "from rembrandt.kernels.caching import source_version\n"
        "from rembrandt.linalg.hinge import _fit_labels\n"
        "print(source_version(_fit_labels.py_func, **_fit_labels.targetoptions))"
    )
    versions = {run(program, PYTHONHASHSEED=seed).stdout for seed in ("0", "1", "2", "3")}
    assert len(versions) == 1
    assert source_version(double, fastmath={"contract"}) != source_version(double)


def declared_variants():
    for module in MODULES:
        importlib.import_module(module)
    return [Variant(declared, text) for declared in DECLARED for text in declared.signatures]


def test_processes_share_all_variants():
    variants = declared_variants()
    shares = _shares(variants, 3)
    shared = [id(variant) for share in shares for variant in share]
    assert sorted(shared) == sorted(map(id, variants))
    sizes = [sum(variant.size for variant in share) for share in shares]
    assert max(sizes) < sum(variant.size for variant in variants)


def test_another_process_finds_a_variant_by_its_reference():
    for variant in declared_variants():
        assert Variant.referred(json.loads(json.dumps(variant.reference()))) == variant


def test_all_modules_with_declared_kernels_are_listed():
    folder = Path(rembrandt.__file__).parent
    for path in folder.rglob("*.py"):
        if "kernels" not in path.parts and "@kernel(" in path.read_text(encoding="utf-8"):
            name = path.relative_to(folder.parent).with_suffix("")
            importlib.import_module(".".join(name.parts))
    modules = {declared.py_func.__module__ for declared in DECLARED}
    assert {name for name in modules if name.startswith("rembrandt.")} == set(MODULES)


def test_a_fit_compiles_no_kernels_of_parts_that_it_does_not_have(tmp_path):
    program = (
        "import numpy as np\n"
        "from rembrandt import RembrandtClassifier\n"
        "from rembrandt.kernels import DECLARED, Kernel, compiling\n"
        "compiled = []\n"
        "compiling.Variant.is_missing = lambda variant: True\n"
        "compiling.Variant.compile = lambda variant: compiled.append(variant)\n"
        "compiling._n_cpus = lambda: 1\n"
        "X = np.random.default_rng(0).random((60, 8))\n"
        "RembrandtClassifier('fast').fit(X, np.arange(60) % 3)\n"
        "print(*sorted({variant.reference()[0] for variant in compiled}))"
    )
    assert run(program).stdout.split() == sorted(USUAL_MODULES)


COMPILED_BY_TWO = """
import os, sys
from pathlib import Path
from rembrandt.kernels import caching, compiling
saved = caching.KernelCache.save_overload
def noted(self, signature, result):
    with open(os.environ["NOTES"], "a") as file:
        print(self._written._index_name, signature, file=file)
    saved(self, signature, result)
caching.KernelCache.save_overload = noted
"""


def test_no_variant_is_compiled_twice(tmp_path):
    """A helping process imports fewer modules than a fit, and begins later."""
    (tmp_path / "sitecustomize.py").write_text(COMPILED_BY_TWO)
    package = shutil.copytree(
        Path(rembrandt.__file__).parent,
        tmp_path / "rembrandt",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    program = (
        "from rembrandt.kernels import compiling\n"
        "compiling._n_cpus = lambda: 2\n"
        f"print(compiling.compile_kernels(modules={MODULES[:2]!r}))"
    )
    environment = {
        "PYTHONPATH": str(package.parent),
        "NUMBA_CACHE_DIR": str(tmp_path / "compiled"),
        "HOME": str(tmp_path / "home"),
        "XDG_CACHE_HOME": str(tmp_path / "home"),
        "NOTES": str(tmp_path / "notes"),
    }
    n_compiled = int(run(program, **environment).stdout)
    notes = (tmp_path / "notes").read_text().splitlines()
    assert len(set(notes)) == len(notes) == n_compiled > 2


def test_rembrandt_compile_says_where_it_keeps_what_it_compiled():
    program = "from rembrandt.__main__ import main; main(['compile', '--json'])"
    assert '"folder"' in run(program).stdout
