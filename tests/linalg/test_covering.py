"""Rows that are chosen to cover others, against a loop over all gains."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from rembrandt.linalg.covering import Covering


def greedy(blocks: list[Any], weights: Any, n: int) -> list[int]:
    similarity: Any = 0
    for block in blocks:
        dense = block.toarray() if sparse.issparse(block) else block
        lengths = np.linalg.norm(dense, axis=1, keepdims=True)
        unit = dense / np.where(lengths > 0, lengths, 1)
        similarity = similarity + unit @ unit.T
    similarity = np.maximum(similarity / len(blocks), 0)
    covered = np.zeros(len(weights))
    chosen: list[int] = []
    for _ in range(n):
        gains = weights * (weights @ np.maximum(similarity - covered[:, None], 0))
        gains[chosen] = -1
        row = int(gains.argmax())
        chosen.append(row)
        covered = np.maximum(covered, similarity[:, row])
    return chosen


@pytest.mark.parametrize("scale", [1, 10])
@pytest.mark.parametrize("kind", ["sparse", "dense", "both"])
def test_each_row_is_the_one_that_adds_most(kind: str, scale: float) -> None:
    rng = np.random.default_rng(0)
    words = sparse.random_array((150, 60), density=0.1, format="csr", rng=rng)
    vectors = rng.standard_normal((150, 8))
    blocks = {"sparse": [words], "dense": [vectors], "both": [words, vectors]}[kind]
    weights = scale * rng.random(150)
    assert Covering(blocks, weights).choose(40).tolist() == greedy(blocks, weights, 40)


def test_equal_rows_do_not_follow_each_other() -> None:
    rows = sparse.csr_array(np.repeat(np.eye(4), [5, 4, 3, 1], axis=0))
    chosen = Covering([rows], np.ones(13)).choose(20)
    assert chosen[:4].tolist() == [0, 5, 9, 12]
    assert sorted(chosen.tolist()) == list(range(13))


def test_rows_like_known_ones_come_late() -> None:
    rows = np.repeat(np.eye(3), [3, 2, 1], axis=0)
    covering = Covering([rows], np.ones(6))
    covering.cover([np.eye(3)[:1]])
    assert covering.choose(2).tolist() == [3, 5]


def test_a_row_whose_bound_is_its_gain_comes_before_one_that_adds_little_less() -> None:
    """The bound of the other rows is twice their gain, so that their gains are known first."""
    rows = np.array([[0.0, 1.0, 1.0], [0.0, 1.0, -1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    weight = np.sqrt(2 / 1.0005)
    weights = np.array([weight, weight, 1.0, 1.0])
    chosen = Covering([rows], weights).choose(4)
    assert chosen.tolist() == greedy([rows], weights, 4)
    assert chosen[0] == 2
