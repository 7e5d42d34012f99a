"""Matrices with very many columns, of which few are used."""

import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from rembrandt import LabelEmbedder, RembrandtClassifier, read
from rembrandt.data.arrays import select_columns
from rembrandt.data.convert import convert
from rembrandt.data.rows import MAX_EMPTY_COLUMNS, as_rows, check_width, label_feature_pairs
from rembrandt.errors import DataError
from rembrandt.linalg.sparse import used_columns


def spread(n_columns, seed=0):
    """Rows with few entries in columns far apart, and the same rows without the columns between."""
    rng = np.random.default_rng(seed)
    dense = rng.standard_normal((40, 12)).astype(np.float32)
    dense[rng.random((40, 12)) < 0.7] = 0
    dense[7] = dense[3]
    narrow = sparse.csr_array(dense)
    places = np.sort(rng.choice(n_columns, 12, replace=False))
    places[-1] = n_columns - 1
    indices = places[narrow.indices].astype(np.int32)
    wide = sparse.csr_array((narrow.data, indices, narrow.indptr), shape=(40, n_columns))
    return wide, narrow, places


@pytest.mark.parametrize("n_columns", [13, 50_000, 2**31 - 1])
def test_work_grows_with_the_columns_in_use(n_columns):
    wide, narrow, places = spread(n_columns)
    used = used_columns(wide)
    assert_array_equal(used, places[used_columns(narrow)])
    Y = sparse.csr_array(np.eye(4, dtype=np.float32)[np.arange(40) % 4])
    pairs = [label_feature_pairs(as_rows(X), Y) for X in (wide, narrow)]
    assert pairs[0] == pairs[1] > 0


@pytest.mark.parametrize("n_columns", [13, 50_000, 2**31 - 1])
@pytest.mark.parametrize(
    "chosen", [[], [0, 1, 2], [11, 4, 7], [5, -1, 3, -1], [-1], list(range(12))]
)
def test_columns_of_wide_and_narrow_matrices_are_selected_alike(n_columns, chosen):
    wide, narrow, places = spread(n_columns)
    chosen = np.array(chosen, dtype=np.int64)
    expected = select_columns(narrow, chosen)
    result = select_columns(wide, np.where(chosen < 0, -1, places[chosen]))
    assert result.shape == expected.shape
    assert_array_equal(result.toarray(), expected.toarray())


def test_a_column_that_no_row_has_is_zero():
    wide, _, places = spread(50_000)
    unused = np.setdiff1d(np.arange(50_000), places)[[0, -1]]
    assert select_columns(wide, unused).nnz == 0


def test_nearly_empty_columns_are_refused_before_anything_is_allocated():
    wide, narrow, _ = spread(2**31 - 1)
    with pytest.raises(DataError, match=r"2,147,483,647 columns, and the number of its entries"):
        check_width(as_rows(wide))
    check_width(as_rows(narrow))
    check_width(as_rows(sparse.csr_array((1, MAX_EMPTY_COLUMNS), dtype=np.float32)))
    y = np.arange(40) % 4
    for estimator in (RembrandtClassifier(), LabelEmbedder(2)):
        with pytest.raises(DataError, match="Number the features without gaps"):
            estimator.fit(wide, y)


@pytest.mark.parametrize("name", ["a.svm", "a.txt"])
def test_one_very_large_id_in_a_file(tmp_path, name):
    lines = [f"{i % 3} {i % 5}:1" for i in range(20)] + ["0 2147483646:1"]
    if name == "a.txt":
        lines.insert(0, "21 2147483647 3")
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    data = read(path)
    assert data.X.shape == (21, 2**31 - 1)
    convert([path], tmp_path / "store")
    for examples in (data, read(tmp_path / "store")):
        with pytest.raises(DataError, match="nearly all columns are empty"):
            RembrandtClassifier().fit_dataset(examples)


def test_ids_of_hundreds_of_millions_take_memory_for_their_entries_alone(tmp_path):
    """300 rows with 20 of 200 million ids; an array of all columns would take 800 MB."""
    rng = np.random.default_rng(0)
    path = tmp_path / "a.svm"
    lines = []
    for row in range(300):
        ids = np.unique(rng.integers(0, 200_000_000, 20))
        lines.append(f"{row % 3} " + " ".join(f"{number}:1" for number in ids))
    path.write_text("\n".join(lines) + "\n")
    program = """
import resource, sys
import numpy as np
from scipy import sparse
from rembrandt import LabelEmbedder, RembrandtClassifier, read
from rembrandt.data.convert import convert
from rembrandt.errors import DataError

known = sparse.csr_array(np.eye(3))
fitted = RembrandtClassifier("fast", random_state=0).fit(known, ["a", "b", "c"])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
data = read(sys.argv[1])
convert([sys.argv[1]], sys.argv[2])
stored = read(sys.argv[2])
uses = (
    lambda: RembrandtClassifier().fit_dataset(data),
    lambda: RembrandtClassifier().fit_dataset(stored),
    lambda: LabelEmbedder(2).fit(data.X, data.Y),
    lambda: fitted.predict(data.X),
)
for use in uses:
    try:
        use()
    except DataError as error:
        print("refused:", error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    command = [sys.executable, "-c", program, str(path), str(tmp_path / "store")]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    *refusals, megabytes = ran.stdout.splitlines()
    assert len(refusals) == 4
    assert int(megabytes) < 200
