"""Texts of fruit and vehicles, and a tiny encoder of their words."""

from pathlib import Path

import pytest

from rembrandt import RembrandtClassifier
from tests.encoders import write_encoder

WORDS = ["red", "green", "blue", "fast", "apple", "pear", "plum", "car", "bus", "train"]
KINDS = {"fruit": ["apple", "pear", "plum"], "vehicle": ["car", "bus", "train"]}
TEXTS = [
    f"{colour} {word}" for words in KINDS.values() for word in words for colour in WORDS[:4]
] * 6
LABELS = [[kind] for kind, words in KINDS.items() for _ in words for _ in WORDS[:4]] * 6


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny encoder that knows the words."""
    return write_encoder(tmp_path_factory.mktemp("encoder") / "tiny", [*WORDS, *KINDS])


def fitted(encoder, preset="fast", **parameters) -> RembrandtClassifier:
    """Return a classifier with this encoder, fitted to the texts."""
    classifier = RembrandtClassifier(preset, encoder=encoder, random_state=0, **parameters)
    return classifier.fit(TEXTS, LABELS)


class Letters:
    """Counts of the letters: an object with ``encode``."""

    name = "letters"

    def __init__(self, width=26):
        self.width = width

    def encode(self, texts):
        return [
            [float(text.lower().count(chr(97 + i))) for i in range(self.width)] for text in texts
        ]
