"""The features that all peers share: made once for a set, kept in the user's cache as arrays without pickle."""

import hashlib
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import rembrandt
from benchmarks.peers.environments import cache_folder
from rembrandt.data import Dataset, catalogue
from rembrandt.features.text import TextFeatures

# Names of concepts are a word or two, often never seen before: their letters say more than the words.
CHARACTERS = {"mesh"}
_WORD = re.compile(r"\w+")


def prepared(name: str, folder: str | Path | None = None) -> Path:
    """The folder with the set's arrays, made now where it is not there yet."""
    place = place_of(name, folder)
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{name}."))
        try:
            write(name, catalogue.load(name, "train", folder), catalogue.load(name, "test", folder), aside)
            aside.rename(place)
        except BaseException:
            shutil.rmtree(aside)
            raise
    return place


def place_of(name: str, folder: str | Path | None = None) -> Path:
    """Where the set's arrays are, or will be; the name ends in what they depend on."""
    return cache_folder() / "sets" / f"{name}-{fingerprint(name, folder)}"


def write(name: str, train: Dataset, test: Dataset, folder: Path) -> None:
    """Features and labels of both parts, and their words; columns are those of the training part."""
    test = test.align_labels(train.label_names)
    if train.texts is not None and test.texts is not None:
        text = TextFeatures(analyzer="char" if name in CHARACTERS else "word")
        X_train, X_test = text.fit_transform(train.texts), text.transform(test.texts)
        words: list[Any] = [_words(train.texts), _words(test.texts)]
    else:
        test = test.align_features(train.feature_names) if train.feature_names is not None else test
        X_train, X_test = train.X, test.X
        words = [_numbered(X_train), _numbered(X_test)]
    for part, X, Y, lines in (("train", X_train, train.Y, words[0]), ("test", X_test, test.Y, words[1])):
        sparse.save_npz(folder / f"X_{part}.npz", X, compressed=False)
        sparse.save_npz(folder / f"Y_{part}.npz", Y, compressed=False)
        (folder / f"words_{part}.txt").write_text("\n".join(lines) + "\n")
    np.save(folder / "missing_test.npy", test.dropped_labels)
    facts = {"n_train": train.n_examples, "n_test": test.n_examples, "n_features": X_train.shape[1],
             "n_labels": train.n_labels}  # fmt: skip
    (folder / "facts.json").write_text(json.dumps(facts))


def fingerprint(name: str, folder: str | Path | None = None) -> str:
    """Changes with the set's files and with the code that makes features of them."""
    entry = catalogue.ENTRIES[name]
    place = catalogue.require_folder(entry, "train", folder)
    digest = hashlib.sha256()
    for part in (entry.train, entry.test):
        status = (place / part).stat()
        digest.update(f"{part} {status.st_size} {status.st_mtime_ns}".encode())
    digest.update(sources("features"))
    digest.update(Path(__file__).read_bytes())
    return digest.hexdigest()[:12]


def sources(below: str = "") -> bytes:
    """A digest of the package's code in a folder of it."""
    digest = hashlib.sha256()
    root = Path(rembrandt.__file__).parent / below
    for file in sorted(root.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.digest()


def _words(texts: list[str]) -> list[str]:
    """The words that the features count, in their order."""
    return [" ".join(_WORD.findall(text.lower())) for text in texts]


def _numbered(X: sparse.csr_array) -> list[str]:
    """A word for each feature that a row holds."""
    return [" ".join(f"f{column}" for column in row.tolist()) for row in np.split(X.indices, X.indptr[1:-1])]


if __name__ == "__main__":  # in a process of its own, which gives the memory back
    print(prepared(sys.argv[1]))
