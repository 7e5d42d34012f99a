"""Inputs that are nearly right are read, or refused in our own words."""

import numpy as np
import pytest

from rembrandt import EmbeddingSettings, LabelEmbedder, RembrandtClassifier, label_array, read
from rembrandt.errors import DataError, RembrandtError, RembrandtWarning, SettingsError

TEXTS = ["red apple", "green apple", "red car", "fast car"] * 10
LABELS = [["fruit", "red"], ["fruit"], ["vehicle", "red"], ["vehicle"]] * 10


def classifier(**parameters):
    return RembrandtClassifier(parts=("centroids",), random_state=0, **parameters)


@pytest.fixture(scope="module")
def fitted():
    return classifier().fit(TEXTS, LABELS)


@pytest.mark.parametrize(
    ("X", "kind"),
    [
        ({"text": TEXTS}, "a dict"),
        (set(TEXTS), "a set"),
        ((text for text in TEXTS), "a generator"),
        (None, "None"),
        (3, "an int"),
    ],
)
def test_examples_without_an_order_are_refused(fitted, X, kind):
    with pytest.raises(DataError, match=f"X is {kind}; give a list of texts"):
        classifier().fit(X, LABELS)
    with pytest.raises(DataError, match=f"X is {kind}; give a list of texts"):
        fitted.predict_labels(X)


@pytest.mark.parametrize("y", [dict(enumerate(LABELS)), set("ab"), (x for x in LABELS), "fruit"])
def test_labels_without_an_order_are_refused(fitted, y):
    for use in (classifier().fit, fitted.score, fitted.update):
        with pytest.raises(DataError, match=r"y is a .*; give a list or an array"):
            use(TEXTS, y)


@pytest.mark.parametrize("k", [2.5, True, "3", 0])
def test_a_number_of_labels_is_a_whole_number(fitted, k):
    for predict in (fitted.predict_topk, fitted.predict_labels, fitted.explain):
        with pytest.raises(SettingsError, match=r"k=.* must be an integer of at least 1"):
            predict(TEXTS[:2], k=k)


@pytest.mark.parametrize("probability", [2, -0.1, "a"])
def test_a_probability_is_a_number_up_to_one(fitted, probability):
    with pytest.raises(SettingsError, match=r"min_probability=.* must be a number"):
        fitted.predict_labels(TEXTS[:2], min_probability=probability)


def test_the_columns_of_a_data_frame_are_the_labels():
    pandas = pytest.importorskip("pandas")
    names = ["vehicle", "fruit", "red"]
    rows = [[name in labels for name in names] for labels in LABELS]
    frame = pandas.DataFrame(rows, columns=names).astype(int)
    model = classifier().fit(TEXTS, frame)
    assert model.classes_.tolist() == names
    assert model.predict_labels(["apple"], k=1) == [["fruit"]]
    assert model.predict(["apple"]).shape == (1, 3)
    turned = frame[["red", "vehicle", "fruit"]]
    assert model.score(TEXTS, turned) == model.score(TEXTS, frame) > 0.9
    more = frame.assign(new=1)
    assert model.update(TEXTS, more).classes_.tolist() == [*names, "new"]


def test_columns_of_data_sets_are_texts_and_labels(fitted):
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict({"text": TEXTS, "labels": LABELS})
    model = classifier().fit(data["text"], data["labels"])
    assert model.classes_.tolist() == fitted.classes_.tolist()
    assert model.predict_labels(data["text"], k=1) == fitted.predict_labels(TEXTS, k=1)
    with pytest.raises(DataError, match=r"the columns text, labels; give .*X\['text'\]"):
        classifier().fit(data, LABELS)


def test_series_of_polars_and_arrays_of_arrow(fitted):
    pyarrow = pytest.importorskip("pyarrow")
    wanted = fitted.predict_labels(TEXTS, k=1)
    model = classifier().fit(pyarrow.array(TEXTS), pyarrow.array(LABELS))
    assert model.predict_labels(pyarrow.array(TEXTS), k=1) == wanted
    polars = pytest.importorskip("polars")
    model = classifier().fit(polars.Series(TEXTS), polars.Series(LABELS))
    assert model.predict_labels(polars.Series(TEXTS), k=1) == wanted


