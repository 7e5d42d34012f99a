"""Labels that have a name and no example: how many are predicted, and whether probabilities are true.

    python -m benchmarks.zero_shot                        attack and gutenberg, preset fast
    python -m benchmarks.zero_shot attack --preset balanced --develop
    python -m benchmarks.zero_shot --encoder FOLDER --rows 4000      with a frozen encoder
    python -m benchmarks.zero_shot --known --rows 6000 --develop     of labels that the fit knew

Fifty labels with 5 to 50 training examples are chosen by a hash of their name. All training rows
that have one of them leave the training part, and the labels are then added by their names alone.
Measured on the test part, or with ``--develop`` on a fifth of the training rows: how often these
labels are among the first five of the rows that have them; P@5 of the other labels before and after
they were added; and their stated probabilities, summed over all of them among the first twenty of a
row, next to how many are true. ``--rows`` takes so many training rows, by a hash of their texts.

With ``--known`` nothing is hidden or added: the fit knows the names of all labels of the set, and
``--rows`` leaves many of them without an example. Measured are the precision of all labels, and the
probabilities of those without examples, stated and observed, among the first twenty of a row.
"""

import argparse
import hashlib
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.encoder import usable_encoder
from benchmarks.real_sets import FOLDER, load_part
from rembrandt import RembrandtClassifier
from rembrandt.data import Dataset
from rembrandt.data.label_names import read_label_names
from rembrandt.data.labels import Title
from rembrandt.estimators.requests import rows_of, top_columns
from rembrandt.parts.encoder.settings import EncoderSettings

SETS = ("attack", "gutenberg")
# Files of names; other labels are words.
NAMES = {
    "attack": "attack/techniques.tsv.gz",
    "icd10cm": "icd10cm/categories.tsv.gz",
    "pubmed-mesh": "mesh/descriptors.tsv.gz",
}
N_HIDDEN = 50
FEWEST_EXAMPLES = 5
MOST_EXAMPLES = 50
FIRST = 5  # labels of a row within which a label counts as predicted
SHOWN = 20  # labels of a row whose probabilities are added up
DEVELOPMENT_SHARE = 5  # one of so many training rows is a test row


@dataclass(frozen=True)
class Rows:
    """Texts and their labels over the columns of one list of labels."""

    texts: list[str]
    Y: sparse.csr_array
    labels: list[str]

    def take(self, index: NDArray[Any]) -> "Rows":
        """Return some of the rows."""
        texts = [self.texts[row] for row in index]
        return Rows(texts, sparse.csr_array(self.Y[index]), self.labels)

    def lists(self) -> list[list[str]]:
        """Return the labels of each row."""
        ends = self.Y.indptr
        names = [self.labels[column] for column in self.Y.indices]
        return [names[start:stop] for start, stop in pairwise(ends)]


def hashed(text: str) -> int:
    """Return a number that depends on the text alone."""
    return int(hashlib.sha1(text.encode()).hexdigest()[:8], 16)


def rows_in(set_name: str, part: str) -> Rows:
    """Return one part of a set."""
    data = load_part(set_name, part)
    return Rows(list(data.texts), sparse.csr_array(data.Y), list(data.label_ids))


def parts_of(set_name: str, develop: bool) -> tuple[Rows, Rows]:
    """Return training and test rows; for development both are training rows."""
    train = rows_in(set_name, "train")
    if not develop:
        return train, rows_in(set_name, "test")
    # The parts of some sets were divided by the hash of the text alone.
    numbers = [hashed(f"development {text}") for text in train.texts]
    is_test = np.array(numbers) % DEVELOPMENT_SHARE == 0
    return train.take(np.flatnonzero(~is_test)), train.take(np.flatnonzero(is_test))


def some_rows(rows: Rows, n_most: int | None) -> Rows:
    """Return so many rows at most, by a hash of their texts."""
    if n_most is None or n_most >= len(rows.texts):
        return rows
    numbers = np.array([hashed(f"rows {text}") for text in rows.texts])
    chosen = np.argsort(numbers, kind="stable")[:n_most]
    return rows.take(np.sort(chosen))


