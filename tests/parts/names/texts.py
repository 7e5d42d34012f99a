"""Random names, descriptions and texts of few stems, of which a simple computation knows all."""

import numpy as np

from rembrandt.parts.names.label_texts import LabelTexts
from rembrandt.parts.names.stems import StemFrequencies
from rembrandt.parts.names.terms import STEM_LENGTH, spell

STEMS = ["alpha", "bravo", "charl", "delta", "echoo", "foxtr", "golfs", "hotel"]
# The words of a stem differ after it.
WORDS = [f"{stem}{ending}" for stem in STEMS for ending in "xyz"]
UNKNOWN = ["unkno", "neverseen"]


def random_texts(rng, n, longest, words=WORDS):
    """Texts of up to so many words; some are empty."""
    return [" ".join(rng.choice(words, rng.integers(0, longest + 1))) for _ in range(n)]


def random_labels(rng, n_labels):
    """Labels with up to three names each, some with a description, and some with equal names.

    The last one has a single word.
    """
    names = []
    labels = []
    for label in range(n_labels - 1):
        for name in random_texts(rng, rng.integers(0, 4), 3):
            if name:
                names.append(name)
                labels.append(label)
    names[0] = names[-1] = "alphax bravoy"
    described = [text * (rng.random() < 0.5) for text in random_texts(rng, n_labels - 1, 6)]
    return LabelTexts([*names, "alphaz"], np.array([*labels, n_labels - 1]), [*described, ""])


def stems_in(text):
    return [word[:STEM_LENGTH] for word in text.split()]


class Counted:
    """Stems counted in some texts, and their rarities one by one."""

    def __init__(self, texts):
        self.texts = texts
        self.frequencies = StemFrequencies.of(spell(texts))

    def rarity(self, stem):
        n_with = sum(stem in stems_in(text) for text in self.texts)
        return np.log1p(len(self.texts) / (1 + n_with))