def test_labels_spelled_like_missing_values_are_reported():
    labels = [*LABELS[:-1], ["nan"]]
    with pytest.warns(RembrandtWarning, match="1 example with the label 'nan'"):
        classifier().fit(TEXTS, labels)


@pytest.mark.parametrize(
    ("decoder", "kernel"),
    [
        ("ridge", None),
        ("logistic", None),
        ("discriminant", None),
        ("transpose", None),
        ("logistic", "gaussian"),
    ],
)
def test_identical_rows_and_constant_features(decoder, kernel):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 120)
    same = np.full((120, 4), 1234.567)
    constant = np.hstack([same, rng.standard_normal((120, 1))])
    few = None if kernel is None else EmbeddingSettings(n_random_features=50)
    for X in (same, constant):
        model = RembrandtClassifier(
            parts=("embedding",), decoder=decoder, kernel=kernel, embedding=few, random_state=0
        )
        probabilities = model.fit(X, labels).predict_proba(X)
        assert np.isfinite(probabilities).all()
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-4)
        if X is same:
            shares = np.bincount(labels) / len(labels)
            np.testing.assert_allclose(probabilities[0], shares, atol=0.1)


def test_identical_texts_fit():
    labels = [["a"], ["b"], ["a", "b"]] * 50
    model = RembrandtClassifier(preset="fast", random_state=0)
    model.fit(["the same text"] * 150, labels)
    assert model.predict_topk(["the same text"], k=1)[1][0, 0] == pytest.approx(2 / 3, abs=0.1)


def test_lists_of_labels_are_split_by_scikit_learn():
    from sklearn.model_selection import GridSearchCV, cross_val_score

    scores = cross_val_score(classifier(), TEXTS, label_array(LABELS), cv=2)
    assert scores.min() > 0.9
    search = GridSearchCV(classifier(), {"preset": ["fast"]}, cv=2)
    assert search.fit(TEXTS, label_array(LABELS)).best_score_ > 0.9


def test_every_error_is_one_of_ours(fitted):
    for bad in (object(), b"bytes", np.zeros((2, 2, 2))):
        with pytest.raises((RembrandtError, ValueError, TypeError)) as raised:
            fitted.predict_labels(bad)
        assert str(raised.value)


def test_labels_that_differ_in_spaces_are_reported():
    labels = [*LABELS[:-1], [" fruit", "vehicle "]]
    with pytest.warns(
        RembrandtWarning, match="2 labels differ .* only by spaces, such as ' fruit'"
    ):
        classifier().fit(TEXTS, labels)


def test_empty_labels_are_reported():
    labels = [*LABELS[:-2], [""], [" "]]  # "".split(";") is [""]
    with pytest.warns(RembrandtWarning, match="2 examples with an empty label"):
        classifier().fit(TEXTS, labels)


def test_sources_that_are_no_file_and_no_table():
    for source, kind in (({"text": TEXTS}, "a dict"), ([{"text": "a"}], "a list"), (3, "an int")):
        with pytest.raises(DataError, match=f"the source is {kind}; give the path of a file"):
            read(source)
    with pytest.raises(DataError, match=r"data is a str; give what rembrandt\.read returns"):
        classifier().fit_dataset("train.csv")


def test_texts_where_features_are_expected(fitted):
    with pytest.raises(DataError, match="X has texts, and LabelEmbedder reads features"):
        LabelEmbedder().fit(TEXTS, LABELS)
    with pytest.raises(DataError, match=r"texts of shape \(40, 1\); give one dimension"):
        classifier().fit(np.array(TEXTS)[:, None], LABELS)
    with pytest.raises(DataError, match="with 0 blocks; give texts"):
        fitted.predict_labels((TEXTS, np.zeros((40, 2))))


def test_many_names_are_no_regression(recwarn):
    names = [f"name {number}" for number in range(len(TEXTS))]
    classifier().fit(TEXTS, names)
    assert not [str(warning.message) for warning in recwarn if "regression" in str(warning.message)]
