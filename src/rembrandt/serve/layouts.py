"""Maps of the labels, drawn up in the background once a model is loaded."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.errors import RembrandtError
from rembrandt.serve.registry import Served

log = logging.getLogger("rembrandt.serve")


def draw(classifier: Any) -> NDArray[Any]:
    """A place in the plane for each label."""
    from rembrandt.explore.map import label_map  # type: ignore

    return np.asarray(label_map(classifier))


class Layouts:
    """One map for each model, of its latest version."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mapping")
        self._lock = threading.Lock()
        self._drawn: dict[str, tuple[str, NDArray[Any] | str]] = {}  # version, and places or what went wrong

    def begin(self, served: Served) -> None:
        """Draw this model's map when the thread is free."""
        self._thread.submit(self._draw, served)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def document(self, served: Served, limit: int) -> dict[str, Any]:
        """The map as it stands: the most frequent labels with their places, or why there is none."""
        with self._lock:
            version, found = self._drawn.get(served.name, ("", "the map is being drawn up; ask again soon"))
        facts: dict[str, Any] = {"model": served.name, "state": "ready", "message": ""}
        columns = np.empty(0, np.int64)
        if version != served.version:
            facts |= {"state": "working", "message": "the map is being drawn up; ask again soon"}
        elif isinstance(found, str):
            facts |= {"state": "missing", "message": found}
        else:
            columns = served.labels.by_frequency[:limit]
            columns = columns[np.isfinite(found[columns]).all(axis=1)]
        places = np.round(found[columns], 4) if isinstance(found, np.ndarray) and len(columns) else np.empty((0, 2))
        chosen = columns.tolist()
        return facts | {
            "label": [served.labels.ids[column] for column in chosen],
            "name": [served.labels.names[column] for column in chosen],
            "count": served.labels.counts[columns].tolist(),
            "x": places[:, 0].tolist(),
            "y": places[:, 1].tolist(),
        }

    def _draw(self, served: Served) -> None:
        found: NDArray[Any] | str
        try:
            found = draw(served.classifier)
        except (ImportError, RembrandtError) as error:
            found = str(error)
        except Exception:
            log.exception("no map of %s", served.name)
            found = "the map could not be drawn up; the server's log says why"
        with self._lock:
            self._drawn[served.name] = (served.version, found)
