"""The classifier as users of pandas and scikit-learn use it."""

import logging

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from rembrandt import RembrandtClassifier, TextFeatures, label_array, load
from rembrandt.errors import DataError, OutputExistsError, RembrandtWarning, SettingsError

pd = pytest.importorskip("pandas")

WORDS = ["apple", "bread", "car", "dog", "egg", "fish"]
RNG = np.random.default_rng(0)
CHOSEN = [RNG.choice(6, RNG.integers(1, 4), replace=False) for _ in range(120)]
TEXTS = [" ".join([*(WORDS[i] for i in row), "the", str(n % 9)]) for n, row in enumerate(CHOSEN)]
LISTS = [[WORDS[i].upper() for i in sorted(row)] for row in CHOSEN]
FAST = {"preset": "fast", "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    return RembrandtClassifier(**FAST).fit(TEXTS, LISTS)


def test_lists_of_labels_in_cross_validation_and_search():
    y = label_array(LISTS)
    assert y.shape == (120,) and [each.tolist() for each in y] == LISTS
    assert cross_val_score(RembrandtClassifier(**FAST), TEXTS, y, cv=3).mean() > 0.9
    assert [each.tolist() for each in label_array(pd.Series([["a"], "b", []]))] == [
        ["a"],
        ["b"],
        [],
    ]
    search = GridSearchCV(
        RembrandtClassifier(**FAST, text=TextFeatures()),
        {"text__min_df": [1, 2], "text__ngram_range": [(1, 1), (1, 2)]},
        scoring=lambda model, X, y: model.score(X, y, measure="ndcg@3"),
        cv=2,
    ).fit(TEXTS, y)
    assert search.best_score_ > 0.9 and search.best_estimator_.classes_.tolist() == [
        word.upper() for word in WORDS
    ]
    assert set(search.predict(["apple dog"]).indices) == {0, 3}


def indicators():
    Y = np.zeros((len(CHOSEN), 6), dtype=int)
    for i, row in enumerate(CHOSEN):
        Y[i, row] = 1
    return sparse.csr_array(Y)


def test_pipelines_weights_and_parameters():
    Y = indicators()
    pipeline = make_pipeline(TextFeatures(), RembrandtClassifier(**FAST)).fit(TEXTS, Y)
    assert pipeline.predict(TEXTS[:3]).shape == (3, 6)
    pipeline.set_params(textfeatures__min_df=1, rembrandtclassifier__preset="fast")
    weights = np.ones(len(TEXTS))
    pipeline.fit(TEXTS, Y, rembrandtclassifier__sample_weight=weights)
    model = pipeline[-1]
    rows = pipeline[0].transform(TEXTS)
    assert model.score(rows, Y) == pytest.approx(model.score(rows, Y, weights))
    first = weights.copy()
    first[1:] = 0
    assert model.score(rows, Y, first, measure="r@3") == model.score(
        rows[[0]], Y[[0]], measure="r@3"
    )


@pytest.mark.parametrize(
    "measure", ["p@1", "p@2", "r@3", "f1@5", "ndcg@4", "psp@2", "micro_f1", "macro_f1"]
)
def test_scores_of_all_measures(fitted, measure):
    assert 0.5 * (measure != "p@2") < fitted.score(TEXTS, LISTS, measure=measure) <= 1
    Y = indicators()
    assert fitted.score(TEXTS, Y, measure=measure) == fitted.score(TEXTS, LISTS, measure=measure)


def test_measures_that_do_not_exist(fitted):
    for measure in ("precision", "p@0", "p@x", "q@3"):
        with pytest.raises(SettingsError, match="is not one of"):
            fitted.score(TEXTS, LISTS, measure=measure)
    with pytest.raises(SettingsError, match="has no weights"):
        fitted.score(TEXTS, LISTS, np.ones(len(TEXTS)), measure="micro_f1")


def test_a_matrix_is_scored_over_the_columns_of_the_model():
    Y = indicators()[:, ::-1]
    model = RembrandtClassifier(**FAST).fit(
        TEXTS, Y, classes=[word.upper() for word in reversed(WORDS)]
    )
    assert model.score(TEXTS, Y) > 0.9 and model.score(TEXTS, LISTS) == model.score(TEXTS, Y)


def test_an_index_of_pandas_comes_back(fitted):
    series = pd.Series([*TEXTS[:4], "zzz"], index=["a", "b", "c", "d", "e"], name="text")
    found = fitted.predict_labels(series)
    assert (
        found.index.equals(series.index)
        and found["e"] == []
        and found["a"] == fitted.predict_labels(TEXTS)[0]
    )
    frame = fitted.predict_frame(series.rename_axis("key"), k=2)
    assert (
        list(frame.columns) == ["label", "name", "probability", "rank"]
        and frame.index.name == "key"
    )
    assert frame.index.tolist() == ["a", "a", "b", "b", "c", "c", "d", "d"] and frame[
        "rank"
    ].tolist()[:2] == [1, 2]
    assert frame.probability.between(0, 1).all()
    X = pd.DataFrame(np.eye(6)[[row[0] for row in CHOSEN]], index=np.arange(1000, 1120))
    model = RembrandtClassifier(**FAST).fit(
        X, pd.Series([labels[0] for labels in LISTS], index=X.index)
    )
    assert model.predict_labels(X).index.equals(X.index)
    assert model.predict_frame(X, k=99).groupby(level=0).size().eq(6).all()


def test_labels_by_threshold_are_those_of_predict(fitted):
    Y = fitted.predict(TEXTS)
    sets = [{fitted.classes_[j] for j in Y[[i]].indices} for i in range(Y.shape[0])]
    assert [set(labels) for labels in fitted.predict_labels(TEXTS)] == sets
    assert all(len(labels) == 6 for labels in fitted.predict_labels(TEXTS, min_probability=0))
    assert all(len(labels) <= 1 for labels in fitted.predict_labels(TEXTS, k=1))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (pd.Series(["a", np.nan, "b"]), r"row 1 of X is nan.*fillna\(''\)"),
        (["a", None, "b"], "row 1 of X is None"),
        (["a", 3, "b"], "row 1 of X is int, not text"),
        (
            pd.DataFrame({"title": ["a", "b", "c"]}),
            r"texts in 'title'; give that column, X\['title'\]",
        ),
        (
            pd.DataFrame({"a": ["x"] * 3, "b": ["y"] * 3, "n": [1, 2, 3]}),
            "texts in 'a', 'b'; join them",
        ),
        ([], "X is empty"),
        ([["a", "b", "c"], np.eye(3)], r"give them as a tuple: \(texts, vectors\)"),
        ("one text", "put it in a list"),
    ],
)
def test_inputs_that_are_nearly_right(fitted, X, message):
    with pytest.raises(DataError, match=message):
        RembrandtClassifier(**FAST).fit(X, ["x", "y", "x"])
    with pytest.raises(DataError, match=message):
        fitted.predict(X)