def names_in(set_name: str) -> dict[str, Title]:
    """Return the names of the labels of a set; none where labels are words."""
    if set_name not in NAMES:
        return {}
    return read_label_names(FOLDER / NAMES[set_name])


def possible_labels(train: Rows) -> NDArray[np.int64]:
    """Return the columns of labels that can be hidden, by the hash of the label."""
    counts = np.bincount(train.Y.indices, minlength=len(train.labels))
    possible = np.flatnonzero((counts >= FEWEST_EXAMPLES) & (counts <= MOST_EXAMPLES))
    by_hash = sorted(possible.tolist(), key=lambda column: hashed(train.labels[column]))
    return np.array(by_hash, dtype=np.int64)


def chosen_labels(train: Rows, n_labels: int = N_HIDDEN) -> NDArray[np.int64]:
    """Return the columns of the labels that are hidden."""
    return possible_labels(train)[:n_labels]


def without_labels(train: Rows, hidden: NDArray[np.int64]) -> Rows:
    """Return the rows that have none of some labels."""
    is_hidden = np.zeros(len(train.labels), dtype=np.bool_)
    is_hidden[hidden] = True
    has_hidden = train.Y @ is_hidden.astype(np.float64) > 0
    return train.take(np.flatnonzero(~has_hidden))


def names_of_rows(rows: Rows, names: dict[str, Title]) -> dict[str, Title] | None:
    """Return the names of the labels that some rows have; None where there are none."""
    known = {label for labels in rows.lists() for label in labels}
    shown = {label: title for label, title in names.items() if label in known}
    return shown or None


def measure(
    train: Rows,
    test: Rows,
    names: dict[str, Title],
    preset: Any,
    n_labels: int = N_HIDDEN,
    encoder: Any = None,
) -> dict[str, Any]:
    """Fit without some labels, add them by their names, and measure."""
    hidden = chosen_labels(train, n_labels)
    rest = without_labels(train, hidden)
    classifier = RembrandtClassifier(preset=preset, encoder=encoder, random_state=0)
    classifier.fit(rest.texts, rest.lists(), label_names=names_of_rows(rest, names))
    hidden_labels = [train.labels[column] for column in hidden]
    before = first_labels(classifier, test.texts, FIRST)[0]
    classifier.add_labels({label: names.get(label, "") for label in hidden_labels})
    ranked, probabilities = first_labels(classifier, test.texts, SHOWN)
    return {
        "parts": list(classifier.model_.parts),
        "rows": len(rest.texts),
        **_measures(test, set(hidden_labels), before, ranked, probabilities),
    }


def measure_known(
    train: Rows, test: Rows, names: dict[str, Title], preset: Any, encoder: Any = None
) -> dict[str, Any]:
    """Fit with the names of labels that have no examples, and measure."""
    data = Dataset.build(train.Y, texts=train.texts, label_ids=train.labels, task="multilabel")
    data = replace(data, label_names=names)
    classifier = RembrandtClassifier(preset=preset, encoder=encoder, random_state=0)
    classifier.fit_dataset(data)
    counts = classifier.label_counts_
    unseen = set(classifier.classes_[counts == 0].tolist())
    ranked, probabilities = first_labels(classifier, test.texts, SHOWN)
    is_unseen = np.array([[label in unseen for label in labels] for labels in ranked])
    true = [set(labels) for labels in test.lists()]
    is_true = np.array(
        [[label in of_row for label in labels] for labels, of_row in zip(ranked, true, strict=True)]
    )
    return {
        "parts": list(classifier.model_.parts),
        "rows": len(train.texts),
        "labels": len(counts),
        "without examples": len(unseen),
        **{f"P@{k}": round(100 * float(is_true[:, :k].mean()), 2) for k in (1, 3, 5)},
        "stated": round(float(probabilities[is_unseen].sum()), 1),
        "observed": int(is_true[is_unseen].sum()),
    }


