"""Predictions over a hierarchy of labels."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from rembrandt import RembrandtClassifier, load
from rembrandt.data.hierarchy import Hierarchy
from rembrandt.errors import DataError, RembrandtWarning, SettingsError
from rembrandt.metrics import hierarchical_scores
from rembrandt.predict import Request, answer

WORDS = {
    "animal/fox": "fox red fur",
    "animal/fox/arctic": "fox white snow",
    "animal/hen": "hen egg feather",
    "plant/oak": "oak acorn leaf",
    "plant/rose": "rose thorn leaf",
    "plant/rose/wild": "rose hedge berry",
}
TEXTS = [
    "a red fox",
    "fox in white snow",
    "hen and acorn",
    "leaf with thorn",
    "berry fur egg",
    "nothing",
]


def examples() -> tuple[list[str], list[list[str]]]:
    rng = np.random.default_rng(0)
    names = list(WORDS)
    texts = []
    labels = []
    for _ in range(240):
        chosen = rng.choice(names, size=rng.integers(1, 3), replace=False).tolist()
        words = [word for name in chosen for word in rng.choice(WORDS[name].split(), 2)]
        texts.append(" ".join(words))
        labels.append(chosen)
    return texts, labels


@cache
def fitted() -> RembrandtClassifier:
    classifier = RembrandtClassifier(preset="fast", random_state=0)
    return classifier.fit(*examples(), label_parents="/")


@cache
def without_parents() -> RembrandtClassifier:
    return RembrandtClassifier(preset="fast", random_state=0).fit(*examples())


def above(node: str) -> list[str]:
    """All that lies above a node."""
    parts = node.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts))]


def test_without_parents_nothing_changes() -> None:
    plain = without_parents()
    classifier = fitted()
    for mode in ("auto", "flat"):
        labels, scores = plain.predict_topk(TEXTS, 4, hierarchy=mode)
        expected, expected_scores = classifier.predict_topk(TEXTS, 4, hierarchy="flat")
        assert np.array_equal(labels, expected)
        assert np.array_equal(scores, expected_scores)
    with pytest.raises(SettingsError, match="needs parents of labels"):
        plain.predict_topk(TEXTS, hierarchy="closed")
    with pytest.raises(SettingsError, match="needs a model with parents"):
        plain.predict_topk(TEXTS, include=["animal"], branches=True)
    with pytest.raises(SettingsError, match="is not one of auto, flat"):
        plain.predict_topk(TEXTS, hierarchy="deep")


def test_a_parent_is_at_least_as_likely_as_what_lies_below() -> None:
    classifier = fitted()
    flat = without_parents().predict_proba(TEXTS)
    P = classifier.predict_proba(TEXTS)
    classes = classifier.classes_.tolist()
    for child, name in enumerate(classes):
        below = [i for i, other in enumerate(classes) if name in (other, *above(other))]
        assert np.array_equal(P[:, child], flat[:, below].max(axis=1))
    labels, scores = classifier.predict_topk(TEXTS, 20)
    for row, values in zip(labels.tolist(), scores.tolist(), strict=True):
        probability = dict(zip(row, values, strict=True))
        for number, name in enumerate(row):
            for group in above(name or ""):
                assert group in row[:number]  # every beginning of the answer is closed
                assert probability[group] >= probability[name]
    matrix = classifier.predict(TEXTS).toarray()
    sets = classifier.predict_labels(TEXTS)
    for row, names in zip(matrix, sets, strict=True):
        assert {name for name in names if name in classes} == set(classifier.classes_[row > 0])
        assert all(set(above(name)) <= set(names) for name in names)


@pytest.mark.parametrize("mode", ["closed", "specific", "flat"])
def test_an_answer_does_not_depend_on_what_else_is_asked(mode: str) -> None:
    classifier = fitted()
    model = classifier.model_
    rows = model.text.transform(TEXTS)
    full = answer(model, Request(rows, k=None, hierarchy=mode))
    for k in (1, 2, 3, 5):
        first = answer(model, Request(rows, k=k, hierarchy=mode))
        assert np.array_equal(first.labels, full.labels[:, :k])
        assert np.array_equal(first.probabilities, full.probabilities[:, :k])
    for row in range(len(TEXTS)):
        alone = answer(model, Request(rows[[row]], k=3, hierarchy=mode))
        width = alone.labels.shape[1]
        assert np.array_equal(alone.labels[0], full.labels[row, :width])
    if mode == "specific":
        return  # among the labels that are allowed
    allowed = np.array([0, 2, 3, 5])
    some = answer(model, Request(rows, k=None, allowed=allowed, hierarchy=mode))
    for row in range(len(TEXTS)):
        expected = [label for label in full.labels[row] if label in allowed]
        assert [label for label in some.labels[row] if label >= 0] == expected


def test_the_most_specific_labels() -> None:
    classifier = fitted()
    flat = without_parents().predict_proba(TEXTS)
    classes = classifier.classes_.tolist()
    threshold = float(classifier.threshold_)
    labels, _ = classifier.predict_topk(TEXTS, 20, hierarchy="specific")
    for row, names in enumerate(labels.tolist()):
        expected = set()
        for column, name in enumerate(classes):
            below = [i for i, other in enumerate(classes) if name in above(other)]
            hiding = [i for i in below if flat[row, i] >= min(threshold, flat[row, column])]
            if flat[row, column] > 0 and not hiding:
                expected.add(name)
        assert {name for name in names if name is not None} == expected
    sets = classifier.predict_labels(TEXTS, min_probability=0.2, hierarchy="specific")
    for names in sets:
        assert not any(group in names for name in names for group in above(name))


def test_branches_are_included_and_excluded() -> None:
    classifier = fitted()
    labels, _ = classifier.predict_topk(TEXTS[:2], 20, include=["animal"], branches=True)
    animals = {
        "animal",
        *(name for name in classifier.model_.nodes.names if name.startswith("animal/")),
    }
    assert set(labels[0]) == animals
    labels, _ = classifier.predict_topk(
        TEXTS[:1], 20, exclude=["plant/rose", "animal"], branches=True, hierarchy="flat"
    )
    assert set(labels[0]) == {"plant/oak"}
    with pytest.raises(DataError, match="label 'plant/elm' is not one of"):
        classifier.predict_topk(TEXTS, include=["plant/elm"], branches=True)


def test_saved_loaded_and_updated(tmp_path: Any) -> None:
    classifier = fitted()
    classifier.save(tmp_path / "model")
    again = load(tmp_path / "model")
    expected, scores = classifier.predict_topk(TEXTS, 5)
    labels, loaded_scores = again.predict_topk(TEXTS, 5)
    assert np.array_equal(labels, expected)
    assert np.array_equal(loaded_scores, scores)
    without_parents().save(tmp_path / "plain")
    assert load(tmp_path / "plain").model_.hierarchy is None
    with pytest.warns(RembrandtWarning, match="outside the embedding"):
        again.update(["pine needle"] * 3, [["plant/pine"]] * 3)
    hierarchy = again.model_.hierarchy
    names = again.model_.nodes.names
    assert [names[i] for i in hierarchy.parents_of(names.index("plant/pine"))] == ["plant"]
    again.set_label_parents({"animal/fox": ["mammal"]}, {"mammal": "Mammals"})
    assert again.model_.nodes.titles[-1] == "Mammals"
    with pytest.raises(DataError, match="no label has a parent"):
        again.set_label_parents({"dog": ["mammal"]})
    with pytest.raises(DataError, match="mapping of labels to lists"):
        again.set_label_parents({"animal/fox": "mammal"})


def random_parents(labels: list[str], rng: np.random.Generator) -> dict[str, list[str]]:
    """Up to three parents for each label: later labels, and groups, which have parents too."""
    groups = [f"group {number}" for number in range(6)]
    nodes = [*labels, *groups]
    parents = {}
    for position, node in enumerate(nodes[:-1]):
        later = nodes[position + 1 :]
        n_parents = min(int(rng.integers(4)), len(later))
        parents[node] = rng.choice(later, size=n_parents, replace=False).tolist()
    parents[labels[0]] = [groups[0]]
    return {node: above_it for node, above_it in parents.items() if above_it}


def all_above(node: str, parents: dict[str, list[str]]) -> set[str]:
    """All that lies above a node, one step after the other."""
    reached: set[str] = set()
    waiting = [node]
    while waiting:
        for parent in parents.get(waiting.pop(), []):
            if parent not in reached:
                reached.add(parent)
                waiting.append(parent)
    return reached


NAMED = ["fox", "hen", "oak", "rose", "snow", "acorn", "thorn", "berry"]
ADDED = {"egg": "egg", "leaf": "leaf", "fur": ("fur", "red or white")}


@cache
def named(has_one_label: bool) -> RembrandtClassifier:
    """A model whose labels occur in the texts, and three labels without examples."""
    rng = np.random.default_rng(1)
    texts = []
    labels = []
    for _ in range(500):
        n_labels = 1 if has_one_label else int(rng.integers(1, 4))
        chosen = rng.choice(NAMED, size=n_labels, replace=False).tolist()
        others = rng.choice(["red", "white", "egg", "leaf", "fur", "hedge"], size=3).tolist()
        texts.append(" ".join([*chosen, *others]))
        labels.append(chosen)
    targets: Any = labels
    if has_one_label:
        targets = [names[0] for names in labels]
    classifier = RembrandtClassifier(preset="fast", random_state=0).fit(texts, targets)
    assert classifier.model_.multiclass == has_one_label
    return classifier.add_labels(ADDED)


@pytest.mark.parametrize("has_one_label", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_no_parent_is_less_likely_than_its_child(has_one_label: bool, seed: int) -> None:
    """In any hierarchy, for labels with examples and without, and whatever is asked."""
    rng = np.random.default_rng(seed)
    classifier = named(has_one_label)
    classes = classifier.classes_.tolist()
    parents = random_parents(rng.permutation(classes).tolist(), rng)
    classifier.set_label_parents(parents)
    texts = [*TEXTS, "egg leaf", "fur", "zuzu", ""]
    P = classifier.predict_proba(texts)
    n_compared = 0
    for child, label in enumerate(classes):
        for parent in all_above(label, parents) & set(classes):
            n_compared += 1
            assert (P[:, classes.index(parent)] >= P[:, child]).all()
    assert n_compared > 0
    for k in (1, 3, 50):
        ranked, scores = classifier.predict_topk(texts, k, hierarchy="closed")
        for row, values in zip(ranked.tolist(), scores.tolist(), strict=True):
            probability = dict(zip(row, values, strict=True))
            for position, node in enumerate(row):
                for parent in all_above(node or "", parents):
                    assert parent in row[:position]
                    assert probability[parent] >= probability[node]


def hiclass_measures(
    truth: list[set[str]],
    predicted: list[set[str]],
    ancestors: Callable[[str], Iterable[str]] = above,
) -> tuple[float, float, float]:
    """The definition of hiclass: sets of labels with all their ancestors, summed over examples."""
    common = n_predicted = n_true = 0
    for true_labels, predicted_labels in zip(truth, predicted, strict=True):
        alpha = set(predicted_labels).union(*(ancestors(name) for name in predicted_labels))
        beta = set(true_labels).union(*(ancestors(name) for name in true_labels))
        common += len(alpha & beta)
        n_predicted += len(alpha)
        n_true += len(beta)
    precision = common / n_predicted
    recall = common / n_true
    return precision, recall, 2 * precision * recall / (precision + recall)


def test_measures_agree_with_the_definition() -> None:
    classifier = fitted()
    texts, labels = examples()
    predicted = classifier.predict_labels(texts, hierarchy="flat")
    expected = hiclass_measures([*map(set, labels)], [*map(set, predicted)])
    for name, value in zip(("precision", "recall", "f1"), expected, strict=True):
        assert classifier.score(texts, labels, measure=f"hierarchical_{name}") == pytest.approx(
            value
        )
    with pytest.raises(SettingsError, match="needs a model with parents"):
        without_parents().score(texts, labels, measure="hierarchical_f1")


@pytest.mark.parametrize("seed", range(5))
def test_measures_agree_with_the_definition_where_labels_have_several_parents(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = [f"label {number}" for number in range(12)]
    parents = random_parents(labels, rng)
    hierarchy = Hierarchy.of(labels, parents)
    true = rng.random((30, 12)) < 0.2
    predicted = rng.random((30, 12)) < 0.2
    names = np.array(labels)
    expected = hiclass_measures(
        [set(names[row].tolist()) for row in true],
        [set(names[row].tolist()) for row in predicted],
        lambda label: all_above(label, parents),
    )
    ranked = np.full(predicted.shape, -1)
    for row, is_predicted in enumerate(predicted):
        columns = rng.permutation(np.flatnonzero(is_predicted))
        ranked[row, : len(columns)] = columns
    measures = hierarchical_scores(sparse.csr_array(true.astype(int)), ranked, hierarchy.above)
    for name, value in zip(("precision", "recall", "f1"), expected, strict=True):
        assert measures[f"hierarchical_{name}"] == pytest.approx(value)


def test_true_labels_without_a_column_count_as_missed() -> None:
    truth = sparse.csr_array(np.array([[1, 0]]))
    links = sparse.csr_array(np.array([[1, 0, 1], [0, 1, 1], [0, 0, 1]]))
    measures = hierarchical_scores(truth, np.array([[1]]), links, [1])
    assert measures["hierarchical_precision"] == 1 / 2
    assert measures["hierarchical_recall"] == 1 / 3
    nothing = hierarchical_scores(truth, np.array([[-1]]), links)
    assert nothing["hierarchical_f1"] == 0
