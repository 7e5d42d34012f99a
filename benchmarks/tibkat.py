"""Subjects of library records in German and English, with the terms of each language and without,
and with the names of subjects and without.

python -m benchmarks.tibkat [NAME ...]      each run has its own process; measured on the dev part
python -m benchmarks.tibkat fast            all runs whose name begins with a word

The names are English, and less than half of the subjects have one. In the runs with "and new
subjects", those that have a name and no training record are added to the fitted model.
"""

import csv
import gzip
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmarks.real_sets import FOLDER, command, cpu_seconds, each

# Annif 1.4 on the same texts and the same dev records, from its report on the shared task: one
# Omikuji Bonsai on words and bigrams.
ANNIF = {"ndcg@10": 0.4740, "f1@5": 0.2737}


class Run(NamedTuple):
    """What a run sets beside the defaults."""

    settings: dict[str, Any]
    text: dict[str, Any]
    has_names: bool = False
    adds_subjects: bool = False


AUTO = {"language": "auto"}
FAST = {"preset": "fast"}
RUNS = {
    "fast": Run(FAST, {}),
    "fast, language=auto": Run(FAST, AUTO),
    "fast, language=auto, names": Run(FAST, AUTO, has_names=True),
    "fast, language=auto, names and new subjects": Run(FAST, AUTO, True, adds_subjects=True),
    "default": Run({}, {}),
    "default, language=auto": Run({}, AUTO),
    "default, language=auto, names": Run({}, AUTO, has_names=True),
    "default, language=auto, names and new subjects": Run({}, AUTO, True, adds_subjects=True),
}
WIDTH = 48  # of the names of runs in the table
Records = tuple[list[str], list[list[str]]]


def main(names: list[str] | None = None) -> dict[str, Any]:
    """Run what the names say, and print a table."""
    chosen = [run for run in RUNS if not names or any(run.startswith(name) for name in names)]
    results = {}
    print(f"{'run':<{WIDTH}}{'nDCG@10':>9}{'F1@5':>9}{'features':>10}{'CPU s':>9}")
    print(f"{'Annif, Omikuji Bonsai':<{WIDTH}}{ANNIF['ndcg@10']:>9.4f}{ANNIF['f1@5']:>9.4f}")
    for name, row in each("benchmarks.tibkat", chosen):
        results[name] = row
        print(
            f"{name:<{WIDTH}}{row['ndcg@10']:>9.4f}{row['f1@5']:>9.4f}{row['features']:>10,}"
            f"{row['cpu']:>9.0f}",
            flush=True,
        )
    return results


def one(name: str) -> dict[str, Any]:
    """Fit to the training part and measure on the dev part."""
    return measured(name, records("train"), records("dev"))


def measured(name: str, train: Records, test: Records, seed: int = 0) -> dict[str, Any]:
    """Fit and measure one run."""
    from rembrandt import RembrandtClassifier, TextFeatures

    run = RUNS[name]
    names = None
    if run.has_names:
        names = names_of_subjects()
    classifier = RembrandtClassifier(
        **run.settings, text=TextFeatures(**run.text), random_state=seed
    )
    start = time.perf_counter()
    start_cpu = cpu_seconds()
    classifier.fit(*train, label_names=names)
    if run.adds_subjects and names is not None:
        classifier.add_labels(names)
    cost = {"cpu": cpu_seconds() - start_cpu, "wall": time.perf_counter() - start}
    measures = {measure: classifier.score(*test, measure=measure) for measure in ANNIF}
    facts = {"features": classifier.n_features_in_, "parts": list(classifier.model_.parts)}
    return measures | cost | facts


def names_of_subjects() -> dict[str, Any]:
    """Return the English names of subjects."""
    from rembrandt.data.label_names import read_label_names

    return read_label_names(FOLDER / "tibkat" / "names_en.tsv.gz")


def records(part: str, limit: int | None = None) -> Records:
    """Return texts and subjects of one part, or of its first records."""
    texts = []
    subjects = []
    for number, row in enumerate(_rows(part)):
        if number == limit:
            break
        texts.append(row["text"])
        subjects.append(row["subjects"].split("|"))
    return texts, subjects


def _rows(part: str) -> Iterator[dict[str, str]]:
    with gzip.open(
        FOLDER / "tibkat" / f"{part}.tsv.gz", "rt", encoding="utf-8", newline=""
    ) as file:
        yield from csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


if __name__ == "__main__":
    command(__doc__, main, one)
