"""Matrices that tests draw from."""

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

DTYPES = (np.float32, np.float64)


@st.composite
def csr_matrices(draw):
    """CSR matrices of any shape, with empty rows and columns, in either precision."""
    n, d = draw(st.integers(0, 12)), draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    dense = rng.standard_normal((n, d)) * (
        rng.random((n, d)) < draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    )
    dense[rng.random(n) < draw(st.sampled_from([0.0, 0.5]))] = 0
    return sparse.csr_array(dense.astype(draw(st.sampled_from(DTYPES))))


def assert_product(found, A, Z):
    """``found`` is ``A @ Z`` in the wider precision of the two, to what rounding allows entry by
    entry.
    """
    assert found.dtype == np.result_type(A.dtype, Z.dtype)
    expected = A.astype(np.float64) @ Z.astype(np.float64)
    size = abs(A).astype(np.float64) @ np.abs(Z).astype(np.float64)  # what rounding is relative to
    slack = 20 * np.finfo(found.dtype).eps * np.sqrt(max(A.nnz, 1))
    assert found.shape == expected.shape
    assert (np.abs(found - expected) <= slack * size).all()
