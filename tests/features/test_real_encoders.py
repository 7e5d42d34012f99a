"""Encoders of real libraries, where they are installed: made here, saved, and loaded by name as
users do.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from rembrandt import RembrandtClassifier, TextFeatures, load
from rembrandt.errors import RembrandtError
from rembrandt.features.encoder import LIBRARIES, load_encoder

WORDS = ["red", "green", "blue", "apple", "pear", "plum", "car", "bus", "train"]
KINDS = {"fruit": ("apple", "pear", "plum"), "vehicle": ("car", "bus", "train")}
TRAIN = [
    (f"{colour} {word}", kind)
    for kind, words in KINDS.items()
    for word in words[:2]
    for colour in WORDS[:3]
] * 5


def tokenizer() -> Any:
    tokenizers = pytest.importorskip("tokenizers")
    names = {word: i for i, word in enumerate(["[UNK]", "[PAD]", *WORDS])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(names, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return made


def vectors() -> np.ndarray:
    """Fruit and vehicles point in opposite directions, and colours in none."""
    kind = [
        0,
        0,
        *(
            next((1 - 2 * i for i, words in enumerate(KINDS.values()) if w in words), 0)
            for w in WORDS
        ),
    ]
    return np.column_stack([kind, np.full(len(kind), 0.1)]).astype(np.float32)


@pytest.fixture(params=LIBRARIES)
def name(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The name of a small encoder of a library; its folder is new."""
    library, folder = request.param, tmp_path / "encoder"
    reason = f"needs {library}: pip install {library}"
    if library == "model2vec":
        model2vec = pytest.importorskip("model2vec", reason=reason)
        model2vec.StaticModel(vectors(), tokenizer()).save_pretrained(str(folder))
    else:
        library_module = pytest.importorskip("sentence_transformers", reason=reason)
        from sentence_transformers.models import StaticEmbedding

        words = StaticEmbedding(tokenizer(), embedding_weights=vectors())
        library_module.SentenceTransformer(modules=[words], device="cpu").save(str(folder))
    return f"{library}:{folder}"


def test_an_encoder_is_loaded_by_name_and_knows_words_that_the_texts_have_not(
    name: str, tmp_path: Path
) -> None:
    encoder = load_encoder(name)
    texts, labels = zip(*TRAIN, strict=True)
    classifier = RembrandtClassifier(text=TextFeatures(encoder=encoder), random_state=0).fit(
        list(texts), list(labels)
    )
    new = ["green plum", "plum", "train"]  # words of the encoder alone
    assert classifier.predict(new).tolist() == ["fruit", "fruit", "vehicle"]
    classifier.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.text_.encoder.name == name
    again.text_.set_encoder(load_encoder(name))
    assert_array_equal(again.predict_proba(new), classifier.predict_proba(new))
    assert clone(classifier).text.encoder is encoder, "a clone shares the weights"
    assert again.text_.n_encoded_ == 2


def test_what_cannot_be_loaded_is_one_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    library = name.partition(":")[0]
    with pytest.raises(RembrandtError, match=f"{library} cannot load the encoder .*nothing"):
        load_encoder(f"{library}:{tmp_path / 'nothing'}")
