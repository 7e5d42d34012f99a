"""Labels that have a name and no example are predicted, wherever they come from."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from benchmarks.real_sets import FOLDER
from benchmarks.zero_shot import NAMES, Rows, measure, measure_known, parts_of
from scipy import sparse

from rembrandt import RembrandtClassifier, load
from rembrandt.blend import AS_STATED
from rembrandt.data import Dataset
from rembrandt.data.examples import Examples
from rembrandt.data.label_names import read_label_names
from rembrandt.data.reader import read
from rembrandt.data.rows import as_rows
from rembrandt.data.targets import read_targets
from rembrandt.data.views import as_texts
from rembrandt.errors import RembrandtWarning, SettingsError
from rembrandt.parts.names.fit import fit_names, is_informative
from rembrandt.parts.names.label_texts import label_texts
from rembrandt.progress import silent

SYLLABLES = [consonant + vowel for consonant, vowel in product("bdfk", "aeio")]
WORDS = [first + second for first, second in product(SYLLABLES, repeat=2)]
N_LABELS = 40
ADDED = {"new one": (WORDS[200], ""), "D77": ("", f"{WORDS[210]} {WORDS[220]}")}
TOFU = {"tofu": ("tofu", "tofu pressing frying tofu soy bean curd")}


def documents(n_rows, seed=0):
    """Texts in which the name of the label occurs mostly, among other words."""
    rng = np.random.default_rng(seed)
    texts = []
    labels = []
    for _ in range(n_rows):
        column = int(rng.integers(N_LABELS))
        words = [WORDS[i] for i in rng.integers(100, 200, size=5)]
        words.append(WORDS[column] if rng.random() < 0.8 else WORDS[column + 50])
        texts.append(" ".join(words))
        labels.append([WORDS[column]])
    return texts, labels


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Return a folder with a model."""
    texts, labels = documents(800)
    folder = tmp_path_factory.mktemp("fitted") / "model"
    RembrandtClassifier(preset="fast", random_state=0).fit(texts, labels).save(folder)
    return folder


@pytest.fixture
def classifier(fitted):
    return load(fitted)


def test_labels_whose_names_occur_in_texts_are_matched(classifier):
    assert list(classifier.model_.parts)[-1] == "names"
    assert classifier.model_.settings.parts["names"].view == "texts"
    texts, labels = documents(200, seed=1)
    assert classifier.score(texts, labels) > 0.9


def informative(texts, labels, names=None):
    """Return whether a model of some texts has their names."""
    targets = read_targets(labels)
    X = as_rows(np.zeros((len(texts), 1)))
    data = Examples(X, targets.Y, targets.classes, False, texts=as_texts(texts), label_names=names)
    return is_informative(data)


def test_names_are_matched_where_they_occur_in_the_texts_of_their_labels():
    texts, labels = documents(300)
    assert informative(texts, labels)
    codes = [[f"c{WORDS.index(label)}" for label in names] for names in labels]
    assert not informative(texts, codes)
    assert not informative(texts, [[WORDS.index(label) for label in names] for names in labels])
    classes = read_targets(codes).classes.tolist()
    assert informative(texts, codes, [WORDS[int(code[1:])] for code in classes])
    assert not informative(texts, codes, [f"quux {code}" for code in classes])
    assert not informative(texts, labels[1:] + labels[:1])


def test_without_names_the_model_is_that_of_before():
    texts, labels = documents(150)
    codes = [[f"c{WORDS.index(label)}" for label in names] for names in labels]
    model = RembrandtClassifier(preset="fast", random_state=0).fit(texts, codes)
    assert "names" not in model.model_.parts
    same = RembrandtClassifier(parts=tuple(model.model_.parts), preset="fast", random_state=0)
    same.fit(texts, codes)
    np.testing.assert_array_equal(same.predict_proba(texts[:9]), model.predict_proba(texts[:9]))


def test_added_labels_are_predicted_by_name_and_description(classifier):
    texts = [f"{WORDS[120]} {WORDS[200]}", f"{WORDS[130]} {WORDS[210]} {WORDS[220]}", WORDS[150]]
    before = classifier.predict_proba(texts)
    classifier.add_labels(ADDED)
    assert classifier.classes_[-2:].tolist() == list(ADDED)
    assert classifier.label_counts_[-2:].tolist() == [0, 0]
    labels, probabilities = classifier.predict_topk(texts, k=3)
    assert labels[0, 0] == "new one"
    assert "D77" in labels[1].tolist()
    assert probabilities[0, 0] > 0.3
    P = classifier.predict_proba(texts)
    # No name matches the last text: its likely labels are as likely as before.
    likely = np.flatnonzero(before[2] > 1e-3)
    np.testing.assert_allclose(P[2, likely], before[2, likely], rtol=1e-5)
    assert classifier.label_descriptions_["D77"] == ADDED["D77"][1]


