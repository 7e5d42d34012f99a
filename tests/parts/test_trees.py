"""Label trees: classifiers equal to a reference, and the search equal to dense scores."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.svm import LinearSVC

from rembrandt.data.examples import Examples
from rembrandt.data.rows import MemoryRows
from rembrandt.engines import hinge as hinge_module
from rembrandt.linalg.bisection import bisect
from rembrandt.linalg.hinge import squared_hinge
from rembrandt.linalg.hinge_panels import squared_hinge_panels
from rembrandt.linalg.sparse import normalize_rows
from rembrandt.metrics import precision_at_k, top_k
from rembrandt.parts.allowance import ALLOWANCES
from rembrandt.parts.centroids.fit import label_centroids
from rembrandt.parts.protocol import Fitting, Update
from rembrandt.parts.trees import fit as fit_module
from rembrandt.parts.trees import part as trees_module
from rembrandt.parts.trees.fit import LARGEST_CLUSTER, cluster_depths, fit_trees
from rembrandt.parts.trees.kind import PASSES, TreesKind
from rembrandt.parts.trees.part import Trees
from rembrandt.parts.trees.settings import TreeSettings
from rembrandt.parts.trees.update import Batch, WeightedRows, updated
from tests.parts.problems import all_scores, small_clusters, tree_settings

EXACT = {"tolerance": 1e-5, "passes": 2000, "prune_below": 0.0}
# Examples × nodes of a first level that has few clusters, and of one that needs none.
FEW_PAIRS = {"max_example_node_pairs": 2000.0}
ALL_PAIRS = {"max_example_node_pairs": 1e9}


def words(n=300, c=40, d=200, seed=0):
    """Rows of words: each label has two of its own, and every row has some that say nothing."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, c, n)
    columns = np.hstack(
        [2 * label[:, None] + rng.integers(0, 2, (n, 1)), rng.integers(2 * c, d, (n, 5))]
    )
    X = sparse.csr_array(
        (np.ones(columns.size), (np.repeat(np.arange(n), 6), columns.ravel())), shape=(n, d)
    )
    Y = sparse.csr_array((np.ones(n, dtype=np.float32), (np.arange(n), label)), shape=(n, c))
    X.sum_duplicates()
    return X.astype(np.float32), Y


def fitted(X, Y, weights=None, largest_cluster=20, seed=0, **settings) -> Trees:
    data = Examples(MemoryRows(X), Y, np.arange(Y.shape[1]), True, weights)
    with small_clusters(largest_cluster):
        return fit_trees(data, tree_settings(**settings), Fitting(seed=seed))


def test_a_classifier_is_the_one_that_liblinear_finds() -> None:
    rng = np.random.default_rng(0)
    X = normalize_rows(
        sparse.csr_array(rng.random((200, 6)).astype(np.float32))
    )  # any row has all features
    Y = sparse.csr_array((rng.random((200, 3)) + X.toarray()[:, :3] > 1.2).astype(np.float32))
    [level] = fitted(X, Y, cost=2.0, **EXACT).trees[0].levels
    for label in range(3):
        svm = LinearSVC(
            C=2.0, loss="squared_hinge", intercept_scaling=1.0, tol=1e-8, max_iter=100_000
        )
        svm.fit(X.toarray().astype(np.float64), Y.toarray()[:, label])
        np.testing.assert_allclose(level.weights.toarray()[label], svm.coef_[0], atol=2e-3)
        np.testing.assert_allclose(level.bias[label], svm.intercept_[0], atol=2e-3)


def by_definition(trees: Trees, X) -> np.ndarray:
    """The scores of all labels, from the weights, in double precision."""
    unit = normalize_rows(X).toarray().astype(np.float64)
    total = 0.0
    for tree in trees.trees:
        above = np.zeros((len(unit), 1))
        for level in tree.levels:
            margins = unit @ level.weights.toarray().T.astype(np.float64) + level.bias
            above = above[:, level.parent] - np.maximum(0, 1 - margins) ** trees.power
        total = total + np.exp(above) / len(trees.trees)
    return total


