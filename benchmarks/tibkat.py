"""Subjects of library records in German and English, with the terms of each language and without.

python -m benchmarks.tibkat [NAME ...]      each run has its own process; measured on the dev part
python -m benchmarks.tibkat fast            all runs whose name begins with a word
"""

import csv
import gzip
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.real_sets import FOLDER, command, cpu_seconds, each

# Annif 1.4 on the same texts and the same dev records, from its report on the shared task: one
# Omikuji Bonsai on words and bigrams.
ANNIF = {"ndcg@10": 0.4740, "f1@5": 0.2737}
RUNS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "fast": ({"preset": "fast"}, {}),
    "fast, language=auto": ({"preset": "fast"}, {"language": "auto"}),
    "default": ({}, {}),
    "default, language=auto": ({}, {"language": "auto"}),
}
Records = tuple[list[str], list[list[str]]]


def main(names: list[str] | None = None) -> dict[str, Any]:
    """Run what the names say, and print a table."""
    chosen = [run for run in RUNS if not names or any(run.startswith(name) for name in names)]
    results = {}
    print(f"{'run':<26}{'nDCG@10':>9}{'F1@5':>9}{'features':>10}{'CPU s':>9}")
    print(f"{'Annif, Omikuji Bonsai':<26}{ANNIF['ndcg@10']:>9.4f}{ANNIF['f1@5']:>9.4f}")
    for name, row in each("benchmarks.tibkat", chosen):
        results[name] = row
        print(
            f"{name:<26}{row['ndcg@10']:>9.4f}{row['f1@5']:>9.4f}{row['features']:>10,}"
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

    settings, texts = RUNS[name]
    classifier = RembrandtClassifier(**settings, text=TextFeatures(**texts), random_state=seed)
    start = time.perf_counter()
    start_cpu = cpu_seconds()
    classifier.fit(*train)
    cost = {"cpu": cpu_seconds() - start_cpu, "wall": time.perf_counter() - start}
    measures = {measure: classifier.score(*test, measure=measure) for measure in ANNIF}
    return measures | cost | {"features": classifier.n_features_in_}


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
