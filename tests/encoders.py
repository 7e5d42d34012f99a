"""Tiny encoders for tests."""

import atexit
import shutil
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import tiny_encoder


def write_encoder(folder: Path, words: Iterable[str], **options: Any) -> Path:
    """Write the folder of an encoder that knows these words; skip where one cannot be made."""
    pytest.importorskip("torch", reason="an encoder needs torch")
    pytest.importorskip("transformers", reason="an encoder needs transformers")
    return tiny_encoder.write_encoder(folder, words, **options)


@cache
def word_encoder(n_words: int = 140) -> str:
    """Return the folder of an encoder of the words ``w0``, ``w1`` and so on."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(write_encoder(folder / "words", [f"w{number}" for number in range(n_words)]))


def texts_of_rows(X: Any) -> np.ndarray:
    """Return rows of counts as texts: the word ``w7`` as often as feature 7 counts."""
    texts = np.empty(X.shape[0], dtype=object)
    for row in range(X.shape[0]):
        entries = X[[row]].tocoo()
        words = [
            " ".join([f"w{column}"] * max(1, round(float(value))))
            for column, value in zip(entries.coords[-1], entries.data, strict=True)
        ]
        texts[row] = " ".join(words)
    return texts
