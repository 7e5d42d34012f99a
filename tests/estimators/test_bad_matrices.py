"""Data that does not fit together is refused in words before compiled code reads it."""

import numpy as np
import pytest
from scipy import sparse

from rembrandt import Dataset, LabelEmbedder, RembrandtClassifier, load
from rembrandt.data.targets import joined_labels, read_targets
from rembrandt.errors import DataError
from rembrandt.metrics import precision_at_k
from tests.linalg.broken import BROKEN, sound

from .problems import SETTLED

y = np.array(["a", "b", "a", "b", "c", "c"])


@pytest.fixture(scope="module")
def fitted():
    return RembrandtClassifier(**SETTLED).fit(sound(), y)


@pytest.mark.parametrize("name", BROKEN)
def test_features_that_are_not_a_sound_matrix_are_refused(fitted, name):
    X, message = BROKEN[name]
    vectors = np.ones((6, 2), dtype=np.float32)
    with pytest.raises(DataError, match=f"^X is not a sound sparse matrix: .*{message}"):
        RembrandtClassifier(**SETTLED).fit(X, y)
    with pytest.raises(DataError, match=message):
        LabelEmbedder(2).fit(X, y)
    with pytest.raises(DataError, match=message):
        fitted.predict(X)
    with pytest.raises(DataError, match=message):
        fitted.partial_fit(X, y)
    with pytest.raises(DataError, match=f"the vectors is not .*{message}"):
        RembrandtClassifier(**SETTLED).fit((vectors, X), y)
    with pytest.raises(DataError, match=message):
        Dataset.from_arrays(X, y)


@pytest.mark.parametrize("name", BROKEN)
def test_labels_that_are_not_a_sound_matrix_are_refused(name):
    Y, message = BROKEN[name]
    with pytest.raises(DataError, match=f"^Y is not a sound sparse matrix: .*{message}"):
        read_targets(Y)
    with pytest.raises(DataError, match=message):
        joined_labels(Y, None, np.arange(4))
    with pytest.raises(DataError, match=message):
        RembrandtClassifier(**SETTLED).fit(sound(), Y)
    with pytest.raises(DataError, match=message):
        Dataset.from_arrays(sound(), Y)
    with pytest.raises(DataError, match=f"the truth is not .*{message}"):
        precision_at_k(Y, np.zeros((6, 1), dtype=np.int64), 1)


@pytest.mark.parametrize("name", BROKEN)
def test_an_update_refuses_labels_that_are_not_a_sound_matrix(name):
    Y, message = BROKEN[name]
    classifier = RembrandtClassifier(**SETTLED).fit(sound(), sound().astype(bool).astype(int))
    before = classifier.predict_proba(sound())
    with pytest.raises(DataError, match=message):
        classifier.partial_fit(sound(), Y)
    assert np.array_equal(classifier.predict_proba(sound()), before)


