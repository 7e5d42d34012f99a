"""Answers agree with each other: a probability depends on the row and the label alone."""

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from rembrandt import RembrandtClassifier, load
from rembrandt.declarations import PART_NAMES
from rembrandt.estimators.requests import rows_of
from rembrandt.predict import Request, all_probabilities, answer
from tests.estimators.problems import words

SUBSETS = [names for size in (1, 2, 3) for names in combinations(PART_NAMES, size)]
N_LABELS = 60


def texts_and_labels(n_rows, one_label=False, seed=0):
    """Texts of words that depend on the labels of each text, and these labels."""
    rng = np.random.default_rng(seed)
    X, Y = words(n_rows, N_LABELS, 400, seed)
    texts = []
    for row in range(n_rows):
        terms = X.indices[X.indptr[row] : X.indptr[row + 1]]
        texts.append(" ".join(f"w{term}" for term in terms))
    labels = []
    for row in range(n_rows):
        columns = Y.indices[Y.indptr[row] : Y.indptr[row + 1]]
        names = [f"label {column:02d}" for column in columns]
        labels.append(names or ["label 00"])
    if one_label:
        return texts, [names[int(rng.integers(len(names)))] for names in labels]
    return texts, labels


TRAINING = 500
CASES = [
    *({"preset": preset} for preset in ("fast", "balanced", "best")),
    *({"preset": "fast", "parts": names} for names in SUBSETS),
    {"preset": "fast", "parts": ("trees", "centroids", "names")},
]
# Labels that models which match names get after the fit, without an example.
ADDED = [f"label {column}" for column in range(N_LABELS - 3, N_LABELS)]
# The words of each label in the texts.
LABEL_NAMES = {
    f"label {column:02d}": f"w{2 * column} w{2 * column + 1}" for column in range(N_LABELS)
}


@pytest.fixture(scope="module", params=[False, True], ids=["several labels", "one label"])
def one_label(request):
    return request.param


@pytest.fixture(scope="module", params=CASES, ids=str)
def classifier(request, one_label):
    texts, labels = texts_and_labels(TRAINING, one_label)
    classifier = RembrandtClassifier(**request.param, random_state=0)
    if "names" not in request.param.get("parts", ()):
        return classifier.fit(texts, labels)
    kept = [row for row, names in enumerate(labels) if not set(np.atleast_1d(names)) & set(ADDED)]
    fitted = {label: name for label, name in LABEL_NAMES.items() if label not in ADDED}
    classifier.fit([texts[row] for row in kept], [labels[row] for row in kept], label_names=fitted)
    classifier.add_labels({label: LABEL_NAMES[label] for label in ADDED})
    best = classifier.predict_topk([LABEL_NAMES[label] for label in ADDED], k=1)[0]
    assert best[:, 0].tolist() == ADDED
    return classifier


@pytest.fixture(scope="module")
def texts():
    return [*texts_and_labels(40, seed=1)[0], "nothing known here"]


