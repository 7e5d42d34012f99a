"""Small models, and the service as users start it."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from scipy import sparse

from rembrandt import RembrandtClassifier
from rembrandt.data import Dataset
from rembrandt.data.generated import labelled_documents
from rembrandt.explore.neighbors import scaled_vectors
from rembrandt.serve import running
from rembrandt.serve.app import create_app
from rembrandt.serve.limits import Limits

TOKEN = "0123456789abcdef-token"
EXAMPLE = "A text to click"
HOSTILE = "<img src=x onerror=alert(1)>"  # the title of the first label
SETTINGS: dict[str, Any] = {
    "parts": ("embedding",),
    "n_components": 12,
    "decoder": "ridge",
    "decoder_ridge": 0.01,
    "kernel": None,
    "normalize": False,
    "random_state": 0,
}


def texts_of(seed: int = 0) -> Dataset:
    return labelled_documents(600, n_topics=4, labels_per_topic=5, seed=seed)[0]


def fit(data: Dataset, path: Path, **settings: Any) -> Path:
    classifier = RembrandtClassifier(**SETTINGS | settings).fit_dataset(data)
    classifier.set_label_names(
        {data.label_ids[0]: (HOSTILE, f"About {HOSTILE}"), data.label_ids[1]: "A plain title"}
    )
    examples = [EXAMPLE + " " + (data.texts or [""])[0], 7, ""]  # what is no text is not shown
    classifier.save(path, force=True, extra={"metrics": {"P@1": 0.5}, "examples": examples})
    return path


def until(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds; give up after a time that only a failure takes."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def simple_map(model: Any) -> Any:
    """A map at no cost: the first two coordinates."""
    return scaled_vectors(model.classifier)[:, :2]


@pytest.fixture(scope="session")
def documents() -> Dataset:
    return texts_of()


@pytest.fixture(scope="session")
def model(documents: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model fitted to texts."""
    return fit(documents, tmp_path_factory.mktemp("served") / "words")


@pytest.fixture(scope="session")
def feature_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model fitted to numbered features, with one class per example."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 200)
    X = sparse.csr_array(np.eye(5)[y] + (rng.random((200, 5)) > 0.8))
    path = tmp_path_factory.mktemp("served") / "numbers"
    RembrandtClassifier(**SETTINGS | {"n_components": 4}).fit(X, y).save(path)
    return path


@pytest.fixture(scope="session")
def fast_model(documents: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model without an embedding."""
    path = tmp_path_factory.mktemp("served") / "fast"
    classifier = RembrandtClassifier("fast", parts=("trees", "centroids"), random_state=0)
    classifier.fit_dataset(documents)
    classifier.set_label_names({documents.label_ids[3]: "The name of a label"}).save(path)
    return path


@contextmanager
def served(
    paths: dict[str, Path],
    limits: Limits = Limits(),  # noqa: B008
    token: str | None = None,
    corrections: Path | None = None,
) -> Iterator[str]:
    """Run the service in a thread at a free port and yield its address."""
    listening = running.listen("127.0.0.1", 0)
    app = create_app(paths, limits, token, compute_map=simple_map, corrections=corrections)
    server = running.Server(app)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        listening.close()


@contextmanager
def started(
    *arguments: Any, token: str | None = None
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run ``rembrandt serve`` in another process at a free port; yield its address and the
    process.
    """
    environment = {name: value for name, value in os.environ.items() if name != "REMBRANDT_TOKEN"}
    environment |= {"PYTHONUNBUFFERED": "1"} | ({} if token is None else {"REMBRANDT_TOKEN": token})
    command = [sys.executable, "-m", "rembrandt", "serve", *map(str, arguments), "--port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout is not None and process.stderr is not None
        said = process.stdout.readline()
        match = re.search(r"http://\S+", said)
        assert match, said + process.stderr.read()
        yield match[0], process
    finally:
        process.kill()
        process.communicate(timeout=20)


@pytest.fixture(scope="session")
def address(model: Path, feature_model: Path, fast_model: Path) -> Iterator[str]:
    """A service with three models and no token."""
    with served({"words": model, "numbers": feature_model, "fast": fast_model}) as url:
        yield url


@pytest.fixture(scope="session")
def token_address(model: Path) -> Iterator[str]:
    """A service with a token."""
    with served({"words": model}, token=TOKEN) as url:
        yield url


@pytest.fixture(scope="session")
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=30) as client:
        yield client