def documents_with_names_of_others(n_rows, n_others, seed=0):
    """Documents, and labels whose names occur in the texts and that no document has."""
    texts, labels = documents(n_rows, seed)
    others = WORDS[100 : 100 + n_others]
    classes = sorted({*WORDS[:N_LABELS], *others})
    column_of = {label: column for column, label in enumerate(classes)}
    columns = [column_of[names[0]] for names in labels]
    Y = sparse.csr_array(
        (np.ones(n_rows, np.int8), columns, np.arange(n_rows + 1)), shape=(n_rows, len(classes))
    )
    return Dataset.build(Y, texts=texts, label_ids=classes, task="multilabel")


@pytest.mark.parametrize("preset", ["fast", "balanced"])
def test_labels_of_which_a_fit_knows_only_the_names_are_as_likely_as_they_are_right(preset):
    """Names of a thesaurus occur in texts of which they are not the labels."""
    n_others = 100
    train = documents_with_names_of_others(1500, n_others)
    test = documents_with_names_of_others(300, n_others, seed=1)
    classifier = RembrandtClassifier(preset=preset, random_state=0).fit_dataset(train)
    model = classifier.model_
    assert model.is_unseen.sum() == n_others
    P = classifier.predict_proba(test.texts)
    is_right = test.Y.toarray() > 0
    assert P[:, model.is_unseen].sum(axis=1).mean() < 0.05
    assert is_right[np.arange(len(P)), P.argmax(axis=1)].mean() > 0.75

    # A label that is added is one that somebody needs.
    classifier.add_labels(ADDED)
    labels, probabilities = classifier.predict_topk([f"{WORDS[120]} {WORDS[200]}"], k=1)
    assert labels[0, 0] == "new one"
    assert probabilities[0, 0] > 0.3


def test_what_is_known_of_names_is_saved(tmp_path):
    train = documents_with_names_of_others(1500, 100)
    classifier = RembrandtClassifier(preset="fast", random_state=0).fit_dataset(train)
    assert classifier.model_.blend.unseen != AS_STATED
    classifier.save(tmp_path / "model")
    again = load(tmp_path / "model")
    texts = train.texts[:50]
    np.testing.assert_array_equal(again.predict_proba(texts), classifier.predict_proba(texts))
    ranked, probabilities = classifier.predict_topk(texts, k=30)
    of_all = classifier.predict_proba(texts)
    columns = np.searchsorted(classifier.classes_, ranked.astype(str))
    np.testing.assert_array_equal(
        np.take_along_axis(of_all, columns, axis=1), probabilities.astype(np.float32)
    )


def composed_documents(n_rows, seed=0):
    """Texts in which the names of their labels, a place and a form, seldom occur."""
    rng = np.random.default_rng(seed)
    texts = []
    labels = []
    for _ in range(n_rows):
        place, form = rng.integers(8, size=2)
        words = [f"a{place}{i}" for i in rng.integers(5, size=3)]
        words += [f"b{form}{i}" for i in rng.integers(5, size=3)]
        if rng.random() < 0.3:
            words.append(PLACES[place])
        texts.append(" ".join(words))
        labels.append([f"{PLACES[place]} {FORMS[form]}"])
    return texts, labels


PLACES = ["oslo", "rome", "cairo", "lima", "delhi", "tokyo", "paris", "quito"]
FORMS = ["history", "maps", "fiction", "travel", "poetry", "letters", "drama", "songs"]


