"""From a CSV file to a service that answers: read, fit, evaluate, save, serve, ask.

On the command line the same is::

    rembrandt fit train.csv --text question --labels tags --label-separator ';' --output model
    rembrandt evaluate model test.csv
    rembrandt serve model

Needs ``pip install 'rembrandt[serve]'``.
"""

import csv
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.request import Request, urlopen

from rembrandt import RembrandtClassifier, read
from rembrandt.evaluation import measure

SUBJECTS = {
    "bread": "dough yeast knead oven",
    "soup": "broth simmer ladle",
    "fish": "salmon fillet",
    "pan": "iron skillet",
}


def write_csv(file: Path, n: int, seed: int) -> None:
    """Write questions about one or two subjects; replace this with your own file."""
    rng = random.Random(seed)
    with file.open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(["question", "tags"])
        for _ in range(n):
            tags = rng.sample(sorted(SUBJECTS), rng.choice([1, 1, 2]))
            words = [rng.choice([tag, *SUBJECTS[tag].split()]) for tag in tags for _ in range(3)]
            table.writerow([f"How do I use {' and '.join(words)}?", ";".join(tags)])


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    write_csv(folder / "train.csv", 300, seed=0)
    write_csv(folder / "test.csv", 100, seed=1)

    train, test = (
        read(folder / f"{part}.csv", text="question", labels="tags", label_separator=";")
        for part in ("train", "test")
    )
    classifier = RembrandtClassifier(preset="fast", random_state=0).fit_dataset(train)
    print(f"P@1 on {test.n_examples} other questions: {measure(classifier, test).model['p@1']:.1%}")
    classifier.save(
        folder / "model", extra={"examples": train.texts[:3]}
    )  # the page shows the examples

    command = [sys.executable, "-m", "rembrandt", "serve", folder / "model", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        try:
            line = (
                service.stdout.readline()
            )  # Serving model at http://127.0.0.1:8000 (Ctrl-C to stop)
            address = line.split(" at ")[1].split()[0]
            asked = json.dumps({"texts": ["Which oven for yeast dough?"], "top_k": 2}).encode()
            request = Request(f"{address}/v1/predict", asked, {"Content-Type": "application/json"})
            with urlopen(request, timeout=30) as answer:
                for label in json.load(answer)["predictions"][0]:
                    print(f"{label['name']}: {label['probability']:.1%}")
        finally:
            service.terminate()
