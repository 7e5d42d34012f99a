"""Features for all programs: computed once for each set and stored as arrays, without pickle, in
the user's cache.
"""

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
from benchmarks import variants
from benchmarks.peers.environments import cache_folder
from benchmarks.peers.harness import pairs
from rembrandt.data import Dataset, catalogue
from rembrandt.features.text import TextFeatures

# Names of concepts have one or two words, many of them new, so character n-grams work better than
# words.
CHARACTERS = {"mesh"}
_WORD = re.compile(r"\w+")
_ROWS = 10_000  # written at a time


def prepared(name: str, folder: str | Path | None = None) -> Path:
    """Return the folder with the arrays of a set; create it if it does not exist."""
    target = set_folder(name, folder)
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
        try:
            write(name, *variants.load(name, folder), aside)
            aside.rename(target)
        except BaseException:
            shutil.rmtree(aside)
            raise
    return target


def set_folder(name: str, folder: str | Path | None = None) -> Path:
    """Return the folder for the arrays of a set; its name ends with a digest of everything they
    depend on.
    """
    return cache_folder() / "sets" / f"{file_name(name)}-{fingerprint(name, folder)}"


def file_name(name: str) -> str:
    """Return the name of a set or variant as a part of a file name."""
    return name.replace(", ", "-")


def write(name: str, train: Dataset, test: Dataset, folder: Path) -> None:
    """Write features, labels and words of both parts, over the columns of the training part.

    ``train.txt`` has the training part in the format of the Extreme Classification Repository, for
    programs that read this format. omikuji cannot read rows without features, so that they are left
    out.
    """
    test = test.align_labels(train.label_ids)
    if train.texts is not None and test.texts is not None:
        base, _, kind = name.partition(", ")
        characters = kind == "characters" or (base in CHARACTERS and kind != "words")
        text = TextFeatures(analyzer="char" if characters else "word")
        X_train, X_test = text.fit_transform(train.texts), text.transform(test.texts)
        words: list[Any] = [_words(train.texts), _words(test.texts)]
    else:
        test = test.align_features(train.feature_names) if train.feature_names is not None else test
        X_train, X_test = train.X, test.X
        words = [_numbered(X_train), _numbered(X_test)]
    for part, X, Y, lines in (
        ("train", X_train, train.Y, words[0]),
        ("test", X_test, test.Y, words[1]),
    ):
        sparse.save_npz(folder / f"X_{part}.npz", X, compressed=False)
        sparse.save_npz(folder / f"Y_{part}.npz", Y, compressed=False)
        (folder / f"words_{part}.txt").write_text("\n".join(lines) + "\n")
    write_text(X_train, train.Y, folder / "train.txt")
    np.save(folder / "missing_test.npy", test.dropped_labels)
    facts = {
        "n_train": train.n_examples,
        "n_test": test.n_examples,
        "n_features": X_train.shape[1],
        "n_labels": train.n_labels,
    }
    (folder / "facts.json").write_text(json.dumps(facts))


def write_text(X: sparse.csr_array, Y: sparse.csr_array, file: Path) -> None:
    """Write the rows that have features in the format of the Extreme Classification Repository."""
    kept = np.flatnonzero(np.diff(X.indptr))
    with file.open("w") as lines:
        lines.write(f"{len(kept)} {X.shape[1]} {Y.shape[1]}\n")
        for begin in range(0, len(kept), _ROWS):
            rows = kept[begin : begin + _ROWS]
            own = Y[rows]
            for mine, features in zip(
                np.split(own.indices, own.indptr[1:-1]), pairs(X[rows]), strict=True
            ):
                lines.write(f"{','.join(map(str, mine.tolist()))} {features}\n")


def fingerprint(name: str, folder: str | Path | None = None) -> str:
    """Return a digest of the files of a set and of the code that computes its features."""
    base, kind = variants.parts_of(name)
    entry = catalogue.DATA_SETS[base]
    source = catalogue.require_folder(entry, folder)
    digest = hashlib.sha256()
    for part in (entry.train, entry.test):
        status = (source / part).stat()
        digest.update(f"{part} {status.st_size} {status.st_mtime_ns}".encode())
    digest.update(sources("features"))
    digest.update(Path(__file__).read_bytes())
    if kind:
        digest.update(name.encode() + Path(variants.__file__).read_bytes())
    return digest.hexdigest()[:12]


def sources(below: str = "") -> bytes:
    """Return a digest of the code in a folder of the package."""
    digest = hashlib.sha256()
    root = Path(rembrandt.__file__).parent / below
    for file in sorted(root.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.digest()


def _words(texts: list[str]) -> list[str]:
    """Return the words of each text in their order."""
    return [" ".join(_WORD.findall(text.lower())) for text in texts]


def _numbered(X: sparse.csr_array) -> list[str]:
    """Return a word for each non-zero feature of a row."""
    return [
        " ".join(f"f{column}" for column in row.tolist())
        for row in np.split(X.indices, X.indptr[1:-1])
    ]


if __name__ == "__main__":  # in a separate process, which frees its memory at its end
    print(prepared(sys.argv[1]))
