"""Sentence vectors next to words: each sees what the other misses.

Any encoder will do. With sentence-transformers the vectors are::

    vectors = SentenceTransformer("all-MiniLM-L6-v2").encode(texts)

Here they are made of character n-grams, so that the example needs no download. On the command line,
write them to a file with one row for each example and give it to every command: ``rembrandt fit
train.csv --vectors train.npy ...``.
"""

import random

from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from rembrandt import RembrandtClassifier

WORDS = {
    "bread": ["dough", "doughs", "knead", "kneading", "yeast", "yeasts", "loaf"],
    "fish": ["salmon", "salmons", "trout", "fillet", "filleted", "filleting"],
    "soup": ["broth", "broths", "simmer", "simmering", "ladle", "ladles"],
}
rng = random.Random(0)
labels = [rng.choice(sorted(WORDS)) for _ in range(400)]
texts = [
    " ".join(rng.choices(["how", "why", "the", "a"], k=3) + rng.choices(WORDS[label], k=2))
    for label in labels
]
encoder = make_pipeline(
    TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4)), TruncatedSVD(16, random_state=0)
)
vectors = encoder.fit_transform(texts).astype("float32")

classifier = RembrandtClassifier(preset="fast", random_state=0).fit((texts, vectors), labels)

new = [
    "how to knead doughy",
    "trouts",
    "simmered",
]  # the last two have no word of the training texts
names, probabilities = classifier.predict_topk((new, encoder.transform(new).astype("float32")), k=1)
for text, name, probability in zip(new, names[:, 0], probabilities[:, 0], strict=True):
    print(f"{text}: {name} ({probability:.0%})")