def test_a_model_does_not_depend_on_the_order_of_entries():
    X = sound()
    shuffled = X.copy()
    for start, stop in zip(X.indptr, X.indptr[1:], strict=False):
        shuffled.indices[start:stop] = X.indices[start:stop][::-1]
        shuffled.data[start:stop] = X.data[start:stop][::-1]
    halves = sparse.csr_array(
        (np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape
    )
    expected = RembrandtClassifier(**SETTLED).fit(X, y).decision_function(X)
    for other in (shuffled, halves):
        model = RembrandtClassifier(**SETTLED).fit(other, y)
        assert np.array_equal(model.decision_function(other), expected)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(5), "cannot be read"),
        (np.ones((6, 1)), "cannot be read"),
        (sparse.csr_array(np.ones((6, 1))), "cannot be read"),
        ([1, 1, np.nan, 1, 1, 1], "NaN"),
        ([1, 1, np.inf, 1, 1, 1], "infinity"),
        (["x"] * 6, "cannot be read"),
        ([1, 1, 1, -2, 1, 1], "negative at row 3"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(weights, message):
    with pytest.raises(DataError, match=f"sample_weight .*{message}"):
        RembrandtClassifier(**SETTLED).fit(sound(), y, sample_weight=weights)


def shapes(scale, dtype):
    """The rows of `sound`, dense and sparse, and next to another block, times a factor."""
    X = (sound().toarray().astype(np.float64) * scale).astype(dtype)
    return [X, sparse.csr_array(X), (np.ones((6, 2), dtype=dtype), X)]


@pytest.mark.parametrize("preset", ["fast", "balanced"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-45, 1e-40, 1e-37, 1e-20, 1e14, 1e17, 1e37, 1e100, 1e300])
def test_values_of_any_size_are_fitted_or_refused(tmp_path, preset, dtype, scale):
    if 9 * scale > np.finfo(dtype).max:
        pytest.skip("not a number of this type")
    for number, X in enumerate(shapes(scale, dtype)):
        model = RembrandtClassifier(preset=preset, random_state=0)
        try:
            model.fit(X, y)
        except DataError as error:
            assert "by a constant" in str(error)
            continue
        probabilities = model.predict_proba(X)
        assert np.isfinite(probabilities).all()
        model.save(tmp_path / str(number))
        assert np.array_equal(load(tmp_path / str(number)).predict_proba(X), probabilities)


def test_denormal_values_among_others_count_as_zero():
    X = sound().toarray().astype(np.float64)
    noisy = np.where(X == 0, 1e-310, X)
    noisy[2] = 1e-42
    for convert in (np.asarray, sparse.csr_array):
        models = [RembrandtClassifier(random_state=0).fit(convert(x), y) for x in (X, noisy)]
        expected, result = (model.predict_proba(convert(X)) for model in models)
        assert np.array_equal(expected, result)
        assert np.array_equal(models[0].predict_proba(convert(noisy)), expected)


@pytest.mark.parametrize("scale", [1e-300, 1e-40, 1e-30, 1.0, 1e20, 1e300])
@pytest.mark.parametrize("preset", ["fast", "balanced"])
def test_weights_of_any_size_are_fitted_or_refused(preset, scale):
    for weights in (np.full(6, scale), np.where(np.arange(6) == 3, scale, 1.0)):
        try:
            model = RembrandtClassifier(preset=preset, random_state=0)
            model.fit(sound(), y, sample_weight=weights)
        except DataError as error:
            assert "weight" in str(error)
        else:
            assert np.isfinite(model.predict_proba(sound())).all()


def test_labels_without_weight_are_refused():
    labels = [["a"], ["b"], [], [], [], []]
    with pytest.raises(DataError, match="no example with a label has a positive weight"):
        RembrandtClassifier(**SETTLED).fit(sound(), labels, sample_weight=[0, 0, 1, 1, 1, 1])


WRONG = {
    "complex": (np.ones((6, 4), dtype=complex), "Complex data not supported"),
    "one dimension": (np.ones(4), "Expected 2D array, got 1D array instead; Reshape your data"),
    "three dimensions": (np.ones((6, 4, 2)), "Found array with dim 3"),
    "no rows": (np.ones((0, 4)), r"Found array with 0 sample\(s\)"),
    "no columns": (np.ones((6, 0)), r"Found array with 0 feature\(s\)"),
    "infinite": (np.full((6, 4), np.inf), "Input X contains infinity"),
    "missing": (sparse.csr_array(np.full((6, 4), np.nan)), "Input X contains NaN"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_scikit_learn_refuses_is_refused_in_a_line_with_a_remedy(fitted, name):
    X, message = WRONG[name]
    remedy = "; give a 2-D matrix of finite numbers, one row for each example$"
    for use in (fitted.predict, lambda X: RembrandtClassifier(**SETTLED).fit(X, y)):
        with pytest.raises(DataError, match=f"^X cannot be used: .*(?:{message}).*{remedy}"):
            use(X)


def test_labels_that_scikit_learn_refuses():
    with pytest.raises(DataError, match=r"^y cannot be used: .*; give one label for each"):
        RembrandtClassifier(**SETTLED).fit(sound(), np.ones((6, 0)))
    with pytest.raises(DataError, match="the truth has 1 dimension; give a matrix"):
        precision_at_k(np.ones(6), np.zeros((6, 1), dtype=np.int64), 1)


@pytest.mark.parametrize("kind", ["i1", "u2", "u4", "i8", "u8"])
@pytest.mark.parametrize("name", ["indices", "indptr"])
@pytest.mark.filterwarnings("ignore:.*non-integer dtype")
def test_indices_of_any_integer_type(fitted, kind, name):
    """The compiled functions of SciPy take two of them."""
    X = sound()
    setattr(X, name, getattr(X, name).astype(kind))
    assert fitted.predict(X).tolist() == fitted.predict(sound()).tolist()
    truth = sound()
    setattr(truth, name, getattr(truth, name).astype(kind))
    ranked = np.zeros((6, 1), dtype=np.int64)
    assert precision_at_k(truth, ranked, 1) == precision_at_k(sound(), ranked, 1)