def test_a_new_label_is_composed_of_the_words_of_others():
    """The hidden label has words that other labels have, and the text has none of them."""
    texts, labels = composed_documents(6000)
    hidden = "lima poetry"
    names = {
        f"L{place}{form}": f"{PLACES[place]} {FORMS[form]}"
        for place in range(8)
        for form in range(8)
    }
    codes = {name: code for code, name in names.items()}
    rows = [row for row, label in enumerate(labels) if label != [hidden]]
    fitted = {code: name for code, name in names.items() if name != hidden}
    classifier = RembrandtClassifier(preset="fast", random_state=0)
    targets = [[codes[labels[row][0]]] for row in rows]
    classifier.fit([texts[row] for row in rows], targets, label_names=fitted)
    part = classifier.model_.parts["names"]
    assert part.similarity is not None
    classifier.add_labels({codes[hidden]: hidden, "L99": "berlin nothing"})
    test = [" ".join([f"a3{i}" for i in (0, 1, 2)] + [f"b4{i}" for i in (2, 3, 4)])]
    ranked, probabilities = classifier.predict_topk(test, k=3)
    assert ranked[0, 0] == codes[hidden]
    assert "L99" not in ranked[0].tolist()
    P = classifier.predict_proba(test)[0]
    assert P[classifier.classes_.tolist().index(codes[hidden])] == probabilities[0, 0]
    # What the match alone would say: no word of the name is in the text.
    matched = replace(part.with_label_names(classifier.classes_, None, None), similarity=None)
    assert (matched.prepare(np.array(test, dtype=object)).labels < 0).all()


def test_similarities_are_learned_from_a_thousand_examples_and_not_in_a_trial():
    texts, labels = composed_documents(1300)
    targets = read_targets(labels)
    X = as_rows(sparse.random_array((len(texts), 50), density=0.2, rng=0, format="csr"))
    data = Examples(X, targets.Y, targets.classes, True, texts=as_texts(texts))
    of_trial = fit_names(data, None, None, silent, is_trial=True)
    assert of_trial.similarity is None
    # What the trial has learned is kept, and the similarity is learned then.
    part = fit_names(data, of_trial, None, silent)
    assert part.similarity is not None
    np.testing.assert_array_equal(part.weights, of_trial.weights)
    test = data.texts[:20]
    scores = part.every(part.prepare(test))
    np.testing.assert_array_equal(scores, of_trial.every(of_trial.prepare(test)))
    added = label_texts(np.array([*data.classes, "new"]), [""] * 64 + ["rome songs"], None)
    assert part.with_texts(added).compared_labels is not None


def test_similarities_are_the_same_for_single_texts_and_after_loading(tmp_path):
    texts, labels = composed_documents(3000)
    classifier = RembrandtClassifier(preset="fast", random_state=0).fit(texts, labels)
    classifier.add_labels({"new": "rome songs", "other": "cairo maps"})
    test = np.array([*composed_documents(40, seed=1)[0], "zuzu"], dtype=object)
    part = classifier.model_.parts["names"]
    together = part.every(part.prepare(test))
    assert (together[:-1, -2:] > together[:-1].min()).any()
    for row in range(len(test)):
        alone = part.every(part.prepare(test[[row]]))
        np.testing.assert_array_equal(alone[0], together[row])
    classifier.save(tmp_path / "model")
    again = load(tmp_path / "model").model_.parts["names"]
    np.testing.assert_array_equal(again.every(again.prepare(test)), together)
    # Nothing is compared with a text of unknown words.
    assert (together[-1] == np.float32(part.floor)).all()


def test_a_text_of_unknown_words_is_read_where_a_name_occurs(classifier):
    assert classifier.predict_topk(["zaza zuzu"], k=1)[0].tolist() == [[None]]
    classifier.add_labels({"new": "zuzu"})
    labels, _ = classifier.predict_topk(["zaza zuzu", "zaza"], k=1)
    assert labels.tolist() == [["new"], [None]]


def test_an_explanation_of_an_added_label_adds_up(classifier):
    classifier.add_labels(ADDED)
    text = f"{WORDS[120]} {WORDS[200]}"
    [[explanation]] = classifier.explain([text], ["new one"])
    total = explanation.base + explanation.contributions.sum() + explanation.comparison
    np.testing.assert_allclose(total, explanation.log_odds, rtol=1e-6)
    column = classifier.classes_.tolist().index("new one")
    expected = classifier.decision_function([text])[0, column]
    np.testing.assert_allclose(explanation.log_odds, expected, rtol=1e-5)


def test_examples_of_an_added_label_are_learned_later(classifier):
    classifier.add_labels(ADDED)
    texts = [f"{WORDS[120]} {WORDS[i]}" for i in range(121, 151)]
    with pytest.warns(RembrandtWarning, match="fit again with all examples"):
        classifier.update(texts, [["new one"]] * len(texts))
    assert classifier.label_counts_[-2:].tolist() == [30, 0]
    assert classifier.model_.is_unseen[-2:].tolist() == [False, True]
    rows = [f"{WORDS[120]} {WORDS[160]} {WORDS[200]}"]
    assert "new one" in classifier.predict_topk(rows, k=3)[0][0].tolist()


