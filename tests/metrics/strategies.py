"""Small random problems: sparse truth, ranked predictions, training counts."""

import numpy as np
from hypothesis import strategies as st
from scipy import sparse


@st.composite
def problems(draw, max_rows=8, max_labels=9):
    """Truth (rows may be empty), predictions without repetition and with some -1, counts,
    n_train.
    """
    n, c = draw(st.integers(1, max_rows)), draw(st.integers(1, max_labels))
    k = draw(st.integers(1, c))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    truth = rng.random((n, c)) < draw(st.sampled_from([0.0, 0.2, 0.6]))
    labels = np.argsort(rng.random((n, c)), axis=1)[:, :k]
    labels[rng.random(labels.shape) < draw(st.sampled_from([0.0, 0.3]))] = -1
    counts = rng.integers(0, 50, c)
    return sparse.csr_array(truth.astype(np.int8)), labels, counts, 50 + n
