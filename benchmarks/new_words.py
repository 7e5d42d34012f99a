"""Updates with new labels, whose texts have words that the fit did not see.

python -m benchmarks.new_words [NAME ...]

A tenth of the labels is kept from a fit, and an update has all of their examples. Printed is P@1 on
the test rows with a new label and on those without one: after an update with the words of the fit
alone, after one that learns new words, each without and with the old examples, and after a fit to
all examples.
"""

import copy
import sys
import warnings
from typing import Any

import numpy as np

from benchmarks.real_sets import load
from rembrandt import RembrandtClassifier
from rembrandt.data import Dataset

NAMES = ("cooking", "attack", "icd10cm", "nvd-products")
N_ROWS = 6000  # of the training part: four fifths to fit, the others to test
ANY_NUMBER = 1 << 30  # of terms: with a limit no new ones are learned


def main(names: list[str]) -> None:
    print(f"{'':<14}{'P@1 in %':<34}{'new labels':>11}{'others':>8}")
    for name in names or NAMES:
        for what, (new, others) in measured(name).items():
            print(f"{name:<14}{what:<34}{100 * new:>11.1f}{100 * others:>8.1f}", flush=True)


def measured(name: str, n_rows: int = N_ROWS, seed: int = 0) -> dict[str, tuple[float, float]]:
    """P@1 on test rows with a new label and without one, after each way to learn the new labels."""
    rng = np.random.default_rng(seed)
    train, _ = load(name)
    data = train.rows(rng.permutation(train.n_examples)[:n_rows])
    used = np.unique(data.Y.indices)
    new_labels = rng.choice(used, len(used) // 10, replace=False)
    has_new = np.asarray(data.Y[:, new_labels].sum(axis=1)).ravel() > 0
    is_test = np.arange(data.n_examples) >= 4 * data.n_examples // 5
    old = data.rows(~is_test & ~has_new)
    new = data.rows(~is_test & has_new)
    tests = [data.rows(is_test & has_new), data.rows(is_test & ~has_new)]

    def scores(model: RembrandtClassifier) -> tuple[float, float]:
        with_new, without = (model.score(test.texts, labels_of(test)) for test in tests)
        return with_new, without

    fitted = fast().fit(old.texts, labels_of(old))
    results = {"before": scores(fitted)}
    for what, limit in (("words of the fit", ANY_NUMBER), ("new words", None)):
        for history in (None, (old.texts, labels_of(old))):
            model = copy.deepcopy(fitted)
            model.text_.max_features = limit
            model.update(new.texts, labels_of(new), history=history)
            label = what if history is None else f"{what}, with history"
            results[label] = scores(model)
    everything = data.rows(~is_test)
    results["fit to all"] = scores(fast().fit(everything.texts, labels_of(everything)))
    return results


def fast() -> RembrandtClassifier:
    return RembrandtClassifier(preset="fast", random_state=0)


def labels_of(data: Dataset) -> list[list[Any]]:
    """The labels of each row by name."""
    ends = data.Y.indptr[1:-1]
    names = np.array(list(data.label_ids), dtype=object)
    return [row.tolist() for row in np.split(names[data.Y.indices], ends)]


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # a refit is due
    main(sys.argv[1:])
