"""Models with an encoder: fitted, saved, loaded and asked."""

import json
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from rembrandt import RembrandtClassifier, load
from rembrandt.errors import DataError, RembrandtError, SettingsError
from rembrandt.parts.encoder.settings import EncoderSettings
from tests.parts.encoder.conftest import LABELS, TEXTS, Letters, fitted

QUICK = {
    "training": "fine-tune",
    "batch_size": 48,
    "learning_rate": 4e-3,
    "head_learning_rate": 2e-2,
}


@pytest.fixture(scope="module")
def tuned(encoder):
    """A model with a fine-tuned encoder, whose number of epochs is chosen."""
    return fitted(EncoderSettings(str(encoder), **QUICK))


def test_a_fine_tuned_encoder_is_a_part_of_the_model(tuned):
    assert list(tuned.model_.parts)[-1] == "encoder"
    settings = tuned.settings_["parts"]["encoder"]
    assert settings["view"] == "texts"
    assert settings["settings"]["training"] == "fine-tune"
    epochs = settings["settings"]["epochs"]
    assert 1 <= epochs <= 20
    facts = tuned.model_.parts["encoder"].facts()
    assert facts["epochs"] == epochs
    assert facts["start"] == "names", "labels that are words are their own names"
    assert facts["licence"] == "bsd-3-clause"
    assert tuned.predict_labels(["green plum", "fast bus"], k=1) == [["fruit"], ["vehicle"]]
    assert "fine-tuned" in tuned.describe()["chosen"]["words"]


def test_half_of_the_held_out_rows_stop_the_fit(tuned, encoder):
    together = tuned.facts_.held_out[0]
    plain = fitted(None).facts_.held_out[0]
    assert 0 < together.n_examples <= plain.n_examples / 2 + 3
    given = fitted(EncoderSettings(str(encoder), epochs=1, **QUICK)).facts_.held_out[0]
    assert given.n_examples == plain.n_examples


