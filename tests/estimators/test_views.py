"""Vectors beside texts or features are a part of the model with a view of its own."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from rembrandt import Dataset, RembrandtClassifier, load
from rembrandt.errors import DataError
from rembrandt.estimators.requests import rows_of

N_TOPICS = 6
N_KINDS = 4
WIDTH = 5


def problem(n=300, seed=0):
    """Texts that name a topic, vectors near the direction of a kind, and both as labels."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, N_TOPICS, n)
    kind = rng.integers(0, N_KINDS, n)
    texts = [f"word{t} filler{i % 11} common" for i, t in enumerate(topic)]
    directions = np.random.default_rng(7).standard_normal((N_KINDS, WIDTH))
    vectors = directions[kind] + 0.1 * rng.standard_normal((n, WIDTH))
    labels = [[f"topic {t}", f"kind {k}"] for t, k in zip(topic, kind, strict=True)]
    return texts, vectors.astype(np.float32), labels


TEXTS, VECTORS, LABELS = problem()
NEW_TEXTS, NEW_VECTORS, NEW_LABELS = problem(100, seed=1)
NEW = (NEW_TEXTS, NEW_VECTORS)


def classifier_of(**changes):
    return RembrandtClassifier(**{"kernel": None, "random_state": 0} | changes)


@pytest.fixture(scope="module")
def fitted():
    return classifier_of().fit((TEXTS, VECTORS), LABELS)


class TestFit:
    def test_the_vectors_have_a_part_of_their_own(self, fitted):
        model = fitted.model_
        assert list(model.parts)[-1] == "vectors"
        assert model.parts["vectors"].n_features == WIDTH
        spec = fitted.settings_["parts"]["vectors"]
        assert spec["kind"] == "embedding"
        assert spec["view"] == "vectors"
        assert fitted.settings_["parts"]["trees"]["view"] == "features"
        assert model.vector_widths == (WIDTH,)
        assert model.n_features == len(fitted.text_.terms_)
        assert fitted.n_features_in_ == model.n_features

    def test_both_are_used(self, fitted):
        assert fitted.score(NEW, NEW_LABELS, measure="r@2") > 0.95
        texts_alone = classifier_of().fit(TEXTS, LABELS)
        assert texts_alone.score(NEW_TEXTS, NEW_LABELS, measure="r@2") < 0.8
        vectors_alone = classifier_of().fit(VECTORS, LABELS)
        assert vectors_alone.score(NEW_VECTORS, NEW_LABELS, measure="r@2") < 0.8

    def test_each_part_is_measured_alone(self, fitted):
        together, *alone = fitted.facts_.held_out
        assert together.parts == tuple(fitted.model_.parts)
        assert [measures.parts for measures in alone] == [(name,) for name in fitted.model_.parts]
        words = " ".join(fitted.describe()["chosen"]["why"])
        assert "label embedding of vectors" in words
        assert "texts and vectors of 5 dimensions" in fitted.describe()["trained_on"]["words"]

    def test_vectors_beside_features(self):
        rows = sparse.random_array((300, 40), density=0.1, rng=np.random.default_rng(0)).tocsr()
        classifier = classifier_of().fit((rows, VECTORS), LABELS)
        assert "vectors" in classifier.model_.parts
        assert classifier.n_features_in_ == 40
        assert classifier.predict_proba((rows[:3], VECTORS[:3])).shape == (3, N_TOPICS + N_KINDS)

    def test_two_blocks_of_vectors_have_two_parts(self, tmp_path):
        other = np.random.default_rng(3).standard_normal((len(TEXTS), 3)).astype(np.float32)
        classifier = classifier_of(preset="fast")
        classifier.fit((TEXTS, VECTORS, other), LABELS)
        assert classifier.model_.vector_widths == (WIDTH, 3)
        views = [spec["view"] for spec in classifier.settings_["parts"].values()]
        names = [view for view in views if view != "features"]
        assert len(names) == len(set(names)) == 2
        rows = (TEXTS[:5], VECTORS[:5], other[:5])
        expected = classifier.predict_proba(rows)
        classifier.save(tmp_path / "model")
        assert_array_equal(load(tmp_path / "model").predict_proba(rows), expected)
        with pytest.raises(DataError, match="same blocks in the same order"):
            classifier.predict((TEXTS[:5], other[:5], VECTORS[:5]))

    def test_a_dataset_with_vectors(self, fitted):
        data = replace(Dataset.from_arrays(texts=TEXTS, Y=LABELS), vectors=VECTORS)
        classifier = classifier_of().fit_dataset(data)
        assert_array_equal(classifier.predict_proba(NEW), fitted.predict_proba(NEW))

    def test_a_checkpoint_of_other_vectors_is_not_used(self, tmp_path):
        classifier = classifier_of(preset="fast")
        classifier.fit((TEXTS, VECTORS), LABELS, checkpoint=tmp_path / "kept")
        again = classifier_of(preset="fast")
        again.fit((TEXTS, VECTORS), LABELS, checkpoint=tmp_path / "kept")
        assert_array_equal(again.predict_proba(NEW), classifier.predict_proba(NEW))
        with pytest.raises(ValueError, match="start a new fit"):
            again.fit((TEXTS, 2 * VECTORS), LABELS, checkpoint=tmp_path / "kept")