class TestOneAnswer:
    def test_a_longer_ranking_begins_with_the_shorter_one(self, classifier, texts):
        labels, probabilities = classifier.predict_topk(texts, k=N_LABELS)
        for k in (1, 2, 5, 17, 40):
            shorter, p = classifier.predict_topk(texts, k=k)
            assert_array_equal(shorter, labels[:, :k])
            assert_array_equal(p, probabilities[:, :k])

    def test_it_is_that_of_predict_proba(self, classifier, texts):
        P = classifier.predict_proba(texts)
        labels, probabilities = classifier.predict_topk(texts, k=N_LABELS)
        order = np.argsort(-P[:-1], axis=1, kind="stable")
        assert_array_equal(classifier.classes_[order], labels[:-1])
        assert_array_equal(np.take_along_axis(P[:-1], order, axis=1), probabilities[:-1])

    def test_decision_function_is_its_log_odds(self, classifier, texts):
        P = classifier.predict_proba(texts[:-1]).astype(np.float64)
        z = classifier.decision_function(texts[:-1])
        np.testing.assert_allclose(z, np.log(P) - np.log1p(-P), rtol=1e-5, atol=1e-5)

    def test_included_and_excluded_labels_filter_the_ranking(self, classifier, texts):
        labels, probabilities = classifier.predict_topk(texts[:-1], k=N_LABELS)
        chosen = classifier.classes_[::3]
        within = np.isin(labels, chosen)
        for k in (3, 12, len(chosen)):
            included, p = classifier.predict_topk(texts[:-1], k=k, include=chosen)
            for row, kept in enumerate(within):
                assert_array_equal(included[row], labels[row, kept][:k])
                assert_array_equal(p[row], probabilities[row, kept][:k])
            excluded, p = classifier.predict_topk(texts[:-1], k=k, exclude=chosen)
            for row, kept in enumerate(~within):
                assert_array_equal(excluded[row], labels[row, kept][:k])
                assert_array_equal(p[row], probabilities[row, kept][:k])

    def test_a_text_by_itself_and_among_others(self, classifier, texts):
        labels, probabilities = classifier.predict_topk(texts, k=30)
        P = classifier.predict_proba(texts)
        for row in (0, 7, 23, 40):
            alone, p = classifier.predict_topk([texts[row]], k=30)
            assert_array_equal(alone[0], labels[row])
            assert_array_equal(p[0], probabilities[row])
            assert_array_equal(classifier.predict_proba([texts[row]])[0], P[row])
        order = np.random.default_rng(0).permutation(len(texts))
        shuffled, p = classifier.predict_topk([texts[i] for i in order], k=30)
        assert_array_equal(shuffled, labels[order])
        assert_array_equal(p, probabilities[order])

    def test_predicted_labels_are_the_first_of_the_ranking(self, classifier, texts, one_label):
        labels, probabilities = classifier.predict_topk(texts[:-1], k=N_LABELS)
        if one_label:
            assert_array_equal(classifier.predict(texts[:-1]), labels[:, 0])
            return
        matrix = classifier.predict(texts[:-1])
        threshold = classifier.model_.threshold
        shown = classifier.label_names_
        sets = classifier.predict_labels(texts[:-1])
        for row in range(len(texts) - 1):
            expected = labels[row, probabilities[row] >= threshold].tolist()
            assert sets[row] == [shown.get(label, label) for label in expected]
            columns = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
            assert sorted(classifier.classes_[columns].tolist()) == sorted(expected)

    def test_every_label_at_a_threshold_of_zero(self, classifier, texts):
        sets = classifier.predict_labels(texts, min_probability=0.0)
        assert {len(labels) for labels in sets[:-1]} == {len(classifier.classes_)}
        assert sets[-1] == []

    def test_a_saved_model_gives_it_again(self, classifier, texts, tmp_path):
        classifier.save(tmp_path / "model")
        again = load(tmp_path / "model")
        labels, probabilities = classifier.predict_topk(texts, k=30)
        same, p = again.predict_topk(texts, k=30)
        assert_array_equal(same, labels)
        assert_array_equal(p, probabilities)

    def test_a_text_that_no_part_can_read_gets_no_labels(self, classifier, texts, one_label):
        labels, probabilities = classifier.predict_topk(texts[-1:], k=3)
        assert labels.tolist() == [[None] * 3]
        assert not probabilities.any()
        assert classifier.predict_labels(texts[-1:]) == [[]]
        assert not classifier.predict_proba(texts[-1:]).any()
        if one_label:
            with pytest.warns(UserWarning, match="no word of the model"):
                assert classifier.predict(texts[-1:]).tolist() == [None]
        else:
            assert classifier.predict(texts[-1:]).nnz == 0

    def test_probabilities_lie_between_zero_and_one(self, classifier, texts, one_label):
        P = classifier.predict_proba(texts[:-1])
        assert ((P > 0) & (P < 1)).all()
        if one_label:
            np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-4)

    def test_the_tail_weighs_the_same_probabilities(self, classifier, texts):
        model = classifier.model_
        rows = rows_of(classifier, texts[:-1])
        P = all_probabilities(model, rows)
        worth = model.worth(0.55, 1.5)
        order = np.argsort(-(P * worth), axis=1, kind="stable")
        for k in (1, 5, 30):
            ranked = answer(model, Request(rows, k, tail=(0.55, 1.5)))
            assert_array_equal(ranked.labels, order[:, :k])
            expected = np.take_along_axis(P, order[:, :k], axis=1)
            np.testing.assert_allclose(ranked.probabilities, expected, rtol=1e-6)


class TestBaseRates:
    """Where the features are uninformative, probabilities are the shares of the labels."""

    def noise(self, n_rows, seed=0):
        rng = np.random.default_rng(seed)
        return [" ".join(f"w{i}" for i in rng.integers(0, 30, size=6)) for _ in range(n_rows)]

    @pytest.mark.parametrize("n_texts", [3000, 40], ids=["distinct texts", "equal texts"])
    def test_three_labels_each_on_half_of_the_texts(self, n_texts):
        means = []
        # With 40 texts a blend is learned on seven of them, so it is one of several that has to be
        # right on average.
        for seed in range(4):
            rng = np.random.default_rng(200 + seed)
            distinct = self.noise(n_texts, seed)
            texts = [distinct[i % n_texts] for i in range(3000)]
            Y = rng.random((3000, 3)) < 0.5
            classifier = RembrandtClassifier(random_state=0).fit(texts, Y.astype(int))
            others = self.noise(200, seed=100 + seed) if n_texts == 3000 else distinct
            P = classifier.predict_proba(others)
            assert (np.abs(P - 0.5) < 0.25).mean() > 0.9
            means.append(P.mean(axis=0))
        np.testing.assert_allclose(np.mean(means), 0.5, rtol=0.1)

    def test_a_label_on_every_text(self):
        rng = np.random.default_rng(1)
        texts = self.noise(600)
        labels = [["always", f"sometimes {rng.integers(4)}"] for _ in texts]
        classifier = RembrandtClassifier(random_state=0).fit(texts, labels)
        P = classifier.predict_proba(self.noise(50, seed=2))
        assert (P[:, classifier.classes_.tolist().index("always")] > 0.9).all()
        np.testing.assert_allclose(P[:, 1:].mean(axis=0), 0.25, rtol=0.25)

    def test_one_label_only(self):
        classifier = RembrandtClassifier(random_state=0).fit(self.noise(300), [["only"]] * 300)
        assert (classifier.predict_proba(self.noise(20, seed=2)) > 0.9).all()

    def test_identical_texts(self):
        rng = np.random.default_rng(0)
        labels = [[f"label {rng.integers(5)}"] for _ in range(500)]
        classifier = RembrandtClassifier(random_state=0).fit(["the same words"] * 500, labels)
        P = classifier.predict_proba(["the same words"])
        np.testing.assert_allclose(P.sum(), 1, rtol=0.2)
        shares = classifier.label_counts_ / 500
        np.testing.assert_allclose(P[0], shares, atol=0.04)
