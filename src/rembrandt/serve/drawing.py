"""The map of a model's labels, drawn by a process of its own: it takes a while, and must not slow down answers.

python -m rembrandt.serve.drawing MODEL OUTPUT
"""

import os
import sys
from pathlib import Path

import numpy as np

from rembrandt.errors import RembrandtError
from rembrandt.estimators import load

MOST = 200_000  # labels on a map
_NICE = 10  # whatever else the machine has to do comes first


def draw(model: Path, output: Path) -> None:
    """Write a place for each label, c × 2; what is not on the map has none (NaN)."""
    from rembrandt.explore.mapping import label_map

    classifier = load(model, verify=False)
    placed = label_map(classifier, MOST)
    places = np.full((len(classifier.classes_), 2), np.nan, dtype=np.float32)
    places[placed.columns] = placed.places
    np.save(output, places)


if __name__ == "__main__":
    os.nice(_NICE)
    try:
        draw(Path(sys.argv[1]), Path(sys.argv[2]))
    except RembrandtError as error:
        sys.exit(str(error))
