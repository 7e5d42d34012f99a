"""Labels that are added by their names are found by an encoder where no word says what they are."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from rembrandt import RembrandtClassifier, load
from rembrandt.errors import ModelError, StorageError
from rembrandt.parts.encoder.settings import EncoderSettings
from rembrandt.parts.encoder.text_encoder import NetworkEncoder
from rembrandt.parts.names.encoded import passages_of
from rembrandt.parts.names.label_texts import label_texts
from rembrandt.storage.arrays import read_arrays, write_arrays
from tests.encoders import write_encoder

# Of each topic a name, and words of its texts, which an encoder reads as the same.
N_TOPICS = 44
N_FITTED = 40
NAMES = [f"nnn{topic:03d}" for topic in range(N_TOPICS)]
WORDS = [[f"t{topic:03d}{letter}" for letter in "abc"] for topic in range(N_TOPICS)]
NOISE = [f"zz{number}" for number in range(30)]
ADDED = {f"C{topic}": NAMES[topic] for topic in range(N_FITTED, N_TOPICS)}
PARTS = ("centroids", "names")


def documents(n_rows, topics, seed=0):
    """Texts with two words of their topic, and the codes of the topics."""
    rng = np.random.default_rng(seed)
    texts = []
    labels = []
    for _ in range(n_rows):
        topic = int(rng.choice(topics))
        words = [*rng.choice(WORDS[topic], size=2), *rng.choice(NOISE, size=2)]
        texts.append(" ".join(rng.permutation(words)))
        labels.append([f"C{topic}"])
    return texts, labels


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> Path:
    """The folder of an encoder for which the words of a topic are the same."""
    of_topics = [word for words in WORDS for word in words]
    words = [*NAMES, *of_topics, *NOISE]
    folder = write_encoder(tmp_path_factory.mktemp("encoder") / "synonyms", words)
    arrays = dict(read_arrays(folder / "model.safetensors"))
    [table_name] = [name for name in arrays if name.endswith("word_embeddings.weight")]
    table = arrays[table_name].copy()
    first = len(table) - len(words)
    for topic in range(N_TOPICS):
        start = first + N_TOPICS + 3 * topic
        table[start : start + 3] = table[first + topic]
    write_arrays(folder / "model.safetensors", arrays | {table_name: table})
    return folder


def fitted(encoder):
    texts, labels = documents(5200, range(N_FITTED))
    names = {f"C{topic}": NAMES[topic] for topic in range(N_FITTED)}
    classifier = RembrandtClassifier("fast", parts=PARTS, encoder=encoder, random_state=0)
    return classifier.fit(texts, labels, label_names=names)


@pytest.fixture(scope="module")
def folder(encoder, tmp_path_factory):
    """A saved model with the encoder."""
    folder = tmp_path_factory.mktemp("fitted") / "model"
    fitted(EncoderSettings(str(encoder), training="frozen")).save(folder)
    return folder


@pytest.fixture
def classifier(folder):
    return load(folder)


NEW_TEXTS, NEW_LABELS = documents(40, range(N_FITTED, N_TOPICS), seed=1)


def share_of_first(classifier):
    """Return how many texts of the added labels have them first."""
    ranked, _ = classifier.predict_topk(NEW_TEXTS, k=1)
    return np.mean([row[0] == label for row, [label] in zip(ranked, NEW_LABELS, strict=True)])


def test_a_label_is_found_whose_name_has_no_word_of_the_text(classifier):
    classifier.add_labels(ADDED)
    assert share_of_first(classifier) > 0.8
    ranked, probabilities = classifier.predict_topk(NEW_TEXTS, k=4)
    assert 0.3 < probabilities[:, 0].mean() <= 1
    P = classifier.predict_proba(NEW_TEXTS)
    columns = {label: column for column, label in enumerate(classifier.classes_.tolist())}
    first = [columns[label] for label in ranked[:, 0]]
    assert_array_equal(P[np.arange(len(P)), first], probabilities[:, 0])


def test_without_an_encoder_it_is_not_found():
    classifier = fitted(None)
    part = classifier.model_.parts["names"]
    assert part.similarity is not None
    assert part.similarity.encoded is None
    assert not any("encoded" in name for name in part.arrays()[0])
    classifier.add_labels(ADDED)
    assert share_of_first(classifier) < 0.5


def test_a_text_has_the_same_similarities_alone_in_a_batch_and_after_loading(classifier, tmp_path):
    classifier.add_labels(ADDED)
    part = classifier.model_.parts["names"]
    test = np.array([*NEW_TEXTS[:20], *documents(20, range(N_FITTED), seed=2)[0]], dtype=object)
    together = part.every(part.prepare(test))
    assert (together[:20, N_FITTED:].max(axis=1) > 10 * part.floor).any()
    for row in range(len(test)):
        alone = part.every(part.prepare(test[[row]]))
        assert_array_equal(alone[0], together[row])
    labels, scores = part.top(part.prepare(test), 12)
    first_labels, first_scores = part.top(part.prepare(test), 3)
    assert_array_equal(labels[:, :3], first_labels)
    assert_array_equal(scores[:, :3], first_scores)
    classifier.save(tmp_path / "model")
    again = load(tmp_path / "model").model_.parts["names"]
    assert_array_equal(again.every(again.prepare(test)), together)


def test_labels_that_are_added_one_by_one_are_those_that_are_added_together(classifier, folder):
    classifier.add_labels(ADDED)
    another = load(folder)
    for label, name in ADDED.items():
        another.add_labels({label: name})
    together = classifier.model_.parts["names"]
    one_by_one = another.model_.parts["names"]
    vectors = together.similarity.encoded.vectors
    assert vectors.shape == (len(ADDED), 32)
    assert_array_equal(one_by_one.similarity.encoded.vectors, vectors)
    texts = np.array(NEW_TEXTS, dtype=object)
    scores = together.every(together.prepare(texts))
    assert_array_equal(one_by_one.every(one_by_one.prepare(texts)), scores)


def test_a_label_is_found_by_the_name_that_it_has_now(classifier):
    classifier.add_labels({"C40": "nothing", "C41": ""})
    row = NEW_LABELS.index(["C40"])

    def first_label():
        return classifier.predict_topk([NEW_TEXTS[row]], k=1)[0][0, 0]

    assert first_label() != "C40"
    names = {f"C{topic}": NAMES[topic] for topic in range(N_FITTED)}
    classifier.set_label_names({**names, "C40": NAMES[40]})
    assert first_label() == "C40"


def test_an_update_keeps_the_names_of_other_added_labels(classifier):
    classifier.add_labels(ADDED)
    before = classifier.model_.parts["names"].similarity.encoded.vectors
    classifier.update(*documents(60, [40], seed=3))
    assert classifier.label_counts_[-4:].tolist() == [60, 0, 0, 0]
    assert_array_equal(classifier.model_.parts["names"].similarity.encoded.vectors, before)
    ranked, _ = classifier.predict_topk(documents(20, [41], seed=4)[0], k=1)
    assert (ranked == "C41").mean() > 0.8


def test_an_explanation_adds_up(classifier):
    classifier.add_labels(ADDED)
    [label] = NEW_LABELS[0]
    [[explanation]] = classifier.explain(NEW_TEXTS[:1], [label])
    total = explanation.base + explanation.contributions.sum() + explanation.comparison
    np.testing.assert_allclose(total, explanation.log_odds, rtol=1e-6)
    column = classifier.classes_.tolist().index(label)
    expected = classifier.decision_function(NEW_TEXTS[:1])[0, column]
    np.testing.assert_allclose(explanation.log_odds, expected, rtol=1e-5)


def test_a_text_is_encoded_once_in_a_prediction(classifier, monkeypatch):
    classifier.add_labels(ADDED)
    encoded = []
    compute = NetworkEncoder.compute

    def counted(self, texts, *arguments):
        encoded.extend(texts)
        return compute(self, texts, *arguments)

    monkeypatch.setattr(NetworkEncoder, "compute", counted)
    classifier.predict_topk(NEW_TEXTS[:9], k=3)
    assert sorted(encoded) == sorted(set(NEW_TEXTS[:9]))


def test_without_added_labels_nothing_is_compared(classifier):
    part = classifier.model_.parts["names"]
    texts = np.array(NEW_TEXTS, dtype=object)
    alone = replace(part, encoder=None)
    assert_array_equal(alone.every(alone.prepare(texts)), part.every(part.prepare(texts)))


def test_the_encoder_is_that_of_the_model(classifier):
    parts = classifier.model_.parts
    assert parts["names"].encoder is parts["encoder"].encoder
    tuned = replace(parts["encoder"], is_tuned=True)
    assert tuned.text_vectors is None, "it has learned the labels"
    with pytest.raises(ModelError, match="compared by an encoder that it has not"):
        parts["names"].beside({"centroids": parts["centroids"]})


def test_names_that_do_not_fit_their_labels_are_refused(classifier):
    classifier.add_labels(ADDED)
    part = classifier.model_.parts["names"]
    arrays, facts = part.arrays()
    assert arrays["encoded.names"].dtype == np.float16
    assert part.sizes()[""] >= arrays["encoded.names"].nbytes
    for name in ("encoded.names", "encoded.name_centre", "map.weights"):
        with pytest.raises(StorageError):
            type(part).from_arrays({**arrays, name: arrays[name][:-1]}, facts)


def test_all_names_and_the_description_of_a_label_are_encoded():
    classes = np.array(["D1", "D2", "D3"])
    names = ["Tofu", "", "Rice"]
    descriptions = ["soy bean curd", "bread", ""]
    texts = label_texts(classes, names, descriptions, ["doufu\nbean curd", "", ""])
    assert passages_of(texts) == ["Tofu. doufu. bean curd. soy bean curd", "bread", "Rice"]