def test_a_saved_model_has_its_encoder(tuned, tmp_path):
    new = ["blue pear", "red train", "something else"]
    expected = tuned.decision_function(new)
    tuned.save(tmp_path / "model")
    card = (tmp_path / "model/README.md").read_text(encoding="utf-8")
    assert "fine-tuned" in card and "its licence: bsd-3-clause" in card
    again = load(tmp_path / "model")
    assert_array_equal(again.decision_function(new), expected)
    assert again.settings_ == tuned.settings_
    assert again.model_.parts["encoder"].facts() == tuned.model_.parts["encoder"].facts()
    texts = json.dumps(new)
    program = (
        "import json, sys; from rembrandt import load; import rembrandt; "
        f"model = load({str(tmp_path / 'model')!r}); "
        "assert 'torch' not in sys.modules, 'torch was imported before it was needed'; "
        f"print(json.dumps(model.decision_function(json.loads({texts!r})).tolist()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert_allclose(np.float32(json.loads(done.stdout)), expected, atol=1e-4)


def test_without_a_refit_the_encoder_of_the_trial_is_kept(encoder, tmp_path):
    settings = EncoderSettings(str(encoder), refit=False, **QUICK)
    classifier = fitted(settings)
    qualities = classifier.model_.parts["encoder"].facts()["qualities"]
    assert qualities, "it was measured on held-out rows, which a refit has not"
    assert classifier.model_.parts["encoder"].encoder.device == "cpu"


def test_afrozen_encoder_is_referred_to_or_included(encoder, tmp_path):
    classifier = fitted(str(encoder))
    assert not classifier.model_.parts["encoder"].facts()["included"]
    expected = classifier.decision_function(TEXTS[:5])
    classifier.save(tmp_path / "referred")
    assert_array_equal(load(tmp_path / "referred").decision_function(TEXTS[:5]), expected)
    included = fitted(EncoderSettings(str(encoder), include_encoder=True))
    included.save(tmp_path / "included")
    assert_allclose(load(tmp_path / "included").decision_function(TEXTS[:5]), expected, atol=1e-5)
    size, more = (
        (tmp_path / name / "weights.safetensors").stat().st_size
        for name in ("referred", "included")
    )
    assert more > size + 2 * classifier.model_.parts["encoder"].encoder.width * 10


def test_another_encoder_under_the_same_name_is_refused(encoder, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(encoder, copy)
    fitted(str(copy)).save(tmp_path / "model")
    shutil.rmtree(copy)
    again = load(tmp_path / "model")
    with pytest.raises(RembrandtError, match="cannot be loaded"):
        again.predict(["a text that was not encoded"])
    from tests.encoders import write_encoder

    write_encoder(copy, ["other", "words"], seed=1)
    with pytest.raises(DataError, match="not the one that the model was fitted with"):
        again.predict(["a text that was not encoded"])


def test_an_object_with_encode_is_used_frozen(tmp_path):
    classifier = fitted(Letters())
    expected = classifier.predict_proba(["cars", "a plum"])
    classifier.save(tmp_path / "model")
    again = load(tmp_path / "model")
    with pytest.raises(DataError, match="the encoder 'letters', which gives vectors of 26"):
        again.predict(TEXTS[:3])
    with pytest.raises(DataError, match="have 5 dimensions, and those of the fit had 26"):
        again.set_encoder(Letters(5))
    again.set_encoder(Letters())
    assert_array_equal(again.predict_proba(["cars", "a plum"]), expected)
    assert clone(classifier).encoder.name == "letters"


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda texts: np.zeros(3), "expected one vector for each"),
        (lambda texts: np.zeros((len(texts) + 1, 2)), "expected one vector for each"),
        (lambda texts: np.full((len(texts), 2), np.nan), "not finite"),
        (lambda texts: [["a"]] * len(texts), "expected one vector for each"),
        (lambda texts: np.ones((len(texts), len(texts))), "have .* dimensions"),
    ],
)
def test_what_is_not_a_vector_for_each_text_is_refused(result, message):
    class Wrong:
        encode = staticmethod(result)

    with pytest.raises(DataError, match=message):
        fitted(Wrong())


def test_what_is_no_encoder_is_refused(encoder, tmp_path):
    with pytest.raises(SettingsError, match="must be the name or the folder"):
        fitted(3)
    with pytest.raises(RembrandtError, match="cannot be loaded"):
        fitted(str(tmp_path / "nothing"))
    with pytest.raises(SettingsError, match="names no encoder"):
        fitted(EncoderSettings(training="frozen"))
    with pytest.raises(SettingsError, match="training='fine-tune'"):
        fitted(EncoderSettings(Letters(), training="fine-tune"))
    with pytest.raises(DataError, match="an encoder reads texts"):
        RembrandtClassifier("fast", encoder=str(encoder)).fit(np.eye(20), LABELS[:20])


def test_a_text_without_known_words_has_labels_and_an_empty_one_none(tuned):
    labels, _ = tuned.predict_topk(["qwertyuiop", ""], k=1)
    assert labels[0, 0] is not None
    assert labels[1, 0] is None


def test_an_explanation_adds_up(tuned):
    explanation = tuned.explain(["red apple"], ["fruit"])[0][0]
    expected = tuned.decision_function(["red apple"])[0, tuned.classes_.tolist().index("fruit")]
    assert explanation.log_odds == pytest.approx(expected, abs=1e-3)
    total = explanation.base + explanation.contributions.sum() + explanation.comparison
    assert total == pytest.approx(expected, abs=1e-3)
    assert "the whole text" in dict(explanation.top(20))
    assert explanation.parts.keys() == tuned.model_.parts.keys()
    parts = explanation.document()["parts"]
    total = explanation.base + sum(part["contribution"] for part in parts)
    assert total + explanation.comparison == pytest.approx(expected, abs=1e-3)
    sizes = [abs(part["contribution"]) for part in parts]
    assert sizes == sorted(sizes, reverse=True)


