"""Matrices with very many columns, of which few are used."""

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
