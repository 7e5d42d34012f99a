"""Generated data with known structure, for demonstrations, tests and benchmarks."""

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.arrays import label_rows
from rembrandt.data.dataset import Dataset

_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"


def labelled_documents(
    n: int, seed: int = 0, *, n_topics: int = 20, labels_per_topic: int = 25
) -> tuple[Dataset, Dataset]:
    """Generate documents of invented words with a two-level hierarchy of labels, as ``(train,
    test)``.

    A document has forty words, three labels on average and one topic, to which its labels (named
    ``topic-03/label-017``) belong. Each of its words comes from the language, from the topic or
    from one of its labels, each source with Zipf frequencies. So the labels of a topic share words
    and occur together, the topics are the leading ``n_topics`` directions between words and labels,
    and each label has words of its own. A fifth is for test.
    """
    rng = np.random.default_rng(seed)
    n_labels = n_topics * labels_per_topic
    topic = zipf(rng, n_topics, n)
    labels_each = 1 + rng.poisson(2.0, n)
    row_of_label = np.repeat(np.arange(n), labels_each)
    labels = topic[row_of_label] * labels_per_topic + zipf(rng, labels_per_topic, row_of_label.size)
    Y, _ = label_rows(labels_each, labels, n_labels)

    language, per_topic, per_label, per_row = 3000, 60, 8, 40  # words
    row = np.repeat(np.arange(n), per_row)
    source = rng.choice(3, row.size, p=(0.55, 0.33, 0.12))
    word_label = Y.indices[
        Y.indptr[row] + (rng.random(row.size) * np.diff(Y.indptr)[row]).astype(np.int64)
    ]
    of_language = zipf(rng, language, row.size)
    of_topic = language + topic[row] * per_topic + zipf(rng, per_topic, row.size)
    of_label = (
        language + n_topics * per_topic + word_label * per_label + zipf(rng, per_label, row.size)
    )
    words = np.choose(source, (of_language, of_topic, of_label))
    vocabulary = _pseudo_words(language + n_topics * per_topic + n_labels * per_label, rng)
    spelled = vocabulary[words].reshape(n, per_row)
    names = [
        f"topic-{i // labels_per_topic:02d}/label-{i % labels_per_topic:03d}"
        for i in range(n_labels)
    ]
    whole = Dataset.build(
        Y, texts=[" ".join(text) for text in spelled], label_names=names, task="multilabel"
    )
    return whole.split(0.2, seed)


def zipf(rng: np.random.Generator, choices: int, size: int) -> NDArray[np.int64]:
    """Draw from ``0 .. choices - 1``, the i-th with weight 1 / (i + 2)."""
    edges = np.cumsum(1.0 / np.arange(2, choices + 2))
    return np.searchsorted(edges, rng.random(size) * edges[-1], side="right").clip(max=choices - 1)


def _pseudo_words(count: int, rng: np.random.Generator) -> NDArray[np.object_]:
    """Distinct words that can be pronounced, in random order."""
    syllables = [a + b for a in _CONSONANTS for b in _VOWELS]
    base = len(syllables)
    spelled = []
    for i in range(base, base + count):
        word = ""
        while i:
            i, digit = divmod(i, base)
            word += syllables[digit]
        spelled.append(word)
    return np.array(spelled, object)[rng.permutation(count)]