def test_words_of_an_explanation_are_estimated_by_leaving_them_out(tuned):
    explanation = tuned.explain(["red apple"], ["fruit"])[0][0]
    words = explanation.document()["estimates"][0]["words"]
    assert {word["word"] for word in words} == {"apple", "red"}
    assert abs(words[0]["contribution"]) >= abs(words[1]["contribution"])
    part = tuned.model_.parts["encoder"]
    fruit = np.array([tuned.classes_.tolist().index("fruit")])
    alone = part._log_odds(np.array(["red apple", " apple", "red "], dtype=object), fruit)[:, 0]
    contribution = {word["word"]: word["contribution"] for word in words}
    changes = {"red": alone[0] - alone[1], "apple": alone[0] - alone[2]}
    slope = contribution["red"] / changes["red"]
    assert contribution["apple"] == pytest.approx(slope * changes["apple"], rel=1e-3)
    long = " ".join(["red"] * 200)
    assert len(tuned.explain([long], ["fruit"])[0][0].estimates["encoder"]) == 48
    assert tuned.explain([" . "], ["fruit"])[0][0].estimates == {}


def test_an_encoder_of_a_library_is_loaded_by_its_name(tmp_path, monkeypatch):
    from importlib.machinery import ModuleSpec
    from types import ModuleType, SimpleNamespace

    monkeypatch.setitem(sys.modules, "model2vec", None)  # not installed
    with pytest.raises(RembrandtError, match="needs model2vec: pip install model2vec"):
        fitted("model2vec:letters")
    library = ModuleType("model2vec")
    library.__spec__ = ModuleSpec("model2vec", None)
    loaded = []

    def from_pretrained(name):
        loaded.append(name)
        return Letters()

    library.StaticModel = SimpleNamespace(from_pretrained=from_pretrained)
    monkeypatch.setitem(sys.modules, "model2vec", library)
    classifier = fitted(f"model2vec:{tmp_path}")
    expected = classifier.predict_proba(["cars"])
    classifier.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert_array_equal(again.predict_proba(["cars"]), expected)
    assert set(loaded) == {str(tmp_path)}
    assert "which is not in the folder" in "".join(again.describe()["chosen"]["why"])


def test_a_checkpoint_has_no_objects(tmp_path):
    classifier = RembrandtClassifier("fast", encoder=Letters(), random_state=0)
    with pytest.raises(SettingsError, match="a checkpoint needs the name of an encoder"):
        classifier.fit(TEXTS, LABELS, checkpoint=tmp_path)


def test_the_number_of_tokens_of_frozen_vectors_is_taken_from_a_sample(encoder, monkeypatch):
    from rembrandt.parts.encoder import memory
    from rembrandt.parts.encoder.fit import frozen_encoder

    def n_tokens(texts):
        return frozen_encoder(texts, settings).max_tokens

    settings = EncoderSettings(str(encoder), training="frozen").with_defaults()
    short = "red"
    long = "red plum " * 6
    assert n_tokens([short]) < n_tokens([short, long]) == n_tokens([long])
    monkeypatch.setattr(memory, "SAMPLED_TEXTS", 1)
    numbers = {n_tokens([short, long]), n_tokens([long, short])}
    assert numbers == {n_tokens([short]), n_tokens([long])}


def test_vectors_of_a_usual_width_are_embedded_with_a_kernel():
    """It is worth seven points of P@1 there (MiniLM, cooking and attack)."""
    from rembrandt.parts.encoder.fit import vector_settings
    from tests.estimators.problems import examples

    rng = np.random.default_rng(0)
    for n_rows in (2000, 10_000):
        vectors = rng.standard_normal((n_rows, 384)).astype(np.float32)
        labels = rng.integers(0, 500, n_rows)
        Y = sparse.csr_array((np.ones(n_rows, np.float32), (np.arange(n_rows), labels)))
        settings = vector_settings(examples(vectors, Y))
        assert settings.kernel == "gaussian"
        assert settings.n_random_features >= 1000
