"""Speed of tf-idf features compared with scikit-learn, on the same texts in one run.

python -m benchmarks.text_features
"""

import time

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from rembrandt.data.generated import labelled_documents
from rembrandt.features.text import TextFeatures


def main(n: int = 30_000, repeats: int = 3) -> dict[str, float]:
    """Time fit and transform of both on generated documents, and print the ratio."""
    texts = labelled_documents(n)[0].texts
    assert texts is not None
    seconds: dict[str, list[float]] = {"rembrandt": [], "scikit-learn": []}
    for _ in range(repeats + 1):
        start = time.perf_counter()
        ours = TextFeatures(min_df=2).fit_transform(texts)
        seconds["rembrandt"].append(time.perf_counter() - start)
        start = time.perf_counter()
        vectorizer = TfidfVectorizer(
            sublinear_tf=True, min_df=2, token_pattern=r"(?u)\b\w+\b", dtype=np.float32
        )
        theirs = vectorizer.fit_transform(texts)
        seconds["scikit-learn"].append(time.perf_counter() - start)
    assert ours.shape == theirs.shape
    median = {
        name: float(np.median(times[1:])) for name, times in seconds.items()
    }  # the first run compiles
    print(f"{len(texts):,} documents, {ours.nnz:,} non-zeros, median of {repeats}")
    for name, value in median.items():
        print(f"{name:<14}{value:>8.2f} s{len(texts) / value:>12,.0f} documents/s")
    ratio = median["scikit-learn"] / median["rembrandt"]
    print(f"{'ratio':<14}{ratio:>8.2f}")
    return {"ratio": ratio}


if __name__ == "__main__":
    main()