class TestPredict:
    def test_answers_agree(self, fitted):
        probabilities = fitted.predict_proba(NEW)
        labels, best = fitted.predict_topk(NEW, 4)
        order = np.argsort(-probabilities, axis=1, kind="stable")[:, :4]
        assert_array_equal(labels, fitted.classes_[order])
        assert_array_equal(best, np.take_along_axis(probabilities, order, axis=1))
        alone = fitted.predict_proba((NEW_TEXTS[7:8], NEW_VECTORS[7:8]))
        assert_array_equal(alone[0], probabilities[7])
        sets = fitted.predict_labels(NEW)
        is_right = [set(sets[row]) == set(NEW_LABELS[row]) for row in range(100)]
        assert sum(is_right) > 80

    def test_a_text_without_a_known_word_still_has_vectors(self, fitted):
        labels, probabilities = fitted.predict_topk((["unheard of"], NEW_VECTORS[:1]), 1)
        assert labels[0, 0] == NEW_LABELS[0][1]
        assert probabilities[0, 0] > 0

    def test_rows_have_both_views(self, fitted):
        rows = rows_of(fitted, NEW)
        assert rows.n == 100
        assert rows.view("features").shape == (100, fitted.n_features_in_)
        assert rows.view("vectors").shape == (100, WIDTH)

    @pytest.mark.parametrize(
        ("X", "message"),
        [
            (NEW_TEXTS, "0 blocks of vectors .* fitted with 1"),
            ((NEW_TEXTS, NEW_VECTORS, NEW_VECTORS), "2 blocks of vectors .* fitted with 1"),
            ((NEW_TEXTS, NEW_VECTORS[:, :3]), "3 columns and those of the fit had 5"),
            ((NEW_TEXTS, NEW_VECTORS[:50]), "100 and 50 rows"),
            ((NEW_TEXTS, NEW_TEXTS), "more than one block of texts"),
        ],
        ids=["none", "two", "width", "rows", "texts"],
    )
    def test_other_vectors_are_refused(self, fitted, X, message):
        with pytest.raises(DataError, match=message):
            fitted.predict(X)

    def test_vectors_for_a_model_without_them_are_refused(self):
        classifier = classifier_of(preset="fast").fit(TEXTS, LABELS)
        with pytest.raises(DataError, match=r"1 block of vectors .* fitted with 0"):
            classifier.predict(NEW)


class TestSave:
    def test_a_saved_model_gives_the_same_answers(self, fitted, tmp_path):
        fitted.save(tmp_path / "model")
        again = load(tmp_path / "model")
        assert_array_equal(again.predict_proba(NEW), fitted.predict_proba(NEW))
        assert again.settings_ == fitted.settings_
        assert again.facts_ == fitted.facts_
        assert again.model_.vector_widths == (WIDTH,)


class TestUpdate:
    @pytest.mark.filterwarnings("ignore::rembrandt.errors.RembrandtWarning")
    @pytest.mark.parametrize("has_history", [False, True])
    def test_all_parts_learn(self, has_history, tmp_path):
        is_new = np.array([labels[1] == "kind 3" for labels in LABELS])
        is_new[::4] = True  # some have labels that the model knows
        old = np.flatnonzero(~is_new)
        new = np.flatnonzero(is_new)
        old_rows = ([TEXTS[i] for i in old], VECTORS[old])
        old_labels = [LABELS[i] for i in old]
        classifier = classifier_of().fit(old_rows, old_labels)
        assert "kind 3" not in classifier.classes_
        classifier.update(
            ([TEXTS[i] for i in new], VECTORS[new]),
            [LABELS[i] for i in new],
            history=(old_rows, old_labels) if has_history else None,
        )
        assert classifier.n_train_ == len(TEXTS)
        assert {part.n_labels for part in classifier.model_.parts.values()} == {10}
        of_new_kind = [i for i, labels in enumerate(NEW_LABELS) if labels[1] == "kind 3"]
        rows = ([NEW_TEXTS[i] for i in of_new_kind], NEW_VECTORS[of_new_kind])
        column = classifier.classes_.tolist().index("kind 3")
        likely = classifier.predict_proba(rows)[:, column]
        others = np.setdiff1d(np.arange(100), of_new_kind)
        other_rows = ([NEW_TEXTS[i] for i in others], NEW_VECTORS[others])
        unlikely = classifier.predict_proba(other_rows)[:, column]
        assert np.median(likely) > 3 * np.median(unlikely)
        classifier.save(tmp_path / "model")
        again = load(tmp_path / "model")
        assert_array_equal(again.predict_proba(NEW), classifier.predict_proba(NEW))

    def test_an_update_needs_the_vectors_too(self, fitted):
        with pytest.raises(DataError, match="0 blocks of vectors"):
            fitted.update(NEW_TEXTS, NEW_LABELS)


class TestExplain:
    def test_the_vectors_are_one_contribution(self, fitted):
        explanations = fitted.explain(NEW, k=3)
        columns = [[explanation.column for explanation in row] for row in explanations]
        expected = np.take_along_axis(fitted.decision_function(NEW), np.array(columns), axis=1)
        log_odds = [[explanation.log_odds for explanation in row] for row in explanations]
        np.testing.assert_allclose(log_odds, expected, atol=1e-4)
        for row in explanations[:10]:
            for explanation in row:
                names = [name for name, _ in explanation.top(20)]
                assert names.count("the vectors") == 1

    def test_a_label_is_explained_by_what_it_depends_on(self, fitted):
        of_topic, of_kind = NEW_LABELS[0]
        [[topic, kind]] = fitted.explain((NEW_TEXTS[:1], NEW_VECTORS[:1]), [of_topic, of_kind])
        assert topic.top(1)[0][0] == f"word{of_topic.removeprefix('topic ')}"
        assert kind.top(1)[0][0] == "the vectors"

    def test_a_document_adds_up(self, fitted):
        [[explanation]] = fitted.explain((NEW_TEXTS[:1], NEW_VECTORS[:1]), k=1)
        document = explanation.document(k=2)
        total = document["base"] + document["comparison"] + document["rest"]
        total += sum(word["contribution"] for word in document["words"])
        assert total == pytest.approx(document["log_odds"], abs=1e-9)