@pytest.mark.parametrize(
    ("pairs", "n_trees"), [(ALL_PAIRS, 1), (FEW_PAIRS, 1), (FEW_PAIRS, 3)], ids=str
)
class TestScores:
    @pytest.fixture
    def trees(self, pairs, n_trees):
        trees = fitted(*words(), **pairs, n_trees=n_trees, beam=10_000)
        n_levels = 1 if pairs == ALL_PAIRS else 2
        assert [len(tree.levels) for tree in trees.trees] == n_trees * [n_levels]
        return trees

    def test_all_and_given_labels_are_those_of_the_definition(self, trees):
        X, _ = words(100, seed=2)
        rows = trees.prepare(X)
        dense = by_definition(trees, X)
        np.testing.assert_allclose(all_scores(trees, rows), dense, rtol=1e-4, atol=1e-6)
        labels = np.random.default_rng(0).integers(-1, 40, (100, 7))
        expected = np.where(
            labels < 0, -np.inf, np.take_along_axis(dense, np.maximum(labels, 0), axis=1)
        )
        np.testing.assert_allclose(trees.at(rows, labels), expected, rtol=1e-4, atol=1e-6)

    def test_rows_of_few_words_are_searched_in_long_lists(self, trees):
        X = sparse.csr_array(sparse.eye_array(80, 200, format="csr", dtype=np.float32))
        scores = trees.at(trees.prepare(X), np.tile(np.arange(40), (80, 1)))
        np.testing.assert_allclose(scores, by_definition(trees, X), rtol=1e-4, atol=1e-6)

    def test_a_row_has_the_same_labels_whatever_the_others_are(self, trees):
        X, _ = words(100, seed=2)
        together = trees.top(trees.prepare(X), 5)
        for row in (0, 50, 99):  # few rows have a cluster in common, and its lists are searched
            alone = trees.top(trees.prepare(X[[row]]), 5)
            for values, expected in zip(alone, together, strict=True):
                np.testing.assert_array_equal(values[0], expected[row])

    def test_rows_have_the_same_labels_however_many_are_searched_in_a_call(
        self, trees, monkeypatch
    ):
        X, _ = words(100, seed=2)
        expected = trees.top(trees.prepare(X), 5)
        monkeypatch.setattr(trees_module, "SMALLEST_CALL_ROWS", 8)
        monkeypatch.setattr(trees_module, "LARGEST_CALL_ROWS", 20)
        for values, of_all in zip(trees.top(trees.prepare(X), 5), expected, strict=True):
            np.testing.assert_array_equal(values, of_all)

    def test_with_every_cluster_in_the_beam_the_best_are_those_of_all_scores(self, trees):
        X, _ = words(100, seed=2)
        rows = trees.prepare(X)
        dense = all_scores(trees, rows)
        labels, scores = trees.top(rows, 5)
        assert labels.dtype == np.int64
        assert scores.dtype == np.float32
        np.testing.assert_allclose(scores, top_k(dense, 5)[1], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(scores, trees.at(rows, labels), rtol=1e-5)

    def test_contributions_add_up_to_the_score(self, trees):
        X, _ = words(5, seed=2)
        dense = by_definition(trees, X)
        labels = np.arange(0, 40, 7)
        empty = by_definition(trees, sparse.csr_array((1, 200), dtype=np.float32))[0]
        for row in range(5):
            base, values = trees.explain(X[[row]], labels)
            assert values.shape == (X[[row]].nnz, len(labels))
            np.testing.assert_allclose(base, empty[labels], rtol=1e-5)
            np.testing.assert_allclose(
                base + values.sum(axis=0), dense[row, labels], rtol=1e-4, atol=1e-7
            )

    def test_weights_take_four_bytes_each(self, trees):
        """Two for the value and two for its feature."""
        arrays, _ = trees.arrays()
        n_weights = sum(level.weights.nnz for tree in trees.trees for level in tree.levels)
        names = [name for name in arrays if name.endswith((".data", ".indices"))]
        assert sum(arrays[name].nbytes for name in names) == 4 * n_weights


def test_rows_with_many_clusters_are_scored_a_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trees = fitted(*words(), **FEW_PAIRS, n_trees=2)
    monkeypatch.setattr(trees_module, "MAX_CLUSTER_SCORES", 50)
    assert trees.block_rows == 50 // sum(tree.n_clusters for tree in trees.trees) > 0
    monkeypatch.setattr(trees_module, "MAX_CLUSTER_SCORES", 1)
    assert trees.block_rows == 1


def test_no_rows_and_fewer_labels_than_asked_for() -> None:
    X, Y = words(60, 4, 40)
    for pairs in (1e9, 20.0):
        trees = fitted(X, Y, max_example_node_pairs=pairs, largest_cluster=2)
        assert trees.trees[0].has_clusters == (pairs == 20.0)
        labels, scores = trees.top(trees.prepare(X[:0]), 3)
        assert labels.shape == scores.shape == (0, 3)
        labels, scores = trees.top(trees.prepare(X), 6)
        assert (labels[:, 4:] == -1).all()
        assert (scores[:, 4:] == -np.inf).all()


def test_a_narrow_beam_finds_nearly_what_the_whole_tree_does() -> None:
    X, Y = words(4000, 400, 1200)
    new_X, new_Y = words(500, 400, 1200, seed=1)
    trees = fitted(X, Y, largest_cluster=25, max_example_node_pairs=8e4, beam=4)
    assert trees.trees[0].n_clusters >= 16
    rows = trees.prepare(new_X)
    of_beam = precision_at_k(new_Y, trees.top(rows, 1)[0], 1)
    of_all = precision_at_k(new_Y, top_k(all_scores(trees, rows), 1)[0], 1)
    assert of_beam >= 0.99 * of_all > 0.7


def test_labels_have_weights_on_their_own_words_and_clusters_on_all() -> None:
    X, Y = words()
    trees = fitted(X, Y, largest_cluster=10, max_example_node_pairs=1e3, **EXACT)
    clusters, labels = trees.trees[0].levels
    assert (labels.weights.toarray()[(Y.T @ X).toarray() == 0] == 0).all()
    member = np.zeros((Y.shape[1], len(clusters.bias)), dtype=np.float32)
    member[np.arange(Y.shape[1]), labels.parent] = 1
    assert clusters.weights.toarray()[(member.T @ (Y.T @ X)) == 0].any()
    [level] = fitted(X, Y, **ALL_PAIRS, **EXACT).trees[0].levels
    assert (level.weights.toarray()[(Y.T @ X).toarray() == 0] == 0).all()


def test_labels_may_have_weights_of_the_words_of_others() -> None:
    X, Y = words()
    for pairs in (FEW_PAIRS, ALL_PAIRS):
        trees = fitted(X, Y, **pairs, **EXACT, label_features="all")
        weights = trees.trees[0].labels.weights.toarray()
        foreign = weights[(Y.T @ X).toarray() == 0]
        assert (foreign < 0).any(), "they are evidence against a label"


def test_labels_have_all_features_where_examples_have_one_label() -> None:
    X, Y = words()
    two_labels = sparse.csr_array(Y + Y[:, np.roll(np.arange(40), 1)])
    for labels, expected in ((Y, "all"), (two_labels, "own")):
        data = Examples(MemoryRows(X), labels, np.arange(40), False, None)
        settings = TreesKind().resolve(
            tree_settings(passes="auto"), data, ALLOWANCES["fast"], False
        )
        assert settings.label_features == expected
        assert settings.passes == PASSES[expected]


def test_few_passes_reach_examples_that_become_hard_after_the_first() -> None:
    """Most examples have a small gradient at the start, and a large one after the first passes."""
    rng = np.random.default_rng(0)
    X = normalize_rows(sparse.csr_array((rng.random((3000, 40)) < 0.3).astype(np.float32)))
    margins = X @ rng.normal(size=(40, 20))
    Y = sparse.csr_array((margins > np.quantile(margins, 0.75, axis=0)).astype(np.float32))
    few = fitted(X, Y, prune_below=0.0, passes=PASSES["own"])
    exact = fitted(X, Y, **EXACT)
    rows = exact.prepare(X)
    expected = exact.top(rows, 1)[0]
    best = few.top(rows, 1)[0]
    assert (best == expected).mean() > 0.8  # 0.66 with one round of as many passes


def test_clusters_have_one_round_of_passes_and_labels_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, Y = words()
    rounds = []

    def recorded(fit):
        def fit_and_record(pool, positives, passes, passes_per_round, *rest):
            rounds.append((passes, passes_per_round))
            return fit(pool, positives, passes, passes_per_round, *rest)

        return fit_and_record

    monkeypatch.setattr(hinge_module, "squared_hinge", recorded(squared_hinge))
    monkeypatch.setattr(hinge_module, "squared_hinge_panels", recorded(squared_hinge_panels))
    fitted(X, Y, **FEW_PAIRS, passes=4)
    assert rounds[0] == (4, 4)
    assert rounds[-1] == (4, 2)
    rounds.clear()
    fitted(X, Y, **FEW_PAIRS, passes=1)
    assert set(rounds) == {(1, 1)}


@pytest.mark.parametrize(("cost", "limit"), [(3.0, 0.1), (1.0, 0.1), (0.2, 0.02)])
def test_small_weights_are_dropped_relative_to_a_low_cost(cost: float, limit: float) -> None:
    X, Y = words()
    full, pruned = (
        fitted(X, Y, cost=cost, prune_below=prune_below).trees[0].labels.weights
        for prune_below in (0.0, 0.1)
    )
    np.testing.assert_array_equal(
        pruned.toarray(), np.where(np.abs(full.toarray()) > limit, full.toarray(), 0)
    )


def test_the_number_of_threads_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = words()
    levels = []
    for threads in "12":
        monkeypatch.setenv("REMBRANDT_NUM_THREADS", threads)
        levels.append(fitted(X, Y, **FEW_PAIRS).trees[0].levels)
    for single, double in zip(*levels, strict=True):
        np.testing.assert_array_equal(single.weights.toarray(), double.weights.toarray())
        np.testing.assert_array_equal(single.bias, double.bias)


def test_trees_have_their_own_clusters_and_the_seed_decides_the_order_of_the_rows() -> None:
    X, Y = words()
    first, second = fitted(X, Y, **FEW_PAIRS, n_trees=2).trees
    assert not np.array_equal(first.labels.parent, second.labels.parent)
    [other] = fitted(X, Y, **FEW_PAIRS, seed=7).trees
    np.testing.assert_array_equal(other.labels.parent, first.labels.parent)
    assert not np.array_equal(other.labels.weights.data, first.labels.weights.data)


@pytest.mark.parametrize(("n_in_all", "n_entries"), [(1 << 24, 500), (12_000, 300), (4_000, 200)])
def test_directions_have_as_many_entries_as_all_labels_may_have_together(
    n_in_all: int, n_entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    widths = []

    def recorded(*arguments: Any, n_entries: int) -> Any:
        widths.append(n_entries)
        return label_centroids(*arguments, n_entries=n_entries)

    monkeypatch.setattr(fit_module, "ALL_DIRECTION_ENTRIES", n_in_all)
    monkeypatch.setattr(fit_module, "label_centroids", recorded)
    fitted(*words(c=40), **FEW_PAIRS)
    assert widths == [n_entries]


def test_positions_are_short_only_if_all_clusters_are_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trees = fitted(*words(c=41), **FEW_PAIRS)
    [tree] = trees.trees
    sizes = np.bincount(tree.labels.parent)
    assert sizes.min() < sizes.max()
    monkeypatch.setattr(trees_module, "SHORT_POSITIONS", int(sizes.min()))
    assert all(array.dtype != np.uint16 for array in tree.label_lists)


def test_what_stands_for_the_old_examples_weighs_as_much_as_new_examples_or_old_labels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, Y = words(c=40)
    trees = fitted(X, Y)
    new_label = sparse.csr_array(np.ones((30, 1), dtype=np.float32))
    old_labels = sparse.csr_array((30, 40), dtype=np.float32)
    new_Y = sparse.csr_array(sparse.hstack([old_labels, new_label]))
    weights = []
    of = Batch.of

    def recorded(old: WeightedRows, *arguments: Any) -> Batch:
        weights.append(old.weights)
        return of(old, *arguments)

    monkeypatch.setattr(Batch, "of", recorded)
    directions = label_centroids(MemoryRows(X), Y, n_entries=20)
    update = Update(
        examples=Examples(MemoryRows(X[:30]), new_Y, np.arange(41), True, None),
        history=None,
        settings=tree_settings(),
        label_counts=np.asarray(Y.sum(axis=0)),
        n_train=300,
        others={"centroids": cast(Any, SimpleNamespace(label_directions=lambda: directions))},
    )
    updated(trees, update)
    [of_old] = weights
    assert of_old[-1] == 40  # an empty row
    assert_allclose(of_old[:-1].sum(), 40)


@pytest.mark.parametrize("n_trees", [1, 2])
def test_a_new_label_joins_the_cluster_of_labels_with_such_examples(n_trees: int) -> None:
    X, Y = words(c=40)
    trees = fitted(X, Y, **FEW_PAIRS, n_trees=n_trees)
    directions = label_centroids(MemoryRows(X), Y, n_entries=20)
    centroids = cast(Any, SimpleNamespace(label_directions=lambda: directions))
    label = Y.argmax(axis=1)
    for alike in (3, 17, 33):
        is_alike = label == alike
        new_X = X[is_alike]
        n_new = new_X.shape[0]
        new_Y = sparse.csr_array(
            (np.ones(n_new, np.float32), (np.arange(n_new), np.full(n_new, 41))), shape=(n_new, 42)
        )
        update = Update(
            examples=Examples(MemoryRows(new_X), new_Y, np.arange(42), True, None),
            history=None,
            settings=tree_settings(),
            label_counts=np.asarray(Y.sum(axis=0)),
            n_train=300,
            others={"centroids": centroids},
        )
        part = updated(trees, update).part
        assert isinstance(part, Trees)
        for tree, before in zip(part.trees, trees.trees, strict=True):
            assert tree.labels.parent[41] == before.labels.parent[alike]
            np.testing.assert_array_equal(tree.labels.parent[:40], before.labels.parent)


def test_weights_count_examples() -> None:
    X, Y = words(120, 6, 40)
    weights = np.ones(120)
    weights[0::3] = 2
    weights[1::3] = 0
    rows = np.repeat(np.arange(120), weights.astype(int))
    weighted = fitted(X, Y, weights, **EXACT).trees[0]
    repeated = fitted(X[rows], Y[rows], **EXACT).trees[0]
    np.testing.assert_allclose(
        weighted.labels.weights.toarray(), repeated.labels.weights.toarray(), atol=2e-3
    )


def test_labels_without_examples_and_empty_rows_are_no_trouble() -> None:
    X, Y = words()
    Y = sparse.csr_array(sparse.hstack([Y, sparse.csr_array((300, 2), dtype=np.float32)]))
    X = sparse.csr_array(sparse.vstack([sparse.csr_array((1, 200), dtype=np.float32), X[1:]]))
    for pairs in (ALL_PAIRS, FEW_PAIRS):
        trees = fitted(X, Y, **pairs, beam=100)
        assert trees.trees[0].has_clusters == (pairs == FEW_PAIRS)
        labels, scores = trees.top(trees.prepare(X), 42)
        assert np.isfinite(scores).all()
        assert (np.sort(labels, axis=1) == np.arange(42)).all()


def test_bisection_is_balanced_nested_and_keeps_like_with_like() -> None:
    rng = np.random.default_rng(0)
    group = rng.permutation(np.repeat(np.arange(4), 25))
    A = sparse.csr_array((np.eye(4)[group] + 0.01 * rng.random((100, 4))).astype(np.float32))
    clusters = bisect(A, 2)
    assert np.bincount(clusters).tolist() == [25, 25, 25, 25]
    assert len({(a, b) for a, b in zip(group.tolist(), clusters.tolist(), strict=True)}) == 4
    np.testing.assert_array_equal(bisect(A, 1), clusters >> 1)


def test_more_halvings_than_rows_leave_clusters_empty() -> None:
    clusters = bisect(sparse.csr_array(np.eye(3, dtype=np.float32)), 3)
    assert sorted(clusters.tolist()) == sorted(set(clusters.tolist()))
    assert clusters.max() < 8


@given(st.integers(1, 10**6), st.integers(2, 10**6), st.floats(1e3, 1e9))
def test_clusters_are_small_and_the_first_level_affordable(n: int, c: int, pairs: float) -> None:
    depths = cluster_depths(n, c, pairs)
    if n * c <= pairs or c <= LARGEST_CLUSTER:
        assert depths == []
        return
    assert depths == sorted(set(depths))
    assert 2 ** depths[0] <= max(2, 1.5 * pairs / n)
    assert c / 2 ** depths[-1] <= LARGEST_CLUSTER


def test_a_batch_holds_the_rows_with_weight_and_knows_how_many_are_new():
    rng = np.random.default_rng(0)
    X = rng.random((7, 4)).astype(np.float32)
    Y = np.eye(3, dtype=np.float32)[[0, 1, 2, 0, 1, 2, 0]]
    weights = np.array([1.0, 0.0, 2.0, 0.5, 3.0, 0.0, 1.5])
    old, new = (
        WeightedRows(sparse.csr_array(X[rows]), sparse.csr_array(Y[rows]), weights[rows])
        for rows in (slice(4), slice(4, 7))
    )
    settings = TreeSettings(cost=2.0)
    batch = Batch.of(old, new, settings)
    kept = weights > 0
    assert_allclose(batch.X.toarray(), X[kept])
    assert_allclose(batch.Y.toarray(), Y[kept])
    assert_allclose(batch.costs, 2 * weights[kept])
    assert batch.n_new == 2
