"""Files without labels: plain lines of text, and matrices of features."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from rembrandt.data import read
from rembrandt.errors import DataError

LINES = st.lists(st.text("aß 字", max_size=5), min_size=1).filter(
    lambda lines: any(map(len, lines))
)


@given(LINES)
def test_every_line_is_a_text(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = tmp_path_factory.mktemp("lines") / "texts.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    data = read(path, "lines", unlabelled=True)
    assert data.texts == [line.strip() for line in lines] and data.Y.shape == (len(lines), 0)


def test_lines_have_no_labels(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("one\n")
    with pytest.raises(DataError, match="have no labels") as refused:
        read(tmp_path / "texts.txt", "lines")
    assert refused.value.parameters == ("format",)


def test_a_matrix_alone(tmp_path: Path) -> None:
    X = sp.random_array((5, 4), density=0.5, rng=np.random.default_rng(0), dtype=np.float32).tocsr()
    sp.save_npz(tmp_path / "X.npz", X)
    data = read(tmp_path / "X.npz", unlabelled=True)
    assert data.Y.shape == (5, 0) and data.X is not None and (data.X != X).nnz == 0
    with pytest.raises(DataError, match="labels are in another file") as refused:
        read(tmp_path / "X.npz")
    assert refused.value.parameters == ("labels",)