def test_a_saved_model_keeps_added_labels(classifier, tmp_path):
    classifier.add_labels(ADDED)
    classifier.save(tmp_path / "model")
    again = load(tmp_path / "model")
    texts = documents(20, seed=2)[0]
    for answers in zip(classifier.predict_topk(texts), again.predict_topk(texts), strict=True):
        np.testing.assert_array_equal(*answers)


def test_a_name_that_is_set_is_matched(classifier):
    classifier.add_labels({"D77": "nothing known"})
    classifier.set_label_names({"D77": WORDS[230]})
    assert classifier.predict_topk([f"{WORDS[130]} {WORDS[230]}"], k=1)[0].tolist() == [["D77"]]


def test_other_names_are_matched_and_kept(classifier, tmp_path):
    """A label is found by its name, by its other names, and by no other word."""
    classifier.add_labels({"D77": (WORDS[230], "", WORDS[240], f"{WORDS[241]} {WORDS[242]}")})
    texts = [f"{WORDS[130]} {WORDS[i]}" for i in (230, 240)]
    texts.append(f"{WORDS[241]} {WORDS[242]}")

    def first_labels(model):
        return model.predict_topk(texts, k=1)[0][:, 0].tolist()

    assert first_labels(classifier) == ["D77"] * 3
    classifier.save(tmp_path / "model")
    assert first_labels(load(tmp_path / "model")) == ["D77"] * 3
    # They stay when other labels are named or added, and until the label is named again.
    classifier.add_labels({"D78": WORDS[250]})
    assert first_labels(classifier) == ["D77"] * 3
    classifier.set_label_names({"D77": WORDS[230]})
    assert first_labels(classifier)[0] == "D77"
    assert "D77" not in first_labels(classifier)[1:]


def test_a_model_that_matches_no_names_says_what_to_do():
    texts, labels = documents(150)
    model = RembrandtClassifier(parts=("centroids",), random_state=0).fit(texts, labels)
    with pytest.raises(SettingsError, match="does not match the names of labels"):
        model.add_labels({"tofu": "tofu"})
    with pytest.raises(SettingsError, match="one part of a model among others"):
        RembrandtClassifier(parts=("names",)).fit(texts, labels)


def test_the_benchmark_on_a_small_set():
    texts, labels = documents(1200)
    columns = [WORDS.index(names[0]) for names in labels]
    Y = sparse.csr_array((np.ones(len(texts)), (np.arange(len(texts)), columns)))
    rows = Rows(texts, Y, WORDS[: Y.shape[1]])
    measured = measure(rows.take(np.arange(900)), rows.take(np.arange(900, 1200)), {}, "fast", 4)
    assert measured["recall@5"] > 50
    assert measured["P@5 of others after"] > measured["P@5 of others before"] - 0.2
    assert 0.5 < measured["stated"] / measured["observed"] < 2


def test_the_benchmark_of_labels_that_a_fit_knows():
    train = documents_with_names_of_others(1200, 80)
    rows = Rows(train.texts, train.Y, train.label_ids)
    measured = measure_known(rows.take(np.arange(900)), rows.take(np.arange(900, 1200)), {}, "fast")
    assert measured["without examples"] == 80
    assert measured["P@1"] > 75
    assert measured["stated"] < 15
    assert measured["observed"] == 0


needs_data = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"there is no data at {FOLDER}; set REMBRANDT_DATA"
)


@needs_data
def test_tofu_is_found_by_its_name():
    data = read(FOLDER / "cooking/train.txt.gz", format="fasttext")
    assert data.texts is not None
    rows = [
        ([data.label_ids[i] for i in data.Y[[row]].indices], data.texts[row]) for row in range(2500)
    ]
    kept = [(labels, text) for labels, text in rows if "tofu" not in labels]
    classifier = RembrandtClassifier(random_state=0)
    classifier.fit([text for _, text in kept], [labels for labels, _ in kept])
    classifier.add_labels(TOFU)
    labels, _ = classifier.predict_topk(["How do I fry tofu so it is crisp?"], k=3)
    assert "tofu" in labels[0].tolist()


@needs_data
def test_hidden_labels_of_attack():
    train, test = parts_of("attack", develop=True)
    names = read_label_names(Path(FOLDER) / NAMES["attack"])
    some = np.arange(0, len(train.texts), 3)
    measured = measure(train.take(some), test, names, "fast", 30)
    assert measured["recall@5"] >= 20
    assert measured["P@5 of others after"] > measured["P@5 of others before"] - 0.3
    assert 0.4 < measured["stated"] / measured["observed"] < 2.5
