"""Compile what a service needs, for an image whose file system cannot be written later:
``python -m rembrandt.serve.warming``.

Numba keeps compiled code in ``NUMBA_CACHE_DIR``.
"""

import tempfile
from pathlib import Path

from rembrandt.data.generated import labelled_documents
from rembrandt.estimators import RembrandtClassifier
from rembrandt.serve.app import create_app
from rembrandt.serve.limits import Limits
from rembrandt.serve.predictions import PredictJob, predict
from rembrandt.serve.registry import ServedModel
from rembrandt.serve.schemas import PredictRequest

_N_TEXTS = 400
_N_TOPICS = 4


def warm_up() -> None:
    """Fit, save, load and serve small models of texts."""
    data, _ = labelled_documents(_N_TEXTS, n_topics=_N_TOPICS, labels_per_topic=5)
    texts = (data.texts or [])[:_N_TOPICS]
    request = PredictRequest(texts=texts, explain=True)
    with tempfile.TemporaryDirectory() as folder:
        for preset in ("fast", "balanced"):
            path = Path(folder) / preset
            RembrandtClassifier(preset, random_state=0).fit_dataset(data).save(path)
            served = ServedModel(preset, path)
            for result in predict([PredictJob(served, request)]):
                if isinstance(result, Exception):
                    raise result
        create_app({"fast": Path(folder) / "fast"}, Limits())


if __name__ == "__main__":
    warm_up()