def first_labels(
    classifier: RembrandtClassifier, texts: list[str], k: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the best labels, None where there is none, and their probabilities."""
    columns, probabilities = top_columns(classifier, rows_of(classifier, texts), k)
    return np.array([*classifier.classes_.tolist(), None], dtype=object)[columns], probabilities


def _measures(
    test: Rows,
    hidden: set[str],
    before: NDArray[Any],
    ranked: NDArray[Any],
    probabilities: NDArray[Any],
) -> dict[str, Any]:
    true = [set(labels) for labels in test.lists()]
    # Of each label: how often it is right, and how often it is then predicted.
    n_of_labels = {label: np.zeros(2) for label in sorted(hidden)}
    hits_before = 0
    hits_after = 0
    stated = 0.0
    observed = 0
    for row, labels in enumerate(true):
        others = labels - hidden
        predicted = set(ranked[row, :FIRST])
        for label in labels & hidden:
            n_of_labels[label] += (1, label in predicted)
        hits_before += len(others & set(before[row]))
        hits_after += len(others & predicted)
        for label, probability in zip(ranked[row], probabilities[row], strict=True):
            if label in hidden:
                stated += float(probability)
                observed += label in labels
    n = len(true)
    counts = np.array(list(n_of_labels.values()))
    n_true, n_predicted = counts.sum(axis=0).astype(int).tolist()
    return {
        "labels": len(hidden),
        "true": n_true,
        "recall@5": round(100 * n_predicted / max(1, n_true), 1),
        "standard error": round(100 * recall_error(counts), 1),
        "P@5 of others before": round(100 * hits_before / (FIRST * n), 2),
        "P@5 of others after": round(100 * hits_after / (FIRST * n), 2),
        "stated": round(stated, 1),
        "observed": observed,
    }


def recall_error(counts: NDArray[Any]) -> float:
    """Return the standard error of a recall over labels (n × true and predicted rows).

    Rows of one label are found by the same name, so labels are what is drawn.
    """
    n_true, n_predicted = counts.sum(axis=0)
    if n_true == 0:
        return 0.0
    recall = n_predicted / n_true
    differences = counts[:, 1] - recall * counts[:, 0]
    return float(np.sqrt((differences**2).sum()) / n_true)


def main(
    sets: list[str] | None = None,
    preset: str = "fast",
    develop: bool = False,
    encoder: str | None = None,
    n_rows: int | None = None,
    n_labels: int = N_HIDDEN,
    known: bool = False,
) -> list[dict[str, Any]]:
    """Run the sets whose data is present, and print what was measured."""
    if not FOLDER.is_dir():
        print(
            f"skipped: there is no data at {FOLDER}; set REMBRANDT_DATA to the folder that holds it"
        )
        return []
    results = []
    folder: Any = nullcontext()
    if encoder is not None:
        folder = usable_encoder(encoder)
    with folder as usable:
        settings = None
        if usable is not None:
            settings = EncoderSettings(usable, training="frozen")
        for set_name in sets or SETS:
            train, test = parts_of(set_name, develop)
            train = some_rows(train, n_rows)
            names = names_in(set_name)
            if known:
                measured = measure_known(train, test, names, preset, settings)
            else:
                measured = measure(train, test, names, preset, n_labels, settings)
            result = {"set": set_name, "preset": preset, "encoder": encoder, **measured}
            print(result, flush=True)
            results.append(result)
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="*", help="which sets; all by default")
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--develop", action="store_true", help="measure on training rows")
    parser.add_argument("--encoder", help="folder of an encoder, which is used frozen")
    parser.add_argument("--rows", type=int, help="training rows; all by default")
    parser.add_argument("--labels", type=int, default=N_HIDDEN, help="labels that are hidden")
    parser.add_argument("--known", action="store_true", help="the fit knows the names of all")
    arguments = parser.parse_args()
    main(
        arguments.sets,
        arguments.preset,
        arguments.develop,
        arguments.encoder,
        arguments.rows,
        arguments.labels,
        arguments.known,
    )
