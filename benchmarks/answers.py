"""Whether answers agree with each other, and whether probabilities mean what they say.

    python -m benchmarks.answers                       every set, preset balanced
    python -m benchmarks.answers cooking attack --preset fast
    python -m benchmarks.answers cooking --load        and the service under mixed load

For every set: P@k of the first five labels; whether they and their probabilities are the same bits
for every k, in `predict_proba`, and for single rows; the calibration error of all labels with a
probability of 0.05 or more; the sum of all probabilities next to the number of labels; and the CPU
time of prediction. With ``--load``, 12 clients ask the service for 1 to 50 labels at the same time,
and every answer is compared with that to the same request alone.
"""

import argparse
import json
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.real_sets import FOLDER, cpu_seconds, load
from rembrandt import RembrandtClassifier
from rembrandt.estimators.requests import rows_of
from rembrandt.metrics import calibration_error, evaluate, reliability
from rembrandt.predict import Request, all_probabilities, answer
from rembrandt.probabilities import is_blank

SETS = (
    "bibtex",
    "delicious",
    "cooking",
    "gutenberg",
    "pubmed-mesh",
    "nvd-products",
    "attack",
    "icd10cm",
)
SHOWN = 0.05  # probability from which calibration is measured
ALL_SCORES = 30_000_000  # probabilities of all labels that are computed, at most
SINGLE_ROWS = 100
N_CLIENTS = 12
LARGEST_K = 50


def measure(name: str, preset: str, with_load: bool, n_requests: int) -> dict[str, Any]:
    """Fit a model to a set and examine its answers on the test part."""
    train, test = load(name)
    start = cpu_seconds()
    classifier = RembrandtClassifier(preset=preset, random_state=0).fit_dataset(train)
    fit_seconds = cpu_seconds() - start
    model = classifier.model_
    known = test.align_labels([str(label) for label in classifier.classes_])
    rows = rows_of(classifier, known.inputs)
    answer(model, Request(rows[:50], 5))  # loads compiled code
    start = cpu_seconds()
    first_five = answer(model, Request(rows, 5))
    predict_seconds = cpu_seconds() - start
    measures = evaluate(
        known.Y, first_five.labels, model.label_counts, model.n_train, ks=(1, 3, 5),
        missing_labels=known.dropped_labels,
    )  # fmt: skip
    row = {
        "set": name,
        "preset": preset,
        **{f"p@{k}": round(100 * measures[f"p@{k}"], 2) for k in (1, 3, 5)},
        "fit CPU s": round(fit_seconds, 1),
        "predict CPU us a row": round(1e6 * predict_seconds / rows.n, 1),
        **agreement(model, rows, known),
    }
    if with_load:
        texts = list(test.texts or [])
        row["changed under load"] = changed_under_load(classifier, texts, n_requests)
    return row


def agreement(model: Any, rows: Any, known: Any) -> dict[str, Any]:
    """Compare answers for several k, with all probabilities, and with single rows."""
    n_rows = min(rows.n, max(SINGLE_ROWS, ALL_SCORES // model.n_labels))
    sample = np.sort(np.random.default_rng(0).permutation(rows.n)[:n_rows])
    some = rows[sample]
    P = all_probabilities(model, some)
    readable = ~is_blank(model, some)
    order = np.argsort(-P[readable], axis=1, kind="stable")
    first = answer(model, Request(some, 5))
    differs = {}
    for k in (1, 20, 50, 100):
        longer = answer(model, Request(some, k))
        width = min(5, k)
        same = _same(first, longer, width)
        differs[f"rows that differ at k = {k}"] = int((~same).sum())
    differs["rows that differ from predict_proba"] = int(
        (first.labels[readable] != order[:, :5]).any(axis=1).sum()
    )
    single = 0
    for row in range(min(SINGLE_ROWS, n_rows)):
        alone = answer(model, Request(some[[row]], 5))
        width = alone.labels.shape[1]
        equal = (alone.labels[0] == first.labels[row, :width]).all()
        equal &= (alone.probabilities[0] == first.probabilities[row, :width]).all()
        single += not equal
    truth = known.Y[sample].toarray() > 0
    shown = P >= SHOWN
    error = calibration_error(reliability(P[shown], truth[shown]))
    n_labels = (truth.sum() + known.dropped_labels[sample].sum()) / n_rows
    return differs | {
        "single rows that differ": single,
        "calibration error": round(100 * float(error), 2),
        "sum of probabilities": round(float(P.sum()) / n_rows, 3),
        "labels a row": round(float(n_labels), 3),
    }


def _same(first: Any, longer: Any, width: int) -> Any:
    labels = longer.labels[:, :width] == first.labels[:, :width]
    probabilities = longer.probabilities[:, :width] == first.probabilities[:, :width]
    return (labels & probabilities).all(axis=1)


def changed_under_load(classifier: Any, texts: list[str], n_requests: int) -> str:
    """Ask the service from several clients at a time, and then alone; count answers that differ."""
    import httpx

    from rembrandt.serve import running
    from rembrandt.serve.app import create_app

    answers: dict[tuple[int, int], Any] = {}
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        classifier.save(Path(folder) / "model")
        listening = running.listen("127.0.0.1", 0)
        server = running.Server(create_app({"model": Path(folder) / "model"}))
        service = threading.Thread(target=server.run, args=([listening],))
        service.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1/predict"

        def ask(session: Any, client: int, number: int) -> Any:
            rng = np.random.default_rng([client, number])
            document = {
                "texts": [texts[int(rng.integers(len(texts)))]],
                "top_k": int(rng.integers(1, LARGEST_K + 1)),
            }
            reply = session.post(url, json=document, timeout=60).raise_for_status()
            return reply.json()["predictions"]

        def run_client(client: int) -> None:
            with httpx.Client() as session:
                for number in range(n_requests):
                    answers[client, number] = ask(session, client, number)

        clients = [threading.Thread(target=run_client, args=(i,)) for i in range(N_CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        with httpx.Client() as session:
            for (client, number), under_load in answers.items():
                if ask(session, client, number) != under_load:
                    wrong.append((client, number))
        server.should_exit = True
        service.join()
        listening.close()
    return f"{len(wrong)} of {len(answers)}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--preset", default="balanced")
    parser.add_argument("--load", action="store_true", help="also ask the service under load")
    parser.add_argument("--requests", type=int, default=1000, help="of each client")
    arguments = parser.parse_args()
    if not FOLDER.is_dir():
        print(
            f"skipped: there is no data at {FOLDER}; set REMBRANDT_DATA to the folder of the sets"
        )
        return
    for name in arguments.sets:
        row = measure(name, arguments.preset, arguments.load, arguments.requests)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
