"""Vectors that are kept on disk."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from rembrandt.parts.encoder import cache, text_encoder
from rembrandt.parts.encoder.cache import cached_vectors
from rembrandt.parts.encoder.text_encoder import GivenEncoder
from tests.parts.encoder.conftest import Letters


class Counted(Letters):
    """Counts the texts that were encoded."""

    n_texts = 0

    def encode(self, texts):
        self.n_texts += len(texts)
        return super().encode(texts)


@pytest.fixture
def letters():
    return Counted()


@pytest.fixture
def encoder(letters):
    made = GivenEncoder("letters", letters)
    letters.n_texts = 0
    return made


def test_a_text_is_encoded_once(encoder, letters, tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "BLOCK_TEXTS", 2)
    texts = ["a red car", "a bus", "a red car", "a plum", "", "a bus"]
    expected = encoder.compute(texts)
    letters.n_texts = 0
    assert_array_equal(cached_vectors(encoder, "e1", texts, folder=tmp_path), expected)
    assert letters.n_texts == 4
    more = [*texts[::-1], "a new one"]
    vectors = cached_vectors(encoder, "e1", more, folder=tmp_path)
    assert_array_equal(vectors, encoder.compute(more))
    assert letters.n_texts == 5 + len(more)
    cached_vectors(encoder, "e2", texts, folder=tmp_path)
    assert letters.n_texts == 9 + len(more), "another encoder has other vectors"


def test_damaged_files_are_deleted(encoder, tmp_path, caplog):
    texts = ["a red car", "a bus"]
    expected = cached_vectors(encoder, "e1", texts, folder=tmp_path)
    [path] = tmp_path.glob("*/*.safetensors")
    path.write_bytes(path.read_bytes()[:-5])
    assert_array_equal(cached_vectors(encoder, "e1", texts, folder=tmp_path), expected)
    assert "is deleted from the cache" in caplog.text


def test_the_oldest_files_are_deleted(encoder, tmp_path, monkeypatch):
    import os

    cached_vectors(encoder, "e1", ["a"], folder=tmp_path)
    [old] = tmp_path.glob("*/*.safetensors")
    os.utime(old, (0, 0))
    monkeypatch.setattr(cache, "MOST_BYTES", old.stat().st_size)
    cached_vectors(encoder, "e1", ["b"], folder=tmp_path)
    assert not old.exists()
    assert len(list(tmp_path.glob("*/*.safetensors"))) == 1


def test_a_cache_that_cannot_be_written_is_left_out(encoder, tmp_path):
    (tmp_path / "file").write_text("")
    vectors = cached_vectors(encoder, "e1", ["a", "b"], folder=tmp_path / "file")
    assert vectors.shape == (2, 26)
    assert np.isfinite(vectors).all()


def test_the_last_vectors_are_kept_in_memory(encoder, letters, monkeypatch):
    monkeypatch.setattr("rembrandt.parts.encoder.text_encoder.KEPT_TEXTS", 2)
    texts = ["a", "b", "a", "c"]
    assert_array_equal(encoder.vectors(texts), encoder.compute(texts))
    letters.n_texts = 0
    encoder.vectors(["b", "c"])
    assert letters.n_texts == 0
    encoder.vectors(["a"])
    assert letters.n_texts == 1


def test_a_second_fit_encodes_nothing(tmp_path, monkeypatch):
    """Neither the texts that a part is fitted to, nor those that are held out."""
    from rembrandt.parts.encoder.text_encoder import NetworkEncoder
    from tests.encoders import write_encoder
    from tests.parts.encoder.conftest import WORDS, fitted

    monkeypatch.setenv("REMBRANDT_CACHE", str(tmp_path / "cache"))
    folder = str(write_encoder(tmp_path / "tiny", WORDS, seed=7))
    encoded = []
    compute = NetworkEncoder.compute

    def counted(self, texts, *more):
        encoded.extend(texts)
        return compute(self, texts, *more)

    monkeypatch.setattr(NetworkEncoder, "compute", counted)
    first = fitted(folder)
    assert len(encoded) == len(set(encoded)) > 0, "a text was encoded twice"
    encoded.clear()
    again = fitted(folder)
    assert encoded == []
    new = ["blue pear", "a fast bus"]
    assert_array_equal(again.predict_proba(new), first.predict_proba(new))


def test_the_vectors_of_the_last_texts_stay_in_memory(encoder, letters, monkeypatch):
    monkeypatch.setattr(text_encoder, "KEPT_TEXTS", 3)
    for texts, n_encoded in [("ab", 2), ("bc", 1), ("abc", 0), ("cd", 1), ("bcd", 0), ("a", 1)]:
        letters.n_texts = 0
        assert_array_equal(encoder.vectors(list(texts)), encoder.compute(list(texts)))
        assert letters.n_texts == n_encoded + len(texts)
