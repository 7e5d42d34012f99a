"""Answers of the service do not depend on the requests of others."""

import threading
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from rembrandt import RembrandtClassifier
from rembrandt.data import Dataset
from tests.serve.conftest import served

N_CLIENTS = 6
N_REQUESTS = 25  # of each client


@pytest.fixture(scope="module")
def all_parts(documents: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with every part and a kernel."""
    path = tmp_path_factory.mktemp("served") / "all"
    RembrandtClassifier("balanced", random_state=0).fit_dataset(documents).save(path)
    return path


def requests_of(texts: list[str], labels: list[str], seed: int) -> list[dict[str, Any]]:
    """Requests for one to twenty labels of one to three texts, some with excluded labels."""
    rng = np.random.default_rng(seed)
    requests = []
    for _ in range(N_REQUESTS):
        chosen = rng.integers(0, len(texts), size=rng.integers(1, 4))
        request: dict[str, Any] = {
            "texts": [texts[i] for i in chosen],
            "top_k": int(rng.integers(1, 21)),
        }
        if rng.random() < 0.2:
            request["exclude"] = [labels[int(rng.integers(len(labels)))]]
        requests.append(request)
    return requests


def test_under_mixed_load_as_alone(all_parts: Path, documents: Dataset) -> None:
    texts = list(documents.texts or [])[:60]
    labels = list(documents.label_ids)
    requests = [requests_of(texts, labels, seed) for seed in range(N_CLIENTS)]
    answers: list[list[Any]] = [[] for _ in range(N_CLIENTS)]
    with served({"all": all_parts}) as address:
        url = f"{address}/v1/predict"

        def client(number: int) -> None:
            with httpx.Client() as session:
                for request in requests[number]:
                    reply = session.post(url, json=request, timeout=60)
                    answers[number].append(reply.raise_for_status().json()["predictions"])

        threads = [threading.Thread(target=client, args=(number,)) for number in range(N_CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with httpx.Client() as session:
            for client_requests, client_answers in zip(requests, answers, strict=True):
                for request, under_load in zip(client_requests, client_answers, strict=True):
                    alone = session.post(url, json=request, timeout=60).json()["predictions"]
                    assert under_load == alone
