"""Generated data with known structure, for demonstrations, tests and benchmarks."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.arrays import label_rows
from rembrandt.data.dataset import Dataset

_CONSONANTS = "bdfgklmnprstvz"
_VOWELS = "aeiou"

_N_LANGUAGE_WORDS = 3000  # words that any document may have
_N_TOPIC_WORDS = 60  # of each topic
_N_LABEL_WORDS = 8  # of each label
_DOCUMENT_WORDS = 40  # in a document
_SOURCES = (0.55, 0.33, 0.12)  # shares of words from the language, the topic and the labels


def labelled_documents(
    n: int, seed: int = 0, *, n_topics: int = 20, labels_per_topic: int = 25
) -> tuple[Dataset, Dataset]:
    """Generate documents of invented words with a two-level hierarchy of labels.

    A document has forty words, three labels on average and one topic, to which its labels (named
    ``topic-03/label-017``) belong. Each of its words comes from the language, from the topic or
    from one of its labels, each source with Zipf frequencies. So the labels of a topic share words
    and occur together, the topics are the leading ``n_topics`` directions between words and labels,
    and each label has words of its own.

    Parameters
    ----------
    n : int
        Number of documents.
    seed : int, default=0
        Seed of the random generator.
    n_topics : int, default=20
        Number of topics.
    labels_per_topic : int, default=25
        Number of labels of each topic.

    Returns
    -------
    train, test : Dataset
        A fifth of the documents is for test.
    """
    rng = np.random.default_rng(seed)
    n_labels = n_topics * labels_per_topic
    topics = zipf(rng, n_topics, n)
    Y = _draw_labels(rng, topics, n_labels, labels_per_topic)
    words = _draw_words(rng, topics, Y, n_topics)
    n_words = _N_LANGUAGE_WORDS + n_topics * _N_TOPIC_WORDS + n_labels * _N_LABEL_WORDS
    vocabulary = _pseudo_words(n_words, rng)
    documents = vocabulary[words].reshape(n, _DOCUMENT_WORDS)
    label_ids = [
        f"topic-{label // labels_per_topic:02d}/label-{label % labels_per_topic:03d}"
        for label in range(n_labels)
    ]
    whole = Dataset.build(
        Y,
        texts=[" ".join(document) for document in documents],
        label_ids=label_ids,
        task="multilabel",
    )
    return whole.split(0.2, seed)


def _draw_labels(
    rng: np.random.Generator, topics: NDArray[np.int64], n_labels: int, labels_per_topic: int
) -> sparse.csr_array:
    """The labels of each document, drawn from those of its topic."""
    counts = 1 + rng.poisson(2.0, len(topics))
    label_topics = np.repeat(topics, counts)
    labels = label_topics * labels_per_topic + zipf(rng, labels_per_topic, label_topics.size)
    Y, _ = label_rows(counts, labels, n_labels)
    return Y


def _draw_words(
    rng: np.random.Generator, topics: NDArray[np.int64], Y: sparse.csr_array, n_topics: int
) -> NDArray[np.int64]:
    """The words of all documents, as numbers: of the language first, then of topics and labels."""
    rows = np.repeat(np.arange(len(topics)), _DOCUMENT_WORDS)
    n_words = rows.size
    source = rng.choice(3, n_words, p=_SOURCES)
    # Each word may come from one of the labels of its document.
    row_labels = np.diff(Y.indptr)[rows]
    drawn = (rng.random(n_words) * row_labels).astype(np.int64)
    labels = Y.indices[Y.indptr[rows] + drawn]

    first_of_topics = _N_LANGUAGE_WORDS
    first_of_labels = first_of_topics + n_topics * _N_TOPIC_WORDS
    of_language = zipf(rng, _N_LANGUAGE_WORDS, n_words)
    of_topic = zipf(rng, _N_TOPIC_WORDS, n_words)
    of_label = zipf(rng, _N_LABEL_WORDS, n_words)
    of_topic += first_of_topics + topics[rows] * _N_TOPIC_WORDS
    of_label += first_of_labels + labels * _N_LABEL_WORDS
    return np.choose(source, (of_language, of_topic, of_label))


def zipf(rng: np.random.Generator, choices: int, size: int) -> NDArray[np.int64]:
    """Draw from ``0 .. choices - 1``, the i-th with weight 1 / (i + 2)."""
    edges = np.cumsum(1.0 / np.arange(2, choices + 2))
    points = rng.random(size) * edges[-1]
    drawn = np.searchsorted(edges, points, side="right")
    return drawn.clip(max=choices - 1)


def _pseudo_words(count: int, rng: np.random.Generator) -> NDArray[np.object_]:
    """Distinct words that can be pronounced, in random order."""
    syllables = [consonant + vowel for consonant in _CONSONANTS for vowel in _VOWELS]
    base = len(syllables)
    words = []
    for number in range(base, base + count):  # from there on words have two syllables or more
        word = ""
        while number:
            number, digit = divmod(number, base)
            word += syllables[digit]
        words.append(word)
    return np.array(words, object)[rng.permutation(count)]