def test_texts_for_a_model_of_features():
    model = RembrandtClassifier(**FAST).fit(
        np.eye(6)[[row[0] for row in CHOSEN]], [labels[0] for labels in LISTS]
    )
    with pytest.raises(DataError, match="fitted to features, not to texts"):
        model.predict(["apple"])


def test_missing_labels_are_counted_and_no_class():
    y = pd.Series([labels[0] if i % 10 else None for i, labels in enumerate(LISTS)])
    with pytest.warns(RembrandtWarning, match="12 labels in 120 rows are missing"):
        model = RembrandtClassifier(**FAST).fit(TEXTS, y)
    assert set(model.classes_) <= {word.upper() for word in WORDS}


def test_an_existing_folder_names_the_way_out(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    with pytest.raises(OutputExistsError, match="force=True"):
        fitted.save(tmp_path / "model")
    fitted.save(tmp_path / "model", force=True)
    assert load(tmp_path / "model").predict_labels(TEXTS[:3]) == fitted.predict_labels(TEXTS[:3])


def test_stages_are_logged(caplog, capsys):
    with caplog.at_level(logging.INFO, logger="rembrandt"):
        RembrandtClassifier(**FAST).fit(TEXTS, LISTS)
    assert "reading texts" in caplog.messages and capsys.readouterr().err == ""


def test_embeddings_come_out_as_data_frames():
    from rembrandt import LabelEmbedder

    X = pd.DataFrame(np.eye(6)[[row[0] for row in CHOSEN]], index=np.arange(1000, 1120))
    embedder = LabelEmbedder(2, random_state=0).set_output(transform="pandas").fit(X, LISTS)
    assert embedder.transform(X).index.equals(X.index) and embedder.transform(X).shape == (120, 2)


def test_tab_completion_shows_what_a_user_calls():
    shown = {name for name in dir(RembrandtClassifier) if not name.startswith("_")}
    inside = {
        "allowed_columns",
        "columns",
        "dataset_rows",
        "device_model",
        "name_labels",
        "rows",
        "top_columns",
        "truth",
    }
    assert not shown & inside
    assert {"fit", "predict", "predict_labels", "explain", "update", "describe", "save"} <= shown
